//! One watch for all caches of a directory in this process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use coord_api::{Coord, Dir, Error, ErrorKind, Freshness, Key, Result, Revision, WatchStream, kit::Backoff};
use futures::StreamExt;
use tokio::sync::{oneshot, watch};

use crate::insist::RETRY_CAP;

use super::{
    CacheState, Scope,
    event::{CacheEvent, Change},
    listener::Inbox,
    reduce::{Effect, State},
    snapshot::Snapshot,
};

/// How often the store is asked whether it answers: a watch does not tell that its connection is gone.
const PULSE: Duration = Duration::from_secs(2);

/// The feeds of this process. A handle is known by the address of its backend, which its feeds keep from being used
/// again.
static FEEDS: Mutex<BTreeMap<(usize, Dir), Weak<Feed>>> = Mutex::new(BTreeMap::new());

/// A directory that is watched as long as this lives.
#[derive(Debug)]
pub(super) struct Feed {
    name: (usize, Dir),
    shared: Arc<Shared>,
    /// Keeps the backend, and with it the address in `name`.
    _coord: Coord,
    /// Dropped with the last cache and listener, which ends the task.
    _alive: oneshot::Sender<()>,
}

/// What the task of a feed and its readers share.
#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    revision: watch::Sender<Revision>,
    state: watch::Sender<CacheState>,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    listeners: Vec<Weak<Inbox>>,
    /// Whether the open watch began with a snapshot that we took.
    following: bool,
    /// Whether the store answered when it was last asked.
    reachable: bool,
    closed: bool,
}

impl Feed {
    /// The feed of `dir` on this handle: the one that is there, or a new one.
    pub(super) fn open(coord: &Coord, dir: Dir) -> Arc<Self> {
        let name = (Arc::as_ptr(coord.backend()).cast::<()>().addr(), dir);
        let mut feeds = feeds();
        if let Some(feed) = feeds.get(&name).and_then(Weak::upgrade) {
            return feed;
        }
        let shared = Arc::new(Shared {
            inner: Mutex::default(),
            revision: watch::Sender::new(Revision::ZERO),
            state: watch::Sender::new(CacheState::Loading),
        });
        let (alive, ended) = oneshot::channel();
        let feed = Arc::new(Self {
            name: name.clone(),
            shared: Arc::clone(&shared),
            _coord: coord.clone(),
            _alive: alive,
        });
        let coord = coord.clone();
        let dir = name.1.clone();
        feeds.insert(name, Arc::downgrade(&feed));
        drop(feeds);
        coord.runtime().spawn(async move {
            tokio::select! {
                biased;
                // An error: nobody sends, the last one just goes.
                _ = ended => {}
                () = run(&coord, &dir, &shared) => {}
            }
        });
        feed
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut feeds = feeds();
        // Another may have been opened under this name since the last reference went.
        if feeds.get(&self.name).is_some_and(|feed| feed.strong_count() == 0) {
            feeds.remove(&self.name);
        }
    }
}

fn feeds() -> MutexGuard<'static, BTreeMap<(usize, Dir), Weak<Feed>>> {
    FEEDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches until the handle is closed.
async fn run(coord: &Coord, dir: &Dir, shared: &Shared) {
    let runtime = coord.runtime();
    let mut backoff = Backoff::new(RETRY_CAP);
    loop {
        let error = match coord.watch(dir).await {
            Ok(stream) => {
                let ended = tokio::select! {
                    biased;
                    ended = follow(stream, shared) => ended,
                    ended = pulse(coord, dir, shared) => ended,
                };
                if shared.stopped() {
                    backoff.reset();
                }
                ended
            }
            Err(error) => error,
        };
        if error.kind() == ErrorKind::Closed {
            return shared.close();
        }
        // Everything else may pass: also a permission that was taken away may come back.
        tracing::debug!(%dir, %error, "the watch of a cache ended; it is opened again");
        backoff.sleep(&runtime).await;
    }
}

/// Takes events until the stream ends.
async fn follow(mut stream: WatchStream, shared: &Shared) -> Error {
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                if shared.apply(event).is_err() {
                    return Error::unavailable("the server is behind what was seen before");
                }
            }
            Err(error) => return error,
        }
    }
    Error::unavailable("the watch ended without a word")
}

