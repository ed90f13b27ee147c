//! One watch of a directory that feeds every waiter and watcher of the process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt, stream};
use tokio::sync::{Notify, watch};

use super::{
    LineOrder, Names, Wakers,
    change_log::{Change, ChangeLog},
    watcher::{Next, Watcher},
};
use crate::{Dir, Entry, Error, Key, Listing, Result, Revision, Seen, Start, WatchEvent, WatchStream};

/// A local copy of a directory and everything below, with those who wait for its changes.
///
/// The backend's feed calls [`reset`](Hub::reset), [`apply`](Hub::apply) and [`progress`](Hub::progress); everything
/// else reads. A thousand waiters cost one watch at the server, and a change wakes only those whom it concerns.
///
/// A copy that lags is safe to grant from: once it shows our own entry it shows every earlier one that still
/// stands, and a deletion that it shows has happened.
#[derive(Debug)]
pub struct Hub {
    dir: Dir,
    state: Mutex<State>,
    revision: watch::Sender<Revision>,
    keys: Wakers<Key>,
    dirs: Wakers<Dir>,
    wants_reset: Notify,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    entries: BTreeMap<Key, Entry>,
    names: Names,
    /// The last revision at which the set of direct children of a directory changed.
    children: BTreeMap<Dir, Revision>,
    log: ChangeLog,
    /// Where the copy began: what its directories went through before is not known.
    first_load: Option<Revision>,
    watchers: Vec<Arc<Watcher>>,
}

#[derive(Debug)]
enum Phase {
    /// Nothing is known yet.
    Empty,
    /// Only changes are known, no entries from before them: a feed that started in the past.
    ChangesOnly,
    /// The copy is whole.
    Loaded,
    /// The feed ended.
    Failed(Arc<Error>),
}

