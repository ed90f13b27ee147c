//! What one listener has not read yet, in bounded memory.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
};

use coord_api::{Entry, Key};

use super::event::{CacheEvent, Change};

/// How many events a listener may lag behind before they are folded into one.
const EVENTS_MAX: usize = 1024;
/// How many bytes of values its queue may hold.
const BYTES_MAX: usize = 4 << 20;

/// Events in order while they fit; then one [`CacheEvent::Resynced`] with the whole difference.
///
/// Folded, it keeps for each key what the listener last knew and nothing of what happened between, so that its size is
/// that of the cache, however slow the listener is.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    queue: VecDeque<CacheEvent>,
    bytes: usize,
    folded: Option<Folded>,
}

#[derive(Debug, Default)]
struct Folded {
    /// The listener was told nothing yet: it gets everything there is.
    untold: bool,
    /// From what the listener knows to what there is, for each key that may differ.
    changes: BTreeMap<Key, (Option<Entry>, Option<Entry>)>,
}

impl Mailbox {
    /// Adds what happened; nothing is lost, but it may be folded.
    pub(super) fn push(&mut self, event: CacheEvent) {
        if let Some(folded) = &mut self.folded {
            folded.add(event);
            return;
        }
        self.bytes += bytes(&event);
        self.queue.push_back(event);
        // The first event alone may be larger than any bound: it is the cache's contents, which are there anyway.
        if self.queue.len() > EVENTS_MAX || (self.queue.len() > 1 && self.bytes > BYTES_MAX) {
            let mut folded = Folded::default();
            self.bytes = 0;
            for event in mem::take(&mut self.queue) {
                folded.add(event);
            }
            self.folded = Some(folded);
        }
    }

    /// Takes the next event, if there is one.
    pub(super) fn pop(&mut self) -> Option<CacheEvent> {
        if let Some(folded) = self.folded.take() {
            return Some(folded.into_event());
        }
        let event = self.queue.pop_front()?;
        self.bytes -= bytes(&event);
        Some(event)
    }
}

impl Folded {
    fn add(&mut self, event: CacheEvent) {
        match event {
            CacheEvent::Initialized { entries } => {
                self.untold = true;
                for new in entries {
                    self.change(Change::Put { old: None, new });
                }
            }
            CacheEvent::Changed(change) => self.change(change),
            CacheEvent::Resynced { changes } => changes.into_iter().for_each(|change| self.change(change)),
        }
    }

    fn change(&mut self, change: Change) {
        let key = change.key().clone();
        let new = change.after().cloned();
        match self.changes.get_mut(&key) {
            // Came and went while the listener slept.
            Some((None, _)) if new.is_none() => drop(self.changes.remove(&key)),
            Some((_, now)) => *now = new,
            None => drop(self.changes.insert(key, (change.before().cloned(), new))),
        }
    }

    fn into_event(self) -> CacheEvent {
        if self.untold {
            let entries = self.changes.into_values().filter_map(|(_, new)| new).collect();
            return CacheEvent::Initialized { entries };
        }
        let changes = self.changes.into_values().filter_map(|(old, new)| Change::between(old, new)).collect();
        CacheEvent::Resynced { changes }
    }
}

fn bytes(event: &CacheEvent) -> usize {
    match event {
        CacheEvent::Initialized { entries } => entries.iter().map(|entry| entry.value.len()).sum(),
        CacheEvent::Changed(change) => change.bytes(),
        CacheEvent::Resynced { changes } => changes.iter().map(Change::bytes).sum(),
    }
}

#[cfg(test)]
#[path = "mailbox_tests.rs"]
mod tests;
