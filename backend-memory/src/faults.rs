//! Failing on purpose, in the ways that networks and servers do.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use coord_api::{Error, Result, SessionId, kit::Runtime};

use crate::store::Shared;

/// What happens to a call on its way to the store and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request never arrives. The caller cannot tell, so a write is ambiguous.
    DropRequest,
    /// The request is applied, the reply never arrives.
    LoseReply,
}

/// Controls the faults of one handle on a memory store.
#[derive(Clone, Debug)]
pub struct Faults {
    pub(crate) link: Arc<Link>,
    pub(crate) store: Weak<Shared>,
    pub(crate) runtime: Runtime,
}

/// The way between one handle and the store.
#[derive(Debug, Default)]
pub(crate) struct Link {
    planned: Mutex<Vec<(u64, Fault)>>,
    calls: AtomicU64,
    down: AtomicBool,
    pub(crate) watch_cuts: AtomicU64,
    /// Sessions opened over this link, which end with the handle.
    pub(crate) sessions: Mutex<Vec<SessionId>>,
}

impl Faults {
    /// Lets `fault` happen to the nth call from now on; 1 is the next.
    pub fn plan(&self, nth: u64, fault: Fault) {
        let at = self.link.calls.load(Ordering::SeqCst) + nth.max(1);
        self.link.planned().push((at, fault));
    }

    /// How many calls were made through this handle; session upkeep is none.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.link.calls.load(Ordering::SeqCst)
    }

    /// Cuts the handle off: calls fail at once, waits and watches stand still, renewals no longer arrive.
    pub fn cut_off(&self) {
        self.link.down.store(true, Ordering::SeqCst);
        for session in self.link.sessions() {
            self.freeze(&session);
        }
    }

    /// Connects the handle again after [`Faults::cut_off`].
    pub fn reconnect(&self) {
        self.link.down.store(false, Ordering::SeqCst);
        for session in self.link.sessions() {
            self.thaw(&session);
        }
        if let Some(store) = self.store.upgrade() {
            store.wake_all();
        }
    }

    /// Ends a session as an operator would: its keys go now and its owner is told.
    pub fn expire(&self, session: &SessionId) {
        if let Some(store) = self.store.upgrade() {
            store.end_session(session);
        }
    }

    /// Stops the renewals of a session, as a long pause of its process or a cut link does.
    ///
    /// The owner is suspended now and lost after nine tenths of the ttl, by its own clock; the store ends the session
    /// after the whole ttl.
    pub fn freeze(&self, session: &SessionId) {
        let Some(store) = self.store.upgrade() else { return };
        let Some((lease, deadline)) =
            store.with_session(session, |row| (Arc::clone(&row.lease), row.freeze()))
        else {
            return;
        };
        self.runtime.spawn(async move { lease.expired().await });
        let store = Arc::downgrade(&store);
        self.runtime.spawn(async move {
            tokio::time::sleep_until(deadline).await;
            if let Some(store) = store.upgrade() {
                drop(store.lock()); // a look reaps
            }
        });
    }

    /// Lets the renewals of a session arrive again.
    pub fn thaw(&self, session: &SessionId) {
        if let Some(store) = self.store.upgrade() {
            store.with_session(session, crate::session::Row::thaw);
        }
    }

    /// Cuts every watch of this handle: each goes on with a new snapshot.
    pub fn cut_watches(&self) {
        self.link.watch_cuts.fetch_add(1, Ordering::SeqCst);
        if let Some(store) = self.store.upgrade() {
            store.wake_watchers();
        }
    }

    /// Forgets the history of the store: a watch that starts or stands before now gets a snapshot.
    pub fn compact(&self) {
        if let Some(store) = self.store.upgrade() {
            let mut state = store.lock();
            let revision = state.revision;
            state.log.compact(revision);
        }
    }
}

impl Link {
    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst)
    }

    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn planned(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Fault)>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one call over the link.
    pub(crate) fn call<T>(&self, writes: bool, apply: impl FnOnce() -> Result<T>) -> Result<T> {
        let nth = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if self.is_down() {
            return Err(Error::unavailable("the store is not reachable"));
        }
        let fault = {
            let mut planned = self.planned();
            planned.iter().position(|(at, _)| *at == nth).map(|i| planned.swap_remove(i).1)
        };
        let lost = || {
            if writes {
                Error::ambiguous("the reply was lost")
            } else {
                Error::unavailable("the reply was lost")
            }
        };
        match fault {
            None => apply(),
            Some(Fault::DropRequest) => Err(lost()),
            Some(Fault::LoseReply) => apply().and_then(|_| Err(lost())),
        }
    }
}
