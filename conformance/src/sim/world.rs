//! The store, its sessions, and the record of what happened.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use coord_api::{Backend, Coord, Result, Revision, SessionId, SessionOptions, Txn, kit::Runtime};
use coord_backend_memory::{MemoryBackend, MemoryStore};
use tokio::{runtime::Handle, time::Instant};

use super::{
    faults::{Faults, Kind},
    recorder::{Ledger, Recorder, number_of},
};
use crate::checkers::facts::{Session, What};

/// Everything that is not a client.
#[derive(Debug)]
pub(crate) struct World {
    store: MemoryStore,
    /// The operator's own handle, which no fault touches.
    admin: Arc<MemoryBackend>,
    /// Where the network and the store's own tasks run: they never stand still.
    network: Handle,
    recorder: Arc<Mutex<Recorder>>,
    /// When the store ends each session.
    deadlines: Mutex<BTreeMap<SessionId, Instant>>,
    /// The data as it was, for reads that may be stale; the newest last.
    past: Mutex<VecDeque<Past>>,
    faults: Faults,
}

/// The store at a moment.
#[derive(Debug)]
struct Past {
    at: Instant,
    revision: Revision,
    server: Arc<MemoryBackend>,
}

/// For how long a server may lag behind.
const LAG: Duration = Duration::from_secs(4);

impl World {
    pub(crate) fn new(first: Revision, faults: Faults, ledger: Ledger) -> Result<Arc<Self>> {
        let runtime = Runtime::current()?.with_seed(0);
        let store = MemoryStore::starting_at(first);
        let recorder = Arc::new(Mutex::new(Recorder::new(ledger)));
        let pen = Arc::clone(&recorder);
        store.observe(move |revision, changes, ended| lock(&pen).changed(revision, changes, ended));
        let admin = Arc::new(MemoryBackend::new(&store, runtime.clone()));
        let network = runtime.handle().clone();
        if faults.has(Kind::LargeNumbers) {
            lock(&recorder).fired(Kind::LargeNumbers, 0);
        }
        Ok(Arc::new(Self {
            store,
            admin,
            network,
            recorder,
            deadlines: Mutex::default(),
            past: Mutex::default(),
            faults,
        }))
    }

    pub(crate) const fn store(&self) -> &MemoryStore {
        &self.store
    }

    pub(crate) const fn network(&self) -> &Handle {
        &self.network
    }

    /// A handle on the store that no fault touches.
    pub(crate) fn coord(&self) -> Coord {
        Coord::new(Arc::<MemoryBackend>::clone(&self.admin))
    }

    /// Keeps the data as it is now for reads that may be stale, where the run has them.
    pub(crate) fn keep_for_later(&self) {
        if !self.faults.has(Kind::StaleRead) {
            return;
        }
        let (at, revision) = (Instant::now(), self.store.revision());
        let mut past = lock(&self.past);
        past.retain(|past| past.at + LAG >= at);
        if past.back().is_none_or(|last| last.revision < revision) {
            let server = MemoryBackend::new(&self.store.standing_still(), self.admin.runtime());
            past.push_back(Past { at, revision, server: Arc::new(server) });
        }
    }

