//! The one reducer: a state and an event of a watch give a new state and what changed.

use std::{collections::BTreeMap, mem, sync::Arc};

use coord_api::{Entry, Key, Revision, WatchEvent};

use super::event::{Change, same};
use crate::planted::{Bug, planted};

/// The contents of a directory and everything below, at one revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Shared with the snapshots that were given out, and copied only if one is still in use.
    pub(crate) entries: Arc<BTreeMap<Key, Entry>>,
    pub(super) revision: Revision,
    /// Whether there was a first snapshot.
    pub(super) loaded: bool,
    /// Keys deleted at the present revision, each with its last change: a repeated event must not bring one back.
    deleted: BTreeMap<Key, Revision>,
}

/// What an event did to the state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing that anybody needs to be told: known already, or only the revision moved.
    None,
    /// The first snapshot.
    Loaded,
    /// One key changed.
    Changed(Change),
    /// A later snapshot, with the whole difference.
    Resynced(Vec<Change>),
    /// A snapshot older than the state: the server lags. What follows it cannot be trusted either.
    Behind,
}

impl State {
    pub(crate) fn apply(&mut self, event: WatchEvent) -> Effect {
        match event {
            WatchEvent::Snapshot { revision, .. } if revision < self.revision => Effect::Behind,
            WatchEvent::Snapshot { entries, revision } => self.replace(entries, revision),
            // Changes before the first snapshot are in it; those older than the state are known.
            event if !self.loaded || event.revision() < self.revision => Effect::None,
            WatchEvent::Put(entry) => self.put(entry),
            WatchEvent::Delete { key, revision } => self.delete(&key, revision),
            event => {
                self.reach(event.revision());
                Effect::None
            }
        }
    }

    fn reach(&mut self, revision: Revision) {
        if revision > self.revision {
            self.revision = revision;
            self.deleted.clear();
        }
    }

    fn replace(&mut self, entries: Vec<Entry>, revision: Revision) -> Effect {
        self.reach(revision);
        let kept =
            if planted(Bug::GapMerged) { self.entries.values().cloned().collect() } else { Vec::new() };
        let new = kept.into_iter().chain(entries).map(|entry| (entry.key.clone(), entry)).collect();
        let old = mem::replace(&mut self.entries, Arc::new(new));
        if mem::replace(&mut self.loaded, true) {
            Effect::Resynced(difference(&old, &self.entries))
        } else {
            Effect::Loaded
        }
    }

    fn put(&mut self, entry: Entry) -> Effect {
        let modified = entry.meta.modified;
        let known = self.entries.get(&entry.key);
        let repeated = known.is_some_and(|known| same(known, &entry) || known.meta.modified > modified)
            || self.deleted.get(&entry.key).is_some_and(|last| *last >= modified);
        if repeated && !planted(Bug::RepeatsTold) {
            return Effect::None;
        }
        self.reach(modified);
        let old = Arc::make_mut(&mut self.entries).insert(entry.key.clone(), entry.clone());
        Effect::Changed(Change::Put { old, new: entry })
    }

    fn delete(&mut self, key: &Key, revision: Revision) -> Effect {
        self.reach(revision);
        // Looked for first: a copy of the map is not worth an event that says nothing new.
        if !self.entries.contains_key(key) {
            return Effect::None;
        }
        match Arc::make_mut(&mut self.entries).remove(key) {
            Some(old) => {
                self.deleted.insert(key.clone(), old.meta.modified);
                Effect::Changed(Change::Delete { old })
            }
            None => Effect::None,
        }
    }
}

/// One change for each key that differs, by key.
fn difference(old: &BTreeMap<Key, Entry>, new: &BTreeMap<Key, Entry>) -> Vec<Change> {
    let gone = old.iter().filter(|(key, _)| !new.contains_key(*key));
    let gone = gone.map(|(key, entry)| (key, Change::Delete { old: entry.clone() }));
    let put = new.iter().filter_map(|(key, entry)| {
        Change::between(old.get(key).cloned(), Some(entry.clone())).map(|change| (key, change))
    });
    let by_key: BTreeMap<&Key, Change> = gone.chain(put).collect();
    by_key.into_values().collect()
}

#[cfg(test)]
#[path = "reduce_tests.rs"]
mod tests;
