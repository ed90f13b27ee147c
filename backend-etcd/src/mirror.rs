//! What a handle must remember so that the mirrors of directories can be trusted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use coord_api::{
    Dir, Key, Revision,
    kit::{HubRef, Hubs},
};

use crate::paths::Range;

/// Above how many directories the notes of mirrors that are gone are dropped.
const PRUNE: usize = 64;

/// The acknowledged writes of this handle that a mirror must have seen before it is read (session freshness).
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    by_hub: Mutex<HashMap<Dir, Revision>>,
    /// Writes of which it is not known which directories they touched: ended sessions.
    anywhere: AtomicU64,
}

impl OwnWrites {
    /// A write of `keys` was acknowledged. Every mirror that holds one of them will show its event.
    pub(crate) fn note<'k>(&self, hubs: &Hubs, keys: impl IntoIterator<Item = &'k Key>, revision: Revision) {
        for key in keys {
            let mut dir = key.parent();
            while let Some(hub) = hubs.covering(&dir) {
                let mut by_hub = lock(&self.by_hub);
                if by_hub.len() > PRUNE {
                    // A mirror that starts later reads the store later.
                    by_hub.retain(|dir, _| hubs.live(dir).is_some());
                }
                let known = by_hub.entry(hub.dir().clone()).or_default();
                *known = revision.max(*known);
                drop(by_hub);
                if hub.dir().is_root() {
                    break;
                }
                dir = Key::from_store(hub.dir().as_str()).parent();
            }
        }
    }

    /// A write somewhere was acknowledged.
    pub(crate) fn note_anywhere(&self, revision: Revision) {
        self.anywhere.fetch_max(revision.get(), Ordering::AcqRel);
    }

    /// The revision that the mirror must have reached; its event is on the way.
    pub(crate) fn needed(&self, hub: &HubRef) -> Revision {
        lock(&self.by_hub).get(hub.dir()).copied().unwrap_or_default()
    }

    /// Whether the mirror may lack a write of which no event may come to it.
    pub(crate) fn may_lag(&self, hub: &HubRef) -> bool {
        hub.revision().get() < self.anywhere.load(Ordering::Acquire)
    }
}

/// Keys that a mirror cannot hold because they are no text, by feed. Nearly always empty.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(Mutex<HashMap<u64, (Dir, Keys)>>);

/// Each with its creation revision.
type Keys = BTreeMap<Vec<u8>, i64>;

impl Unreadable {
    /// The feed read everything there is.
    pub(crate) fn replace(&self, feed: u64, dir: &Dir, keys: Keys) {
        let mut all = lock(&self.0);
        if keys.is_empty() {
            all.remove(&feed);
        } else {
            all.insert(feed, (dir.clone(), keys));
        }
    }

    /// Such a key was written.
    pub(crate) fn put(&self, feed: u64, dir: &Dir, key: Vec<u8>, created: i64) {
        lock(&self.0).entry(feed).or_insert_with(|| (dir.clone(), Keys::new())).1.insert(key, created);
    }

    /// Such a key was deleted.
    pub(crate) fn delete(&self, feed: u64, key: &[u8]) {
        if let Some((_, keys)) = lock(&self.0).get_mut(&feed) {
            keys.remove(key);
        }
    }

    /// The feed ended.
    pub(crate) fn end(&self, feed: u64) {
        lock(&self.0).remove(&feed);
    }

    /// Whether the mirror of `hub` lacks a key in `range` that is older than `created`.
    pub(crate) fn any_before(&self, hub: &Dir, range: &Range, created: i64) -> bool {
        lock(&self.0)
            .values()
            .filter(|(dir, _)| dir == hub)
            .flat_map(|(_, keys)| keys)
            .any(|(key, since)| *since < created && range.contains(key))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