impl Hub {
    /// An empty copy of `dir`.
    #[must_use]
    pub fn new(dir: Dir, order: LineOrder) -> Self {
        Self {
            dir,
            state: Mutex::new(State {
                phase: Phase::Empty,
                entries: BTreeMap::new(),
                names: Names::new(order),
                children: BTreeMap::new(),
                log: ChangeLog::default(),
                first_load: None,
                watchers: Vec::new(),
            }),
            revision: watch::Sender::new(Revision::ZERO),
            keys: Wakers::default(),
            dirs: Wakers::default(),
            wants_reset: Notify::new(),
        }
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The revision that the copy has reached.
    #[must_use]
    pub fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    // ---- feeding ----------------------------------------------------------------------------------------------

    /// Everything there is: at the start and after every gap.
    ///
    /// A snapshot older than the copy (a lagging server) is ignored: revisions never go back.
    pub fn reset(&self, revision: Revision, entries: Vec<Entry>) {
        let mut state = self.lock();
        if revision < self.revision() {
            return;
        }
        let new: BTreeMap<Key, Entry> = entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
        let changed: Vec<Key> = state
            .entries
            .values()
            .filter(|old| new.get(&old.key).is_none_or(|entry| entry.meta != old.meta))
            .map(|old| old.key.clone())
            .chain(new.keys().filter(|key| !state.entries.contains_key(*key)).cloned())
            .collect();
        let dirs: Vec<Dir> = changed.iter().flat_map(|key| self.dirs_above(key)).collect();
        for dir in &dirs {
            state.children.insert(dir.clone(), revision);
        }
        state.entries = new;
        state.names.clear();
        state.phase = Phase::Loaded;
        state.first_load.get_or_insert(revision);
        state.log.restart(revision);
        state.watchers.retain(|watcher| Arc::strong_count(watcher) > 1);
        for watcher in &state.watchers {
            watcher.resync();
        }
        self.revision.send_replace(revision);
        drop(state);
        changed.iter().for_each(|key| self.keys.wake(key));
        dirs.iter().for_each(|dir| self.dirs.wake(dir));
        // Waiters that saw an empty hub look again.
        self.dirs.wake_all();
        self.keys.wake_all();
    }

    /// The feed begins after `revision`, without a snapshot.
    pub fn resume_after(&self, revision: Revision) {
        let mut state = self.lock();
        state.phase = Phase::ChangesOnly;
        state.log.restart(revision);
        self.revision.send_replace(revision);
    }

    /// All changes of one revision, in order. Changes up to the copy's revision are known already and are ignored.
    pub fn apply(&self, revision: Revision, changes: Vec<Change>) {
        let mut state = self.lock();
        if revision <= self.revision() && !matches!(state.phase, Phase::Empty) {
            return;
        }
        self.apply_in(&mut state, revision, &changes);
        self.revision.send_replace(revision);
        drop(state);
        self.wake(&changes);
    }

    /// The same for a store whose events do not tell their revision: applied at the copy's own.
    pub fn apply_at_least(&self, revision: Revision, changes: Vec<Change>) {
        let mut state = self.lock();
        let revision = revision.max(self.revision());
        self.apply_in(&mut state, revision, &changes);
        self.revision.send_replace(revision);
        drop(state);
        self.wake(&changes);
    }

    fn apply_in(&self, state: &mut State, revision: Revision, changes: &[Change]) {
        state.watchers.retain(|watcher| Arc::strong_count(watcher) > 1);
        for change in changes {
            let (old, new) = match change {
                Change::Put(entry) => (state.entries.insert(entry.key.clone(), entry.clone()), Some(entry)),
                Change::Delete(key) => (state.entries.remove(key), None),
            };
            if old.is_none() && new.is_none() && matches!(state.phase, Phase::Loaded) {
                continue; // created and deleted inside one transaction, or told twice
            }
            let created = |entry: &Entry| entry.meta.created;
            if old.as_ref().map(created) != new.map(created) {
                let dirs = self.dirs_above(change.key());
                if let Some(old) = &old {
                    state.names.remove(&dirs, old);
                }
                if let Some(new) = new {
                    state.names.insert(&dirs, new);
                }
                if old.is_some() != new.is_some() {
                    state.children.extend(dirs.into_iter().map(|dir| (dir, revision)));
                }
            }
            for watcher in &state.watchers {
                watcher.push(change.event(revision));
            }
            state.log.push(revision, change.clone());
        }
    }

    fn wake(&self, changes: &[Change]) {
        for change in changes {
            self.keys.wake(change.key());
            for dir in self.dirs_above(change.key()) {
                self.dirs.wake(&dir);
            }
        }
    }

    /// Nothing else happened up to `revision`.
    pub fn progress(&self, revision: Revision) {
        let state = self.lock();
        let moved = self.revision.send_if_modified(|known| {
            let moved = revision > *known;
            *known = revision.max(*known);
            moved
        });
        if moved {
            for watcher in &state.watchers {
                watcher.push(WatchEvent::Progress(revision));
            }
        }
    }

    /// The feed ended for good: everybody is told.
    pub fn fail(&self, error: Error) {
        let error = Arc::new(error);
        let mut state = self.lock();
        state.phase = Phase::Failed(Arc::clone(&error));
        for watcher in &state.watchers {
            watcher.fail(&error);
        }
        drop(state);
        self.revision.send_modify(|_| {});
        self.keys.wake_all();
        self.dirs.wake_all();
    }

    /// Resolves when a watcher needs a snapshot that the copy does not have; the feed then calls [`Hub::reset`].
    pub async fn reset_wanted(&self) {
        self.wants_reset.notified().await;
    }

    // ---- reading ----------------------------------------------------------------------------------------------

    /// Waits until the copy is loaded and has reached `revision`.
    ///
    /// # Errors
    /// The feed's, if it ended.
    pub async fn reached(&self, revision: Revision) -> Result<()> {
        let mut reached = self.revision.subscribe();
        loop {
            let known = *reached.borrow_and_update();
            match &self.lock().phase {
                Phase::Failed(error) => return Err(again(error)),
                Phase::Loaded if known >= revision => return Ok(()),
                Phase::Empty | Phase::ChangesOnly | Phase::Loaded => {}
            }
            if reached.changed().await.is_err() {
                return Err(Error::new(crate::ErrorKind::Closed, "the watch was closed"));
            }
        }
    }

    /// The names in a directory of the copy, as it is now.
    #[must_use]
    pub fn listing(&self, dir: &Dir) -> Listing {
        let state = &mut *self.lock();
        Listing::new(state.names.listing(dir, &state.entries), self.revision())
    }

    /// The same, if no key stands further below.
    #[must_use]
    pub fn flat_listing(&self, dir: &Dir) -> Option<Listing> {
        let state = &mut *self.lock();
        let children = state.names.flat_listing(dir, &state.entries)?;
        Some(Listing::new(children, self.revision()))
    }

    /// Whether `key` is in the copy.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.lock().entries.contains_key(key)
    }

