//! What all parts of one handle share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coord_api::{
    Dir, Error, Key, OpContext, Result, Retry, SessionId,
    kit::{Guesses, Hub, HubRef, Hubs, Runtime},
};
use tokio::{sync::watch, time::Instant};

use crate::{
    endpoints::{Endpoints, closed},
    error::Call,
    feed::Feed,
    mirror::{OwnWrites, Unreadable},
    names,
    paths::Paths,
    session::Held,
};

/// Keys of which it is remembered that they are there, some hundred bytes each.
const KNOWN_KEYS: usize = 4096;

/// One handle's view of the store.
///
/// Tasks hold it strongly: they end by `ending`, which the handle sets when it is closed or dropped.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) endpoints: Arc<Endpoints>,
    pub(crate) paths: Paths,
    pub(crate) runtime: Runtime,
    pub(crate) hubs: Hubs,
    pub(crate) own_writes: OwnWrites,
    pub(crate) unreadable: Unreadable,
    /// Keys that this handle left in the store.
    pub(crate) there: Guesses<Key, ()>,
    /// Whether the server's answers to requests for progress keep their place among the events.
    pub(crate) orders_progress: bool,
    sessions: Mutex<HashMap<SessionId, Arc<Held>>>,
    /// Also counts the tasks: each holds a receiver to its end.
    ending: watch::Sender<bool>,
}

impl Store {
    pub(crate) fn new(
        endpoints: Arc<Endpoints>,
        paths: Paths,
        runtime: Runtime,
        orders_progress: bool,
    ) -> Self {
        Self {
            endpoints,
            paths,
            runtime,
            hubs: Hubs::default(),
            own_writes: OwnWrites::default(),
            unreadable: Unreadable::default(),
            there: Guesses::new(KNOWN_KEYS),
            orders_progress,
            sessions: Mutex::default(),
            ending: watch::Sender::new(false),
        }
    }

    /// Refuses calls on a closed handle.
    pub(crate) fn ensure_open(&self) -> Result<()> {
        if *self.ending.borrow() { Err(closed()) } else { Ok(()) }
    }

    /// Tells every task to end.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
        self.hubs.close(closed);
    }

    /// Resolves once every task has ended.
    pub(crate) async fn ended(&self) {
        self.ending.closed().await;
    }

    /// What a task holds: the sign to end.
    pub(crate) fn ending(&self) -> Ending {
        Ending(self.ending.subscribe())
    }

    // ---- mirrors ----------------------------------------------------------------------------------------------

    /// The mirror of `dir`; starts one if there is none.
    pub(crate) fn hub(self: &Arc<Self>, dir: &Dir) -> HubRef {
        self.hubs.get_or_start(
            dir,
            || Hub::new(dir.clone(), names::order),
            |hub| {
                let (store, feed) = (Arc::clone(self), Feed::new(Arc::clone(self), Arc::clone(&hub), None));
                let mut ending = self.ending();
                self.runtime.spawn(async move {
                    tokio::select! {
                        biased;
                        () = ending.wait() => {}
                        () = store.hubs.unused(&hub) => {}
                        () = feed.run() => {}
                    }
                    store.hubs.forget(&hub);
                    // `end` may have run between the hub's birth and now.
                    if store.ensure_open().is_err() {
                        hub.fail(closed());
                    }
                });
            },
        )
    }

    // ---- sessions ---------------------------------------------------------------------------------------------

    pub(crate) fn add_session(&self, held: Arc<Held>) {
        self.sessions().insert(held.id().clone(), held);
    }

    pub(crate) fn remove_session(&self, id: &SessionId) {
        self.sessions().remove(id);
    }

    pub(crate) fn all_sessions(&self) -> Vec<Arc<Held>> {
        self.sessions().values().cloned().collect()
    }

    /// The lease of the calling session, if it surely lives.
    ///
    /// # Errors
    /// `InvalidArgument` without a session; `SessionLost`, before anything is sent.
    pub(crate) fn owner(&self, ctx: &OpContext) -> Result<Arc<Held>> {
        let id = ctx.session.as_ref().ok_or_else(|| Error::invalid("this needs a session"))?;
        let held = self.sessions().get(id).cloned();
        held.filter(|held| held.is_valid()).ok_or_else(|| {
            Error::session_lost("the session is over, or of another handle").with_context("session", id)
        })
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Held>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sign to end, held by every task of a handle.
#[derive(Debug)]
pub(crate) struct Ending(watch::Receiver<bool>);

impl Ending {
    /// Resolves once the handle is closed or dropped.
    pub(crate) async fn wait(&mut self) {
        // An error means that the handle is gone altogether.
        let _ = self.0.wait_for(|ending| *ending).await;
    }
}

/// Ends `work` at the caller's deadline.
///
/// # Errors
/// `Timeout`; for a write that was under way ambiguous.
pub(crate) async fn within<T>(
    ctx: &OpContext,
    call: Call,
    work: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    let Some(deadline) = ctx.deadline else { return work.await };
    let late = |retry| {
        let kind = coord_api::ErrorKind::Timeout;
        Err(Error::new(kind, "the deadline passed before etcd answered").with_retry(retry))
    };
    if Instant::now() >= deadline {
        return late(Retry::Safe);
    }
    match tokio::time::timeout_at(deadline, work).await {
        Ok(result) => result,
        Err(_) => late(match call {
            Call::Read => Retry::Safe,
            Call::Write => Retry::Ambiguous,
        }),
    }
}
