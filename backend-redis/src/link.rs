//! The connection that calls go over: made again whenever it breaks.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use coord_api::{
    Error, ErrorKind, OpContext, Result, Retry, Revision,
    kit::{Backoff, Runtime},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::{
    conn::{Conn, RESPONSE},
    error::{closed, is_final},
    server::ServerInfo,
    settings::Settings,
};

/// Longest pause between two attempts to connect.
const RETRY_CAP: Duration = Duration::from_secs(2);
/// How often somebody must look for sessions that are due: others may have opened shorter ones.
const TICK: Duration = Duration::from_secs(1);

/// The way to the server, shared by everything of one handle.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) settings: Settings,
    pub(crate) runtime: Runtime,
    state: watch::Sender<State>,
    /// As the last connection found it.
    server: Mutex<ServerInfo>,
    /// The newest revision that an answer to this handle told.
    noted: AtomicU64,
}

#[derive(Clone, Debug)]
enum State {
    Up(Arc<Conn>),
    /// Being made again; why the last attempt failed.
    Down(Arc<Error>),
    Closed,
}

impl Link {
    /// Connects to the first host that can be used, and keeps connected until [`Link::close`].
    ///
    /// # Errors
    /// Of the first host that cannot be used for good, else of the last.
    pub(crate) async fn open(settings: Settings, runtime: Runtime) -> Result<Arc<Self>> {
        // Nothing here ever worked, so a server without TLS is a mistake of whoever wrote the URL.
        let conn = connect(&settings, 0).await.map_err(|error| match error.kind() {
            ErrorKind::Tls => error.with_retry(Retry::Never),
            _ => error,
        })?;
        let server = Mutex::new(conn.server.clone());
        let link = Arc::new(Self {
            settings,
            runtime,
            state: watch::Sender::new(State::Up(Arc::clone(&conn))),
            server,
            noted: AtomicU64::new(0),
        });
        link.runtime.spawn(Arc::clone(&link).keep(conn));
        link.runtime.spawn(Arc::clone(&link).tick());
        Ok(link)
    }

    /// What the server says about itself.
    pub(crate) fn server(&self) -> ServerInfo {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An answer of the store showed or made `revision`.
    pub(crate) fn note(&self, revision: Revision) {
        self.noted.fetch_max(revision.get(), Ordering::AcqRel);
    }

    /// What a copy must have reached before it may answer for the store: all writes of this handle that were
    /// acknowledged, and what it was shown already.
    pub(crate) fn noted(&self) -> Revision {
        Revision::new(self.noted.load(Ordering::Acquire))
    }

    /// A connection that is up, waited for until `until`.
    ///
    /// # Errors
    /// Nothing was sent: safe to try again, unless the server refuses us for good or the handle is closed.
    pub(crate) async fn conn(&self, until: Instant) -> Result<Arc<Conn>> {
        if let Some(conn) = self.conn_now() {
            return Ok(conn);
        }
        let mut state = self.state.subscribe();
        loop {
            let last = match state.borrow_and_update().clone() {
                State::Up(conn) if !conn.is_broken() => return Ok(conn),
                State::Up(_) => None,
                State::Down(error) if is_final(&error) => return Err(error.again()),
                State::Down(error) => Some(error),
                State::Closed => return Err(closed()),
            };
            if timeout_at(until, state.changed()).await.is_err() {
                let error = Error::unavailable("not connected to the server");
                return Err(match last {
                    Some(last) => error.with_source(last.again()),
                    None => error,
                });
            }
        }
    }

    /// The connection, if it is up now.
    pub(crate) fn conn_now(&self) -> Option<Arc<Conn>> {
        match &*self.state.borrow() {
            State::Up(conn) if !conn.is_broken() => Some(Arc::clone(conn)),
            _ => None,
        }
    }

    /// Returns once the connection changed: broke, or is up again. At once if `seen` is not the connection now.
    pub(crate) fn changed(&self, seen: Option<&Arc<Conn>>) -> impl Future<Output = ()> + Send + use<> {
        let mut state = self.state.subscribe();
        let seen = seen.cloned();
        async move {
            let same = |state: &State| match (state, &seen) {
                (State::Up(conn), Some(seen)) => Arc::ptr_eq(conn, seen),
                (State::Down(_), None) => true,
                // Broken, and not yet said so.
                (State::Up(conn), None) => conn.is_broken(),
                _ => false,
            };
            let _ = state.wait_for(|state| !same(state)).await;
        }
    }

    /// Runs a call with the library's runtime around it, to its end also if the caller goes away.
    pub(crate) async fn run<T, F>(
        self: &Arc<Self>,
        ctx: &OpContext,
        call: impl FnOnce(Arc<Self>, Until) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let now = Instant::now();
        let until = Until::of(ctx, now);
        if until.connect <= now {
            return Err(
                Error::new(ErrorKind::Timeout, "the deadline passed before the call").with_retry(Retry::Safe)
            );
        }
        let link = Arc::clone(self);
        // The driver's task reads the replies: a caller that stands still holds up nobody else.
        self.runtime.run_here(async move { call(link, until).await }).await
    }

    /// Ends the connection and all tasks that use it.
    pub(crate) fn close(&self) {
        self.state.send_replace(State::Closed);
    }

    /// Returns once the link is closed.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut state = self.state.subscribe();
        async move {
            let _ = state.wait_for(|state| matches!(state, State::Closed)).await;
        }
    }