    /// Waits until `seen` is no longer true in the copy.
    ///
    /// # Errors
    /// The feed's, if it ended.
    pub async fn wait(&self, seen: &Seen) -> Result<()> {
        match seen {
            Seen::Absent(key) | Seen::Exists(key) | Seen::Value(key, _) => {
                let waker = self.keys.register(key.clone());
                loop {
                    // Armed before looking: a change between the two would otherwise wake nobody.
                    let woken = waker.armed();
                    if self.differs(seen)? {
                        return Ok(());
                    }
                    woken.await;
                }
            }
            Seen::Children(dir, _) => {
                let waker = self.dirs.register(dir.clone());
                loop {
                    let woken = waker.armed();
                    if self.differs(seen)? {
                        return Ok(());
                    }
                    woken.await;
                }
            }
        }
    }

    fn differs(&self, seen: &Seen) -> Result<bool> {
        let state = self.lock();
        match &state.phase {
            Phase::Failed(error) => return Err(again(error)),
            Phase::Empty | Phase::ChangesOnly => return Ok(false),
            Phase::Loaded => {}
        }
        Ok(match seen {
            Seen::Absent(key) => state.entries.contains_key(key),
            Seen::Exists(key) => !state.entries.contains_key(key),
            // Newer only: a copy that lags behind what the caller saw must not look like a change.
            Seen::Value(key, modified) => match state.entries.get(key) {
                Some(entry) => entry.meta.modified > *modified,
                None => self.revision() >= *modified,
            },
            Seen::Children(dir, at) => {
                // What happened between the listing and the start of this copy is not known: look again.
                let began = state.first_load.unwrap_or(Revision::ZERO);
                state.children.get(dir).copied().unwrap_or(began).max(began) > *at
            }
        })
    }

    /// Streams the copy's changes.
    pub fn watch(self: Arc<Self>, start: Start) -> WatchStream {
        let watcher = Arc::new(Watcher::default());
        {
            let mut state = self.lock();
            let history = match (&state.phase, start) {
                (Phase::Loaded | Phase::ChangesOnly, Start::After(after)) => state.log.after(after),
                _ => None,
            };
            match (history, &state.phase) {
                (_, Phase::Failed(error)) => watcher.fail(error),
                (Some(changes), _) => changes.for_each(|event| watcher.push(event)),
                (None, _) => watcher.resync(),
            }
            state.watchers.push(Arc::clone(&watcher));
        }
        stream::unfold(Some((self, watcher)), |state| async move {
            let (hub, watcher) = state?;
            let item = hub.next_event(&watcher).await;
            let more = item.is_ok().then_some((hub, watcher));
            Some((item, more))
        })
        .boxed()
    }

    async fn next_event(&self, watcher: &Watcher) -> Result<WatchEvent> {
        loop {
            let ready = watcher.ready();
            {
                // Lock order: the hub's state, then a watcher's queue. No event can come between the two.
                let state = self.lock();
                match watcher.next() {
                    Next::Event(event) => return Ok(event),
                    Next::Failed(error) => return Err(again(&error)),
                    Next::Snapshot if matches!(state.phase, Phase::Loaded) => {
                        watcher.snapshot_taken();
                        let entries = state.entries.values().cloned().collect();
                        return Ok(WatchEvent::Snapshot { entries, revision: self.revision() });
                    }
                    Next::Snapshot => self.wants_reset.notify_one(),
                    Next::Nothing => {}
                }
            }
            ready.await;
        }
    }

    fn dirs_above(&self, key: &Key) -> Vec<Dir> {
        let mut dirs = Vec::new();
        let mut dir = key.parent();
        loop {
            let done = dir == self.dir || dir.is_root();
            dirs.push(dir.clone());
            if done {
                return dirs;
            }
            dir = Key::from_store(dir.as_str()).parent();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The feed's error for one more of those who waited for it.
fn again(error: &Arc<Error>) -> Error {
    Error::new(error.kind(), "the watch of the directory ended")
        .with_retry(error.retry())
        .with_source(error.to_string())
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
