//! Sessions: who owns ephemeral keys, and until when that is certain.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{sync::watch, time::Instant};

use crate::{
    Coord, Dir, Error, Result,
    events::{Recipe, Turn, TurnReport, Watched},
};

/// The name of a session in its store.
///
/// Not a secret that opens anything, and not a fencing token: ids do not grow.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// The id with this text; for backends.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({})", self.0)
    }
}

/// Whether a session still owns its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionState {
    /// Renewals are acknowledged in time.
    Live,
    /// A renewal is late or the connection is down. The session may survive: stop starting new work.
    Suspended,
    /// Over, for good: closed, expired, or past its local deadline. Never becomes `Live` again (promise G3).
    Lost,
}

/// What a session should be like.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionOptions {
    /// How long the store keeps the session after the last renewal.
    ///
    /// Bounds how fast others take over after a crash, and how long a pause or an outage may be. The server may
    /// grant another: [`SessionDriver::ttl`].
    pub ttl: Duration,
}

impl SessionOptions {
    /// A session with this time to live.
    #[must_use]
    pub const fn new(ttl: Duration) -> Self {
        Self { ttl }
    }
}

impl Default for SessionOptions {
    /// Ten seconds.
    fn default() -> Self {
        Self::new(Duration::from_secs(10))
    }
}

/// The backend's side of a session.
#[async_trait]
pub trait SessionDriver: fmt::Debug + Send + Sync + 'static {
    /// The session's name in the store.
    fn id(&self) -> &SessionId;

    /// The time to live as granted, not as asked.
    fn ttl(&self) -> Duration;

    /// Until when nobody else can own this session's keys, unless it is renewed before (promise G2).
    ///
    /// Counts from the moment the last acknowledged renewal was *sent*, less a margin for clocks that run at
    /// different rates. In the past once the session is lost.
    fn valid_until(&self) -> Instant;

    /// The state and its changes.
    fn state(&self) -> watch::Receiver<SessionState>;

    /// Ends the session and deletes its keys, within [`CLOSE_TIME`](crate::kit::CLOSE_TIME). Ending twice is fine.
    ///
    /// # Errors
    /// Ambiguous if the store did not confirm it; the keys then go after the ttl at the latest, since renewals stop at
    /// once.
    async fn close(&self) -> Result<()>;

    /// Ends the session in the background: stops renewals at once, tells the store if it can.
    ///
    /// Never blocks and needs no runtime, so that `Drop` may call it.
    fn abandon(&self);
}

/// A session: as long as it lives, so do the ephemeral keys made with it.
///
/// Clones share the session. It ends by [`Session::close`], or in the background when the last clone is dropped.
/// Renewals run on the library's own threads: code that blocks your runtime does not lose the session.
///
/// ```
/// # use coord_backend_memory::doc_example;
/// # doc_example(async |store: coord_api::Coord| {
/// use std::time::Duration;
/// # use coord_api::Lifetime;
///
/// let session = store.session(Duration::from_secs(10)).await?;
/// session.coord().create("/members/a", "10.0.0.7", Lifetime::Session).await?;
/// assert!(store.get("/members/a").await?.is_some());
///
/// session.close().await?;
/// assert!(store.get("/members/a").await?.is_none());
/// # Ok(())
/// # });
/// ```
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    coord: Coord,
    driver: Arc<dyn SessionDriver>,
    watched: Arc<Watched>,
}

impl Session {
    pub(crate) fn new(coord: Coord, driver: Arc<dyn SessionDriver>, watched: Arc<Watched>) -> Self {
        Self(Arc::new(Inner { coord, driver, watched }))
    }

    /// The handle whose calls belong to this session.
    #[must_use]
    pub fn coord(&self) -> &Coord {
        &self.0.coord
    }

    /// The session's name in the store.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        self.0.driver.id()
    }

    /// The time to live as granted.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.0.driver.ttl()
    }

    /// Until when nobody else can own this session's keys, unless it is renewed before.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.0.driver.valid_until()
    }

    /// The state now.
    #[must_use]
    pub fn state(&self) -> SessionState {
        *self.0.driver.state().borrow()
    }

    /// The state and its changes, for `tokio::select!` and the like.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<SessionState> {
        self.0.driver.state()
    }

    /// Whether the session surely lives: not lost, and its deadline not passed.
    ///
    /// Asks the clock, not only the state: a process that was frozen past its deadline gets `false` on its first
    /// question after the thaw, before any timer ran.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.state() != SessionState::Lost && Instant::now() < self.valid_until()
    }

    /// Resolves once the session is lost.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn lost(&self) {
        let mut states = self.0.driver.state();
        // An error means that the driver is gone, and with it the session.
        let _ = states.wait_for(|state| *state == SessionState::Lost).await;
    }

    /// What tells of one try to hold `name`, which began at `began`; for recipes.
    #[must_use]
    pub fn report(&self, recipe: Recipe, name: Dir, began: Instant) -> TurnReport {
        let turn = Turn { recipe, name, session: self.id().clone() };
        TurnReport::new(self.0.coord.reporter().clone(), Arc::clone(&self.0.watched), turn, began)
    }

    /// Fails if the session does not surely live.
    ///
    /// # Errors
    /// [`SessionLost`](crate::ErrorKind::SessionLost).
    pub fn ensure_valid(&self) -> Result<()> {
        if self.is_valid() {
            return Ok(());
        }
        Err(Error::session_lost("the session is over: open a new one").with_context("session", self.id()))
    }

    /// Ends the session now and deletes its keys, for all clones.
    ///
    /// `Ok` is the store's word that the keys are gone. It is waited for at most a second and a half
    /// ([`CLOSE_TIME`](crate::kit::CLOSE_TIME)), so a store that cannot be reached holds up no shutdown.
    ///
    /// # Errors
    /// Ambiguous if the store did not confirm it in time; the keys then go after the ttl at the latest.
    ///
    /// # Cancel safety
    /// Safe: the session ends also if the future is dropped.
    pub async fn close(&self) -> Result<()> {
        let driver = Arc::clone(&self.0.driver);
        self.0.watched.closing();
        // Own task, so that a caller who goes away does not leave a half-closed session.
        self.0.coord.runtime().run(async move { driver.close().await }).await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.watched.closing();
        self.driver.abandon();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", self.id())
            .field("ttl", &self.ttl())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