    /// Whether the link is closed.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(*self.state.borrow(), State::Closed)
    }

    fn set(&self, new: State) -> bool {
        self.state.send_if_modified(|state| {
            let open = !matches!(state, State::Closed);
            if open {
                *state = new;
            }
            open
        })
    }

    /// Makes the connection again whenever it breaks.
    async fn keep(self: Arc<Self>, mut conn: Arc<Conn>) {
        loop {
            let closed = self.closed();
            tokio::select! {
                biased;
                () = closed => return,
                () = conn.broken() => {}
            }
            tracing::info!(host = self.settings.host(conn.host), "the connection broke");
            let broke = Arc::new(Error::unavailable("the connection broke"));
            if !self.set(State::Down(broke)) {
                return;
            }
            let first = conn.host;
            drop(conn);
            let Some(found) = self.reconnect(first).await else { return };
            conn = found;
        }
    }

    async fn reconnect(&self, mut host: usize) -> Option<Arc<Conn>> {
        let mut backoff = Backoff::new(RETRY_CAP);
        loop {
            let attempt = async {
                let found = connect(&self.settings, host).await;
                if found.is_err() {
                    backoff.sleep(&self.runtime).await;
                }
                found
            };
            let found = tokio::select! {
                biased;
                () = self.closed() => return None,
                found = attempt => found,
            };
            match found {
                Ok(conn) => {
                    tracing::info!(
                        host = self.settings.host(conn.host),
                        server = conn.server.name,
                        "connected again"
                    );
                    *self.server.lock().unwrap_or_else(PoisonError::into_inner) = conn.server.clone();
                    return self.set(State::Up(Arc::clone(&conn))).then_some(conn);
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot connect");
                    host += 1;
                    if !self.set(State::Down(Arc::new(error))) {
                        return None;
                    }
                }
            }
        }
    }

    /// Lets the store end the sessions of those who died, here and elsewhere: somebody must.
    async fn tick(self: Arc<Self>) {
        let mut pause = TICK;
        loop {
            tokio::select! {
                biased;
                () = self.closed() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let until = Instant::now() + RESPONSE;
            let ticked = match self.conn(until).await {
                Ok(conn) => conn.tick(until).await,
                Err(error) => Err(error),
            };
            pause = match ticked {
                // A little later than due, and not all clients at the same moment.
                Ok(next) => {
                    let jitter = Duration::from_millis(5).mul_f64(1.0 + 9.0 * self.runtime.unit());
                    next.map_or(TICK, |next| TICK.min(next + jitter))
                }
                Err(error) => {
                    tracing::debug!(%error, "no tick");
                    TICK
                }
            };
        }
    }
}

/// Until when the parts of a call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    /// A connection must be up by then, or nothing is sent.
    pub(crate) connect: Instant,
    /// The reply must have come.
    pub(crate) reply: Instant,
}

impl Until {
    /// The limits of a call that begins now.
    fn of(ctx: &OpContext, now: Instant) -> Self {
        let last = ctx.deadline.unwrap_or(now + 4 * RESPONSE);
        Self { connect: last.min(now + RESPONSE), reply: last }
    }
}

/// A user that may not write can read what is there, and leaves the clock to those who can.
async fn may_read(conn: &Conn, refused: Error) -> Result<()> {
    if conn.revision().await? == 0 {
        return Err(refused);
    }
    tracing::warn!(error = %refused, "this user may only read: it can have no session");
    Ok(())
}

/// Tries the hosts in turn, each once, and begins the state machine's work on the first that can be used.
async fn connect(settings: &Settings, first: usize) -> Result<Arc<Conn>> {
    let mut last = None;
    for host in first..first + settings.hosts() {
        let opened = async {
            let conn = Conn::open(settings, host % settings.hosts(), RESPONSE).await?;
            // Before anybody reads: on a new server the revision moves on, and all sessions get their time.
            match conn.tick(Instant::now() + RESPONSE).await {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => may_read(&conn, error).await?,
                ticked => drop(ticked?),
            }
            Ok(Arc::new(conn))
        };
        match opened.await {
            Ok(conn) => return Ok(conn),
            Err(error) if is_final(&error) => return Err(error),
            // A tick may be sent again whatever came of the first.
            Err(error) => last = Some(error.with_retry(Retry::Safe)),
        }
    }
    Err(last.unwrap_or_else(|| Error::config("no host")))
}
