//! The sessions of a handle, on a store whose client must renew them.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

use super::{Lease, Runtime, confirmed};
use crate::{Error, Result, SessionDriver, SessionId, SessionState};

/// How a store renews one session, and ends it.
#[async_trait]
pub trait Renewal: fmt::Debug + Send + Sync + 'static {
    /// Renews the session, and tells `lease` of every answer and of every delay. Returns once the store says that the
    /// session is over; is dropped when the lease ends.
    async fn renew(&self, id: &SessionId, lease: &Lease);

    /// Tells the store that the session is over, so that its keys go at once.
    ///
    /// # Errors
    /// Whatever kept the store from confirming it.
    async fn end(&self, id: &SessionId) -> Result<()>;
}

/// The sessions of one handle that are not over. Clones share them.
///
/// Each is renewed by a task of the handle's runtime. Whatever ends it first (its owner, its deadline, the store), the
/// store is told once, so that others need not wait for the ttl.
///
/// ```
/// use std::time::Duration;
/// use coord_api::{Result, SessionId, kit::{Lease, Renewal, Sessions, Stamp}};
///
/// #[derive(Debug)]
/// struct Server; // a client of the store
///
/// #[async_trait::async_trait]
/// impl Renewal for Server {
///     async fn renew(&self, _: &SessionId, lease: &Lease) {
///         loop {
///             tokio::time::sleep(lease.ttl() / 3).await;
///             let sent = Stamp::now(); // before the store is asked: it counts from later
///             lease.renewed(sent); // where it does not answer, `lease.suspend()`
///         }
///     }
///
///     async fn end(&self, _: &SessionId) -> Result<()> {
///         Ok(()) // the store has confirmed it
///     }
/// }
///
/// # coord_backend_memory::doc_example(async |coord| {
/// let sessions = Sessions::default();
/// let lease = Lease::new(Duration::from_secs(10), Stamp::now());
/// let session = sessions.keep(SessionId::new("7"), lease, Server, &coord.runtime());
/// assert!(sessions.valid(session.id())?.is_some());
/// session.close().await?;
/// assert!(sessions.valid(session.id())?.is_none());
/// # Ok(())
/// # });
/// ```
#[derive(Debug)]
pub struct Sessions<R>(Arc<Mutex<HashMap<SessionId, Arc<Held<R>>>>>);

#[derive(Debug)]
struct Held<R> {
    id: SessionId,
    lease: Lease,
    renewal: Arc<R>,
    runtime: Runtime,
    sessions: Sessions<R>,
    /// What became of telling the store that it is over.
    ended: OnceCell<Result<(), Error>>,
}

/// A session, as its owner holds it. Dropping it ends the session in the background.
#[derive(Debug)]
struct Owned<R: Renewal>(Arc<Held<R>>);

impl<R> Default for Sessions<R> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<R> Clone for Sessions<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Renewal> Sessions<R> {
    /// Begins to renew a session that the store has granted.
    ///
    /// A handle that is closed while it opens a session drops what it gets here: that ends it.
    pub fn keep(&self, id: SessionId, lease: Lease, renewal: R, runtime: &Runtime) -> Arc<dyn SessionDriver> {
        let held = Arc::new(Held {
            id: id.clone(),
            lease,
            renewal: Arc::new(renewal),
            runtime: runtime.clone(),
            sessions: self.clone(),
            ended: OnceCell::new(),
        });
        self.lock().insert(id, Arc::clone(&held));
        runtime.spawn(Arc::clone(&held).keep());
        Arc::new(Owned(held))
    }

    /// How a session of this handle is renewed; `None` if it is not one of ours, or was ended: the store knows more.
    ///
    /// # Errors
    /// [`SessionLost`](crate::ErrorKind::SessionLost) if its owner may no longer believe in it. The clock is asked and
    /// not only the state: after a freeze no timer has run yet.
    pub fn valid(&self, id: &SessionId) -> Result<Option<Arc<R>>> {
        let Some(held) = self.lock().get(id).cloned() else { return Ok(None) };
        if held.lease.is_lost() || Instant::now() >= held.lease.valid_until() {
            held.lease.lose();
            return Err(
                Error::session_lost("the session is over: open a new one").with_context("session", id)
            );
        }
        Ok(Some(Arc::clone(&held.renewal)))
    }

    /// The store says that the session is over.
    pub fn lose(&self, id: &SessionId) {
        if let Some(held) = self.lock().get(id) {
            held.lease.lose();
        }
    }

    /// Ends all; returns once the store was told of each, or could not be.
    ///
    /// # Errors
    /// The first of those whose end the store did not confirm; see [`confirmed`].
    ///
    /// # Cancel safety
    /// Dropped, the sessions end all the same: the tasks that renew them see it.
    pub async fn close_all(&self) -> Result<()> {
        let all: Vec<_> = self.lock().values().cloned().collect();
        all.iter().for_each(|held| held.lease.lose());
        let ends = futures::future::join_all(all.iter().map(|held| held.end())).await;
        ends.into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Held<R>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Renewal> Held<R> {
    /// Renews until the session is over, and then ends it in the store.
    async fn keep(self: Arc<Self>) {
        tokio::select! {
            biased;
            () = self.lease.expired() => {}
            () = self.renewal.renew(&self.id, &self.lease) => {}
        }
        self.lease.lose();
        // The deadline is ours, the store's is later: end it there, so that others need not wait for that.
        let _ = self.end().await;
    }

    /// Ends the session in the store, once, whoever asks first.
    async fn end(&self) -> Result<()> {
        let told = async {
            let told = confirmed(self.renewal.end(&self.id)).await;
            self.sessions.lock().remove(&self.id);
            told
        };
        let told = self.ended.get_or_init(|| told).await;
        told.as_ref().copied().map_err(|error| error.again().with_context("session", &self.id))
    }
}

#[async_trait]
impl<R: Renewal> SessionDriver for Owned<R> {
    fn id(&self) -> &SessionId {
        &self.0.id
    }

    fn ttl(&self) -> Duration {
        self.0.lease.ttl()
    }

    fn valid_until(&self) -> Instant {
        self.0.lease.valid_until()
    }

    fn state(&self) -> watch::Receiver<SessionState> {
        self.0.lease.state()
    }

    async fn close(&self) -> Result<()> {
        self.0.lease.lose();
        let held = Arc::clone(&self.0);
        self.0.runtime.run(async move { held.end().await }).await
    }

    fn abandon(&self) {
        // The task that renews it sees this and ends it.
        self.0.lease.lose();
    }
}

impl<R: Renewal> Drop for Owned<R> {
    fn drop(&mut self) {
        self.abandon();
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
