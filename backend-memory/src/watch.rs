//! Watches: read from the log, at the watcher's own pace.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use coord_api::{Dir, Error, Result, Revision, Start, WatchEvent, WatchStream, kit::Change};
use futures::{StreamExt, stream};

use crate::{backend::Open, faults::Link, store::Shared};

/// One watcher. It holds no events of its own, so a slow one costs nothing; when the log has moved past it, it gets
/// a snapshot.
struct Watcher {
    store: Arc<Shared>,
    link: Arc<Link>,
    open: Arc<Open>,
    dir: Dir,
    /// Everything up to here was told; `None` means that a snapshot is due.
    at: Option<Revision>,
    cuts: u64,
    /// The rest of the last revision, which is told as a whole.
    pending: VecDeque<WatchEvent>,
}

pub(crate) fn watch(
    store: Arc<Shared>,
    link: Arc<Link>,
    open: Arc<Open>,
    dir: Dir,
    start: Start,
) -> WatchStream {
    let at = match start {
        Start::Snapshot => None,
        Start::After(revision) => Some(revision),
    };
    let cuts = link.watch_cuts.load(Ordering::SeqCst);
    let watcher = Watcher { store, link, open, dir, at, cuts, pending: VecDeque::new() };
    stream::unfold(Some(watcher), |watcher| async move {
        let mut watcher = watcher?;
        let item = watcher.next().await;
        let more = item.is_ok().then_some(watcher);
        Some((item, more))
    })
    .boxed()
}

impl Watcher {
    async fn next(&mut self) -> Result<WatchEvent> {
        let (store, dir) = (Arc::clone(&self.store), self.dir.clone());
        store.changed(&dir, || self.look()).await
    }

    fn look(&mut self) -> Option<Result<WatchEvent>> {
        if let Some(event) = self.pending.pop_front() {
            return Some(Ok(event));
        }
        if let Some(error) = self.open.closed() {
            return Some(Err(error));
        }
        if self.link.is_down() {
            return None;
        }
        let cuts = self.link.watch_cuts.load(Ordering::SeqCst);
        if cuts != self.cuts {
            self.cuts = cuts;
            self.at = None;
        }
        let state = self.store.lock();
        if let Some(changes) = self.at.and_then(|at| state.log.after(at)) {
            let inside = changes.filter_map(|(revision, change)| event_in(&self.dir, revision, change));
            self.pending.extend(inside);
            self.at = Some(state.revision);
            return self.pending.pop_front().map(Ok);
        }
        self.at = Some(state.revision);
        let entries = state.below(&self.dir).cloned().collect();
        Some(Ok(WatchEvent::Snapshot { entries, revision: state.revision }))
    }
}

fn event_in(dir: &Dir, revision: Revision, change: &Change) -> Option<WatchEvent> {
    match change {
        Change::Put(entry) => dir.contains(&entry.key).then(|| WatchEvent::Put(entry.clone())),
        Change::Delete(key) => dir.contains(key).then(|| WatchEvent::Delete { key: key.clone(), revision }),
    }
}

/// The error of a handle that was closed.
pub(crate) fn closed() -> Error {
    Error::new(coord_api::ErrorKind::Closed, "the store's handle was closed")
}