/// Asks now and then whether the store answers; ends never, or when the handle is closed.
async fn pulse(coord: &Coord, dir: &Dir, shared: &Shared) -> Error {
    let coord = coord.clone().with_freshness(Freshness::Latest);
    // A directory has no value: nothing is read but the answer.
    let key = if dir.is_root() { Key::from_store("/pulse") } else { Key::from_store(dir.as_str()) };
    loop {
        tokio::time::sleep(PULSE).await;
        let reachable = match tokio::time::timeout(PULSE, coord.get(&key)).await {
            Ok(Err(error)) if error.kind() == ErrorKind::Closed => return error,
            Ok(Err(_)) | Err(_) => false,
            Ok(Ok(_)) => true,
        };
        shared.reached(reachable);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies one event and tells the listeners; fails if the stream is behind what was seen before.
    fn apply(&self, event: coord_api::WatchEvent) -> Result<(), ()> {
        let mut inner = self.lock();
        let begins = matches!(event, coord_api::WatchEvent::Snapshot { .. });
        let effect = inner.state.apply(event);
        if effect == Effect::Behind {
            return Err(());
        }
        if begins {
            (inner.following, inner.reachable) = (true, true);
        }
        inner.tell(&effect);
        let revision = inner.state.revision;
        self.show(inner);
        self.revision.send_replace(revision);
        Ok(())
    }

    /// The watch ended; whether it had begun.
    fn stopped(&self) -> bool {
        let mut inner = self.lock();
        let had_begun = std::mem::replace(&mut inner.following, false);
        self.show(inner);
        had_begun
    }

    fn reached(&self, reachable: bool) {
        let mut inner = self.lock();
        inner.reachable = reachable;
        self.show(inner);
    }

    fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        for listener in inner.listeners.iter().filter_map(Weak::upgrade) {
            listener.close();
        }
        self.show(inner);
    }

    fn show(&self, inner: MutexGuard<'_, Inner>) {
        let state = match &*inner {
            Inner { closed: true, .. } => CacheState::Closed,
            Inner { state: State { loaded: false, .. }, .. } => CacheState::Loading,
            Inner { following: true, reachable: true, .. } => CacheState::Current,
            Inner { .. } => CacheState::Stale,
        };
        drop(inner);
        self.state.send_if_modified(|shown| std::mem::replace(shown, state) != state);
    }

    /// A new listener: it is told everything from the first snapshot on.
    pub(super) fn listen(&self, scope: &Scope) -> Arc<Inbox> {
        let mut inner = self.lock();
        let inbox = Arc::new(Inbox::new(scope.clone()));
        if inner.state.loaded {
            inbox.push(inner.everything(scope));
        }
        if inner.closed {
            inbox.close();
        }
        inner.listeners.retain(|listener| listener.strong_count() > 0);
        inner.listeners.push(Arc::downgrade(&inbox));
        inbox
    }

    pub(super) fn snapshot(&self, scope: &Scope) -> Snapshot {
        let inner = self.lock();
        Snapshot::new(Arc::clone(&inner.state.entries), scope.clone(), inner.state.revision)
    }

    pub(super) fn states(&self) -> watch::Receiver<CacheState> {
        self.state.subscribe()
    }

    /// Waits until `done` accepts what there is, from the first snapshot on.
    pub(super) async fn wait_until(
        &self,
        scope: &Scope,
        done: impl Fn(&Snapshot) -> bool + Send,
    ) -> Result<Snapshot> {
        let (mut revisions, mut states) = (self.revision.subscribe(), self.state.subscribe());
        loop {
            // Marked as seen before looking: what comes in between wakes us again.
            revisions.mark_unchanged();
            if *states.borrow() != CacheState::Loading {
                let snapshot = self.snapshot(scope);
                if done(&snapshot) {
                    return Ok(snapshot);
                }
            }
            tokio::select! {
                biased;
                closed = states.wait_for(|state| *state == CacheState::Closed) => {
                    drop(closed);
                    return Err(Error::new(ErrorKind::Closed, "the store's handle was closed"));
                }
                changed = revisions.changed() => {
                    if changed.is_err() {
                        return Err(Error::new(ErrorKind::Closed, "the cache is gone"));
                    }
                }
            }
        }
    }
}

impl Inner {
    fn everything(&self, scope: &Scope) -> CacheEvent {
        let entries =
            self.state.entries.values().filter(|entry| scope.contains(&entry.key)).cloned().collect();
        CacheEvent::Initialized { entries }
    }

    fn tell(&mut self, effect: &Effect) {
        self.listeners.retain(|listener| listener.strong_count() > 0);
        for listener in self.listeners.iter().filter_map(Weak::upgrade) {
            let inside = |change: &Change| listener.scope().contains(change.key());
            match effect {
                Effect::None | Effect::Behind => {}
                Effect::Loaded => listener.push(self.everything(listener.scope())),
                Effect::Changed(change) if inside(change) => {
                    listener.push(CacheEvent::Changed(change.clone()))
                }
                Effect::Changed(_) => {}
                Effect::Resynced(changes) => {
                    let changes = changes.iter().filter(|change| inside(change)).cloned().collect();
                    listener.push(CacheEvent::Resynced { changes });
                }
            }
        }
    }
}