    /// A server that lags behind, but not behind `floor`, and how far it is. The dice say which.
    pub(crate) fn lagging(&self, floor: Revision, dice: u64) -> Option<(Revision, Arc<MemoryBackend>)> {
        let (now, past) = (self.store.revision(), lock(&self.past));
        let behind: Vec<_> =
            past.iter().filter(|past| past.revision >= floor && past.revision < now).collect();
        pick(&behind, dice).map(|past| (past.revision, Arc::clone(&past.server)))
    }

    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        lock(&self.recorder)
    }

    pub(crate) fn record(&self, client: u32, what: impl Into<What>) {
        self.recorder().record(client, what);
    }

    pub(crate) fn fired(&self, kind: Kind, client: u32) {
        self.recorder().fired(kind, client);
    }

    /// How long the store keeps a session, by the clocks of the clients.
    fn store_ttl(&self, ttl: Duration) -> Duration {
        if self.faults.has(Kind::FastClock) { ttl * 23 / 25 } else { ttl }
    }

    /// The store begins a session of `client`.
    pub(crate) async fn begin_session(
        self: &Arc<Self>,
        server: &MemoryBackend,
        ttl: Duration,
        client: u32,
    ) -> Result<SessionId> {
        // The driver is not kept: this world keeps the deadlines itself.
        let id = server.open_session(&SessionOptions::new(ttl)).await?.id().clone();
        let ttl = self.store_ttl(ttl);
        lock(&self.deadlines).insert(id.clone(), Instant::now() + ttl);
        self.recorder().session_began(number_of(&id), ttl, client);
        if self.faults.has(Kind::FastClock) {
            self.fired(Kind::FastClock, client);
        }
        let (world, due) = (Arc::clone(self), id.clone());
        self.network.spawn(async move { world.end_when_due(due).await });
        Ok(id)
    }

    async fn end_when_due(&self, id: SessionId) {
        loop {
            let Some(deadline) = lock(&self.deadlines).get(&id).copied() else { return };
            if deadline <= Instant::now() {
                lock(&self.deadlines).remove(&id);
                self.recorder().session_ended(number_of(&id));
                self.admin.faults().expire(&id);
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }

    /// A renewal arrives; `false` if the session is over.
    pub(crate) fn renew_session(&self, id: &SessionId, ttl: Duration, client: u32) -> bool {
        let mut deadlines = lock(&self.deadlines);
        let Some(deadline) = deadlines.get_mut(id) else { return false };
        *deadline = Instant::now() + self.store_ttl(ttl);
        drop(deadlines);
        self.record(client, Session::Renewed { session: number_of(id) });
        true
    }

    /// A request to end the session arrives, or an operator ends it. Whether it was there.
    pub(crate) fn end_session(&self, id: &SessionId, client: u32) -> bool {
        if lock(&self.deadlines).remove(id).is_none() {
            return false;
        }
        self.record(client, Session::Closed { session: number_of(id) });
        self.recorder().session_ended(number_of(id));
        self.admin.faults().expire(id);
        true
    }

    /// An operator ends the session numbered `dice` of those that live, and tells nobody.
    pub(crate) fn expire_one(&self, dice: u64) -> bool {
        let sessions: Vec<SessionId> = lock(&self.deadlines).keys().cloned().collect();
        let Some(id) = pick(&sessions, dice) else { return false };
        self.recorder().operator = true;
        let ended = self.end_session(id, 0);
        self.recorder().operator = false;
        ended
    }

    /// An operator deletes one or all of the keys in one of `dirs`. Whether there was one.
    pub(crate) async fn delete_in(&self, dirs: &[&str], all: bool, dice: u64) -> Result<bool> {
        let coord = self.coord();
        let Some(dir) = pick(dirs, dice >> 32) else { return Ok(false) };
        let children = coord.list(*dir).await?.children;
        let Some(one) = pick(&children, dice & 0xffff_ffff) else { return Ok(false) };
        let doomed = if all { &children[..] } else { std::slice::from_ref(one) };
        let txn = doomed.iter().fold(Txn::new(), |txn, child| txn.delete(child.key.clone()));
        self.recorder().operator = true;
        let deleted = coord.commit(txn).await;
        self.recorder().operator = false;
        Ok(deleted?.is_committed())
    }

    /// The store forgets its history.
    pub(crate) fn compact(&self) {
        self.admin.faults().compact();
    }
}

fn pick<T>(from: &[T], dice: u64) -> Option<&T> {
    let count = u64::try_from(from.len()).ok().filter(|count| *count > 0)?;
    from.get(usize::try_from(dice % count).ok()?)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
