//! A reader of a watch.

use std::{collections::BTreeMap, sync::Arc};

use coord_api::{Backend, Entry, Key, Revision, Start, WatchEvent, WatchStream};

use crate::support::*;

/// What a reader of a watch knows, checked as it goes.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) keys: BTreeMap<Key, Entry>,
    pub(crate) revision: Revision,
    pub(crate) snapshots: usize,
    pub(crate) events: usize,
}

impl View {
    pub(crate) fn take(&mut self, event: WatchEvent) {
        assert!(event.revision() >= self.revision, "{event:?} after {}", self.revision);
        self.revision = event.revision();
        match event {
            WatchEvent::Snapshot { entries, .. } => {
                self.snapshots += 1;
                self.keys = entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
            }
            WatchEvent::Put(entry) => {
                self.events += 1;
                self.keys.insert(entry.key.clone(), entry);
            }
            WatchEvent::Delete { key, .. } => {
                self.events += 1;
                self.keys.remove(&key);
            }
            _ => {}
        }
    }

    pub(crate) async fn until(&mut self, watch: &mut WatchStream, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            self.take(next(watch).await);
        }
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.keys.contains_key(&key(path))
    }
}

pub(crate) async fn watch(store: &Arc<dyn Backend>, path: &str, start: Start) -> WatchStream {
    store.watch(&nobody(), &dir(path), start).await.expect("a watch")
}
