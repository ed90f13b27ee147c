//! One store, shared by its handles.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use coord_api::{
    Dir, Error, Key, Result, Revision, Seen, SessionId,
    kit::{Change, Runtime, Wakers},
};
use tokio::time::Instant;

use crate::{
    session::Row,
    state::{Observer, State, dirs_above},
};

/// A store in memory, which any number of [`MemoryBackend`](crate::MemoryBackend)s share.
#[derive(Clone, Debug)]
pub struct MemoryStore(pub(crate) Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    keys: Wakers<Key>,
    /// Woken by changes in the directory and below.
    dirs: Wakers<Dir>,
}

/// Where a store starts. Below 2^53 with room to grow: the smallest counter among the stores (Redis computes in
/// doubles).
fn first(runtime: &Runtime) -> u64 {
    1 + (runtime.nonce().get() & 0xffff_ffff) as u64
}

impl MemoryStore {
    /// An empty store that starts at a random revision.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        Self::starting_at(Revision::new(first(runtime)))
    }

    /// An empty store that starts at this revision, for tests of large numbers.
    #[must_use]
    pub fn starting_at(revision: Revision) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State::new(revision)),
            keys: Wakers::default(),
            dirs: Wakers::default(),
        }))
    }

    /// The store of this name in the process: the one that is there, or a new one.
    ///
    /// It goes with its last handle. A later one of the name is empty, and its revisions are larger all the same.
    #[must_use]
    pub fn named(name: &str, runtime: &Runtime) -> Self {
        static NAMED: OnceLock<Mutex<HashMap<String, Weak<Shared>>>> = OnceLock::new();
        let mut named = NAMED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, store| store.strong_count() > 0);
        if let Some(shared) = named.get(name).and_then(Weak::upgrade) {
            return Self(shared);
        }
        // Room for four thousand million revisions of the store before.
        static EARLIER: AtomicU64 = AtomicU64::new(0);
        let floor = EARLIER.fetch_add(1 << 33, Ordering::Relaxed);
        let store = Self::starting_at(Revision::new(floor + first(runtime)));
        named.insert(name.to_owned(), Arc::downgrade(&store.0));
        store
    }

    /// How many keys there are, for tests of leaks.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.0.lock().entries.len()
    }

    /// How many sessions there are, for tests of leaks.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.0.lock().sessions.len()
    }

    /// How many waits and watches there are, for tests of leaks.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.0.keys.waiting() + self.0.dirs.waiting()
    }

    /// How far the store has come.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.lock().revision
    }

    /// The data as it is now, in a store of its own that nobody changes: a server that lags behind, for simulations.
    #[must_use]
    pub fn standing_still(&self) -> Self {
        let state = self.0.lock().without_sessions();
        Self(Arc::new(Shared { state: Mutex::new(state), keys: Wakers::default(), dirs: Wakers::default() }))
    }

    /// Tells `observer` of every change in order, with its revision and the session whose end made it; for simulations
    /// that record what the store did. The observer must not call the store.
    pub fn observe(&self, observer: impl Fn(Revision, &[Change], Option<&SessionId>) + Send + 'static) {
        self.0.lock().observer = Some(Observer(Box::new(observer)));
    }
}

