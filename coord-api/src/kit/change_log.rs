//! The last changes of a directory, bounded in number and bytes.

use std::collections::VecDeque;

use crate::{Entry, Key, Revision, WatchEvent};

/// How many changes are kept.
const CHANGES_MAX: usize = 4096;
/// How many bytes of values they may hold.
const BYTES_MAX: usize = 4 << 20;

/// One change of one key.
#[derive(Clone, Debug)]
pub enum Change {
    /// Created or changed.
    Put(Entry),
    /// Deleted.
    Delete(Key),
}

impl Change {
    pub(super) const fn key(&self) -> &Key {
        match self {
            Self::Put(entry) => &entry.key,
            Self::Delete(key) => key,
        }
    }

    /// The change as a watcher is told of it.
    pub(super) fn event(&self, revision: Revision) -> WatchEvent {
        match self {
            Self::Put(entry) => WatchEvent::Put(entry.clone()),
            Self::Delete(key) => WatchEvent::Delete { key: key.clone(), revision },
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Put(entry) => entry.value.len(),
            Self::Delete(_) => 0,
        }
    }
}

/// Recent changes, for watchers that start in the past.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    changes: VecDeque<(Revision, Change)>,
    bytes: usize,
    /// Every change after this revision is here.
    floor: Revision,
}

impl ChangeLog {
    /// Forgets everything up to `floor`.
    pub(super) fn restart(&mut self, floor: Revision) {
        *self = Self { floor, ..Self::default() };
    }

    pub(super) fn push(&mut self, revision: Revision, change: Change) {
        self.bytes += change.bytes();
        self.changes.push_back((revision, change));
        while self.changes.len() > CHANGES_MAX || self.bytes > BYTES_MAX {
            let Some((dropped, change)) = self.changes.pop_front() else { return };
            self.bytes -= change.bytes();
            self.floor = dropped;
        }
    }

    /// The changes after `revision`, or `None` if some of them are forgotten.
    pub(super) fn after(&self, revision: Revision) -> Option<impl Iterator<Item = WatchEvent>> {
        let kept = self.changes.iter().filter(move |(at, _)| *at > revision);
        (revision >= self.floor).then(|| kept.map(|(at, change)| change.event(*at)))
    }
}
