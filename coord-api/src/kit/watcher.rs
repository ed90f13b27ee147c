//! One consumer of a hub's events, with a bounded queue of its own.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, futures::Notified};

use crate::{Error, WatchEvent};

/// How many events a watcher may lag behind before it gets a snapshot instead.
pub(super) const EVENTS_MAX: usize = 4096;
/// How many bytes of values its queue may hold.
const BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct Watcher {
    queue: Mutex<Queue>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<WatchEvent>,
    bytes: usize,
    /// The queue overflowed or the feed had a gap: a snapshot is due before anything else.
    needs_snapshot: bool,
    failed: Option<Arc<Error>>,
}

/// What a watcher gets next.
pub(super) enum Next {
    Event(WatchEvent),
    Snapshot,
    Failed(Arc<Error>),
    Nothing,
}

impl Watcher {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, event: WatchEvent) {
        let mut queue = self.lock();
        if queue.needs_snapshot {
            return;
        }
        // A run of progress is one progress.
        if let (WatchEvent::Progress(new), Some(WatchEvent::Progress(old))) =
            (&event, queue.events.back_mut())
        {
            *old = *new;
        } else {
            queue.bytes += bytes(&event);
            queue.events.push_back(event);
            if queue.events.len() > EVENTS_MAX || queue.bytes > BYTES_MAX {
                queue.needs_snapshot();
            }
        }
        drop(queue);
        self.ready.notify_one();
    }

    /// The feed had a gap: what was not read yet is replaced by a snapshot.
    pub(super) fn resync(&self) {
        self.lock().needs_snapshot();
        self.ready.notify_one();
    }

    pub(super) fn fail(&self, error: &Arc<Error>) {
        self.lock().failed = Some(Arc::clone(error));
        self.ready.notify_one();
    }

    /// Resolves when there may be something next, also if that came before the first poll.
    pub(super) fn ready(&self) -> Notified<'_> {
        self.ready.notified()
    }

    /// Takes what is next. A snapshot stays due until [`Watcher::snapshot_taken`].
    pub(super) fn next(&self) -> Next {
        let mut queue = self.lock();
        match (&queue.failed, queue.needs_snapshot) {
            (None, true) => Next::Snapshot,
            (failed, false) => {
                let failed = failed.clone();
                match (queue.events.pop_front(), failed) {
                    (Some(event), _) => {
                        queue.bytes -= bytes(&event);
                        Next::Event(event)
                    }
                    (None, Some(error)) => Next::Failed(error),
                    (None, None) => Next::Nothing,
                }
            }
            (Some(error), true) => Next::Failed(Arc::clone(error)),
        }
    }

    pub(super) fn snapshot_taken(&self) {
        self.lock().needs_snapshot = false;
    }
}

impl Queue {
    fn needs_snapshot(&mut self) {
        self.events.clear();
        self.bytes = 0;
        self.needs_snapshot = true;
    }
}

fn bytes(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Put(entry) => entry.value.len(),
        _ => 0,
    }
}