impl Shared {
    /// The state, with sessions past their deadline gone.
    ///
    /// Reaped on every look, so that expiry needs no timer to be true; timers only wake those who wait for it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.raw_lock();
        let now = Instant::now();
        let mut due: Vec<SessionId> =
            state.sessions.iter().filter(|(_, row)| row.is_due(now)).map(|(id, _)| id.clone()).collect();
        due.sort();
        for id in due {
            if let Some((row, changes)) = state.end_session(&id) {
                row.lease.lose();
                self.wake(&changes);
            }
        }
        state
    }

    fn raw_lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end_session(&self, id: &SessionId) {
        let ended = self.raw_lock().end_session(id);
        if let Some((row, changes)) = ended {
            row.lease.lose();
            self.wake(&changes);
        }
    }

    pub(crate) fn with_session<T>(&self, id: &SessionId, change: impl FnOnce(&mut Row) -> T) -> Option<T> {
        self.lock().sessions.get_mut(id).map(change)
    }

    pub(crate) fn wake(&self, changes: &[Change]) {
        for change in changes {
            let key = match change {
                Change::Put(entry) => &entry.key,
                Change::Delete(key) => key,
            };
            self.keys.wake(key);
            for dir in dirs_above(key) {
                self.dirs.wake(&dir);
            }
        }
    }

    pub(crate) fn wake_watchers(&self) {
        self.dirs.wake_all();
    }

    pub(crate) fn wake_all(&self) {
        self.keys.wake_all();
        self.dirs.wake_all();
    }

    /// Returns once `seen` differs from the state, or `ended` says that nobody may wait any more. While `down`, no
    /// news arrive.
    pub(crate) async fn wait(
        &self,
        seen: &Seen,
        ended: impl Fn() -> Option<Error> + Send + Sync,
        down: impl Fn() -> bool + Send + Sync,
    ) -> Result<()> {
        let done = || match ended() {
            Some(error) => Some(Err(error)),
            None => (!down() && self.differs(seen)).then_some(Ok(())),
        };
        match seen {
            Seen::Absent(key) | Seen::Exists(key) | Seen::Value(key, _) => {
                let waker = self.keys.register(key.clone());
                loop {
                    // Armed before looking: a change between the two would otherwise wake nobody.
                    let woken = waker.armed();
                    if let Some(result) = done() {
                        return result;
                    }
                    woken.await;
                }
            }
            _ => {
                let waker = self.dirs.register(seen.dir());
                loop {
                    let woken = waker.armed();
                    if let Some(result) = done() {
                        return result;
                    }
                    woken.await;
                }
            }
        }
    }

    /// Waits for the next change in `dir` or below, unless `ready` already.
    pub(crate) async fn changed<T>(&self, dir: &Dir, mut ready: impl FnMut() -> Option<T>) -> T {
        let waker = self.dirs.register(dir.clone());
        loop {
            let woken = waker.armed();
            if let Some(value) = ready() {
                return value;
            }
            woken.await;
        }
    }

    fn differs(&self, seen: &Seen) -> bool {
        let state = self.lock();
        match seen {
            Seen::Absent(key) => state.entries.contains_key(key),
            Seen::Exists(key) => !state.entries.contains_key(key),
            Seen::Value(key, modified) => {
                state.entries.get(key).is_none_or(|entry| entry.meta.modified != *modified)
            }
            Seen::Children(dir, revision) => state.children_changed(dir) != *revision,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn revisions_grow_also_from_one_store_of_a_name_to_the_next() {
        let runtime = Runtime::current().unwrap();
        let mut last = Revision::ZERO;
        for _ in 0..20 {
            let store = MemoryStore::named("again", &runtime);
            let revision = store.0.lock().revision;
            assert!(revision > last, "{revision:?} after {last:?}");
            last = revision;
        }
    }

    /// A change, and the session whose end made it.
    type Heard = (String, Option<String>);

    #[tokio::test]
    async fn an_observer_hears_of_every_change_and_whose_end_made_it() {
        let runtime = Runtime::current().unwrap();
        let store = MemoryStore::new(&runtime);
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let ears = Arc::clone(&heard);
        store.observe(move |_, changes, ended| {
            for change in changes {
                let text = match change {
                    Change::Put(entry) => format!("put {}", entry.key),
                    Change::Delete(key) => format!("delete {key}"),
                };
                ears.lock().unwrap().push((text, ended.map(ToString::to_string)));
            }
        });
        let coord = coord_api::Coord::new(Arc::new(crate::MemoryBackend::new(&store, runtime)));
        let session = coord.session(std::time::Duration::from_secs(10)).await.unwrap();
        session.coord().create("/own", "", coord_api::Lifetime::Session).await.unwrap();
        coord.put("/other", "").await.unwrap();
        coord.delete("/other").await.unwrap();
        session.close().await.unwrap();
        let heard = heard.lock().unwrap().clone();
        let own = Some(session.id().to_string());
        let expected =
            [("put /own", None), ("put /other", None), ("delete /other", None), ("delete /own", own)];
        assert_eq!(heard, expected.map(|(text, ended)| (text.to_owned(), ended)));
    }
}
