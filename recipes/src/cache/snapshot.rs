//! The contents of a cache at one moment.

use std::{collections::BTreeMap, sync::Arc};

use coord_api::{Entry, Key, Revision};

use super::Scope;

/// The contents of a [`Cache`](super::Cache) at one revision. Cheap to make and to clone; it never changes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    entries: Arc<BTreeMap<Key, Entry>>,
    scope: Scope,
    revision: Revision,
}

impl Snapshot {
    pub(super) const fn new(entries: Arc<BTreeMap<Key, Entry>>, scope: Scope, revision: Revision) -> Self {
        Self { entries, scope, revision }
    }

    /// The revision that this is the state of; [`Revision::ZERO`] before the first.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// One key, if it is there and in the scope of the cache.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| self.scope.contains(&entry.key))
    }

    /// All keys in the scope of the cache, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(|entry| self.scope.contains(&entry.key))
    }
}
