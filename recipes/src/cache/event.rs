//! What a cache tells its listeners.

use coord_api::{Entry, Key};

/// One change of a cached key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key was created (`old` is `None`) or changed.
    Put {
        /// What was there before, if anything.
        old: Option<Entry>,
        /// What is there now.
        new: Entry,
    },
    /// A key was deleted.
    Delete {
        /// What was there before.
        old: Entry,
    },
}

impl Change {
    /// The key that changed.
    #[must_use]
    pub const fn key(&self) -> &Key {
        match self {
            Self::Put { new: entry, .. } | Self::Delete { old: entry } => &entry.key,
        }
    }

    /// What was there before, if anything.
    #[must_use]
    pub const fn before(&self) -> Option<&Entry> {
        match self {
            Self::Put { old, .. } => old.as_ref(),
            Self::Delete { old } => Some(old),
        }
    }

    /// What is there now, if anything.
    #[must_use]
    pub const fn after(&self) -> Option<&Entry> {
        match self {
            Self::Put { new, .. } => Some(new),
            Self::Delete { .. } => None,
        }
    }

    /// From what was there to what is there; `None` if nothing changed.
    pub(super) fn between(old: Option<Entry>, new: Option<Entry>) -> Option<Self> {
        match (old, new) {
            (Some(old), Some(new)) if same(&old, &new) => None,
            (old, Some(new)) => Some(Self::Put { old, new }),
            (Some(old), None) => Some(Self::Delete { old }),
            (None, None) => None,
        }
    }

    /// How much memory its values take.
    pub(super) fn bytes(&self) -> usize {
        self.before().map_or(0, |old| old.value.len()) + self.after().map_or(0, |new| new.value.len())
    }
}

/// Whether two entries are one state of one key. Its version would not do: it may restart when the key is made anew.
pub(super) fn same(old: &Entry, new: &Entry) -> bool {
    (old.meta.created, old.meta.modified) == (new.meta.created, new.meta.modified)
}

/// What a listener is told, in the order in which the store went through it.
///
/// Whoever applies all of it to an empty map has the contents of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// The first event: everything there was, by key.
    Initialized {
        /// The keys of the cache's scope with their values.
        entries: Vec<Entry>,
    },
    /// One key changed.
    Changed(Change),
    /// Some changes could not be told one by one: the watch had a gap, or the listener was slow. The cache is in
    /// step again.
    Resynced {
        /// The whole difference to what was told before, one change a key, by key; empty if there is none.
        changes: Vec<Change>,
    },
}
