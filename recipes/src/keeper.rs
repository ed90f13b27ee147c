//! Sessions that follow one another: for what must outlive each of them.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use coord_api::{Coord, Error, ErrorKind, Key, Result, Retry, Session, SessionOptions, kit::Backoff};
use tokio::{sync::watch, time::Instant};

use crate::insist::RETRY_CAP;

/// Keeps a session open: when one is lost, it opens the next, with back-off.
///
/// For what must outlive a session: candidates of an election, members of a group, registrations. They take a keeper
/// and put themselves back with each new session. A lock takes a [`Session`] and never comes back by itself: whoever
/// held it must look at the world again first.
///
/// Clones share the keeper. It ends with [`SessionKeeper::close`], or in the background when the last clone is dropped.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_api::SessionOptions;
/// # use coord_recipes::SessionKeeper;
///
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let first = keeper.session().await?;
/// first.close().await?; // as an expired session ends
/// let second = keeper.session().await?;
/// assert!(second.is_valid() && second.id() != first.id());
/// keeper.close().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone)]
pub struct SessionKeeper(Arc<Inner>);

struct Inner {
    coord: Coord,
    sessions: watch::Receiver<Option<Session>>,
    /// Why there will be no other session.
    ended: Arc<OnceLock<Error>>,
    /// Ends the task: told by `close`, or dropped with the last handle.
    closing: watch::Sender<bool>,
    /// The keys that recipes of this process keep with our sessions.
    claims: Mutex<BTreeSet<Key>>,
}

impl SessionKeeper {
    /// Starts to open sessions of this kind, in the background. Never fails: a store that is away may come.
    #[must_use]
    pub fn new(coord: &Coord, options: SessionOptions) -> Self {
        let (sender, sessions) = watch::channel(None);
        let (closing, closed) = watch::channel(false);
        let ended = Arc::new(OnceLock::new());
        let keeping = Keeping { coord: coord.clone(), options, sessions: sender, ended: Arc::clone(&ended) };
        coord.runtime().spawn(keeping.run(closed));
        Self(Arc::new(Inner { coord: coord.clone(), sessions, ended, closing, claims: Mutex::default() }))
    }

    /// The store's handle, without a session.
    #[must_use]
    pub fn coord(&self) -> &Coord {
        &self.0.coord
    }

    /// A session that surely lives; waits for one if there is none.
    ///
    /// # Errors
    /// What the store refuses for good before the first session was open, such as a ttl outside its limits;
    /// [`Closed`](ErrorKind::Closed) after the end. An outage is waited out, however long.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn session(&self) -> Result<Session> {
        let mut sessions = self.0.sessions.clone();
        let usable = |session: &Option<Session>| {
            self.0.ended.get().is_some() || session.as_ref().is_some_and(Session::is_valid)
        };
        let found = sessions.wait_for(usable).await.ok().and_then(|session| session.clone());
        match (self.0.ended.get(), found) {
            (None, Some(session)) => Ok(session),
            (Some(ended), _) => Err(again(ended)),
            // The task is gone: its runtime was shut down.
            (None, None) => Err(closed()),
        }
    }

    /// The session now, if there is one that surely lives.
    #[must_use]
    pub fn current(&self) -> Option<Session> {
        self.0.sessions.borrow().clone().filter(Session::is_valid)
    }

    /// Each new session, and `None` while there is none.
    ///
    /// The receiver shows the latest state; a session that came and went in between is not seen.
    #[must_use]
    pub fn sessions(&self) -> watch::Receiver<Option<Session>> {
        self.0.sessions.clone()
    }

    /// Ends the session, for all clones, and opens no other.
    ///
    /// # Errors
    /// As [`Session::close`].
    ///
    /// # Cancel safety
    /// Safe: the session ends also if the future is dropped.
    pub async fn close(&self) -> Result<()> {
        let _ = self.0.ended.set(closed());
        let session = self.0.sessions.borrow().clone();
        self.0.closing.send_replace(true);
        match session {
            Some(session) => session.close().await,
            None => Ok(()),
        }
    }

    /// Reserves a key for one recipe of this process; `false` if another one keeps it.
    ///
    /// Two that share our session could not tell their keys apart in the store.
    pub(crate) fn claim(&self, key: &Key) -> bool {
        self.claims().insert(key.clone())
    }

    /// Gives back what [`SessionKeeper::claim`] reserved.
    pub(crate) fn unclaim(&self, key: &Key) {
        self.claims().remove(key);
    }

    /// Whether a recipe of this process keeps the key.
    pub(crate) fn is_claimed(&self, key: &Key) -> bool {
        self.claims().contains(key)
    }

    /// A handle that does not keep the keeper.
    pub(crate) fn downgrade(&self) -> WeakKeeper {
        WeakKeeper(Arc::downgrade(&self.0))
    }

    fn claims(&self) -> std::sync::MutexGuard<'_, BTreeSet<Key>> {
        self.0.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A keeper that may be gone.
pub(crate) struct WeakKeeper(Weak<Inner>);

impl WeakKeeper {
    pub(crate) fn upgrade(&self) -> Option<SessionKeeper> {
        self.0.upgrade().map(SessionKeeper)
    }
}

impl fmt::Debug for SessionKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKeeper")
            .field("session", &*self.0.sessions.borrow())
            .field("ended", &self.0.ended.get().is_some())
            .finish_non_exhaustive()
    }
}

/// The task behind the handles. It has no handle, so that it ends with the last one.
struct Keeping {
    coord: Coord,
    options: SessionOptions,
    sessions: watch::Sender<Option<Session>>,
    ended: Arc<OnceLock<Error>>,
}

impl Keeping {
    async fn run(self, mut closing: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            // An error means that the last handle is gone.
            _ = closing.wait_for(|closing| *closing) => {}
            error = self.keep() => drop(self.ended.set(error)),
        }
        // Receivers may outlive us, and must not keep the session.
        self.sessions.send_replace(None);
    }

    /// Opens one session after the other; returns what ends that for good.
    async fn keep(&self) -> Error {
        let runtime = self.coord.runtime();
        let mut backoff = Backoff::new(RETRY_CAP);
        let mut opened_before = false;
        loop {
            match self.coord.open_session(&self.options).await {
                Ok(session) => {
                    let opened = Instant::now();
                    self.sessions.send_replace(Some(session.clone()));
                    session.lost().await;
                    tracing::info!(session = %session.id(), "the session is lost; opening another");
                    self.sessions.send_replace(None);
                    // Sessions that end at once are opened ever more seldom.
                    if opened.elapsed() > RETRY_CAP {
                        backoff.reset();
                    }
                    opened_before = true;
                }
                Err(error) if error.kind() == ErrorKind::Closed => return error,
                // Wrong from the start is told. What worked once is tried for ever: passwords come back, too.
                Err(error) if error.retry() == Retry::Never && !opened_before => return error,
                Err(error) => tracing::debug!(%error, "no session yet"),
            }
            backoff.sleep(&runtime).await;
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the session keeper was closed")
}

/// The error for one more of those who ask.
pub(crate) fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.message().to_owned())
        .with_retry(error.retry())
        .with_source(error.to_string())
}
