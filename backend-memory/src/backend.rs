//! The contract, over the shared state.

use std::sync::{
    Arc, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Commit, Dir, Durability, Entry, Error, Guarantees, Key, Limits, Listing, OpContext,
    Ordered, OrderedCreate, Result, Seen, SessionDriver, SessionId, SessionOptions, Start, Txn, TxnOutcome,
    WatchStream,
    kit::{Lease, Runtime},
};

use crate::{
    MemoryStore, SCHEME,
    faults::{Faults, Link},
    session::{MemorySession, Row},
    state::State,
    store::Shared,
    watch::{closed, watch},
};

/// A handle on a [`MemoryStore`], with faults of its own.
#[derive(Debug)]
pub struct MemoryBackend {
    store: Arc<Shared>,
    runtime: Runtime,
    link: Arc<Link>,
    open: Arc<Open>,
}

/// Whether a handle was closed; shared with its watches.
#[derive(Debug, Default)]
pub(crate) struct Open(AtomicBool);

impl Open {
    pub(crate) fn closed(&self) -> Option<Error> {
        self.0.load(Ordering::SeqCst).then(closed)
    }
}

impl MemoryBackend {
    /// A new handle.
    #[must_use]
    pub fn new(store: &MemoryStore, runtime: Runtime) -> Self {
        Self { store: Arc::clone(&store.0), runtime, link: Arc::default(), open: Arc::default() }
    }

    /// The controls of this handle's faults; they work also while it is behind layers.
    #[must_use]
    pub fn faults(&self) -> Faults {
        let (link, store) = (Arc::clone(&self.link), Arc::downgrade(&self.store));
        Faults { link, store, runtime: self.runtime.clone() }
    }

    fn call<T>(&self, writes: bool, apply: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        if let Some(error) = self.open.closed() {
            return Err(error);
        }
        self.link.call(writes, || apply(&mut self.store.lock()))
    }
}

/// The session of the call, if it still lives.
fn owner<'c>(state: &State, ctx: &'c OpContext) -> Result<Option<&'c SessionId>> {
    match &ctx.session {
        // Lost by the owner's clock is lost, also while the store would still take it.
        Some(id) if state.sessions.get(id).is_none_or(|row| row.lease.is_lost()) => {
            Err(Error::session_lost("the session is over").with_context("session", id))
        }
        session => Ok(session.as_ref()),
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn info(&self) -> BackendInfo {
        let guarantees = Guarantees { durability: Durability::Process, ..Guarantees::STRONGEST };
        BackendInfo::new(SCHEME, String::new(), Limits::PORTABLE, guarantees)
    }

    fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    async fn get(&self, _: &OpContext, key: &Key) -> Result<Option<Entry>> {
        self.call(false, |state| Ok(state.entries.get(key).cloned()))
    }

    async fn list(&self, _: &OpContext, dir: &Dir) -> Result<Listing> {
        self.call(false, |state| Ok(state.listing(dir)))
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        self.call(true, |state| {
            let owner = if txn.needs_session() { owner(state, ctx)? } else { None };
            if let Some(rejection) = state.rejection(&txn) {
                return Ok(TxnOutcome::Rejected(rejection));
            }
            state.check_leaves(txn.ops())?;
            if txn.ops().is_empty() {
                return Ok(TxnOutcome::Committed(Commit::default()));
            }
            let (written, changes) = state.apply(txn.into_parts().1, owner);
            self.store.wake(&changes);
            Ok(TxnOutcome::Committed(Commit::new(written)))
        })
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        self.call(true, |state| {
            let Some(owner) = owner(state, ctx)? else {
                return Err(Error::invalid("an ordered key needs a session"));
            };
            let dir = req.dir.clone();
            let entry = match state.find_place(&req).cloned() {
                Some(entry) => entry,
                None => {
                    let (entry, changes) = state.create_place(req, owner)?;
                    self.store.wake(&changes);
                    entry
                }
            };
            Ok(Ordered::new(entry.key, entry.meta.created, Some(state.listing(&dir))))
        })
    }

    async fn wait(&self, _: &OpContext, seen: &Seen) -> Result<()> {
        self.store.wait(seen, || self.open.closed(), || self.link.is_down()).await
    }

    async fn watch(&self, _: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        self.call(false, |_| Ok(()))?;
        Ok(watch(Arc::clone(&self.store), Arc::clone(&self.link), Arc::clone(&self.open), dir.clone(), start))
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        let lease = Arc::new(Lease::simulated(options.ttl));
        let id = self.call(true, |state| {
            let id = SessionId::new(format!("{:x}", state.next_session));
            state.next_session += 1;
            state.sessions.insert(id.clone(), Row::new(Arc::clone(&lease)));
            Ok(id)
        })?;
        self.link.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(id.clone());
        let store: Weak<Shared> = Arc::downgrade(&self.store);
        Ok(Arc::new(MemorySession { id, lease, store }))
    }

    async fn close(&self) -> Result<()> {
        self.open.0.store(true, Ordering::SeqCst);
        let sessions =
            std::mem::take(&mut *self.link.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        for id in &sessions {
            self.store.end_session(id);
        }
        self.store.wake_all();
        Ok(())
    }
}
