//! What all calls of one handle share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use coord_api::{
    Dir, Error, ErrorKind, Freshness, Key, Listing, OpContext, Result, Retry, Revision, SessionId,
    kit::{Backoff, Hubs, Runtime},
};
use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

use crate::{
    base::Base,
    driver::{Children, Conn, Fault, Node},
    keys::KnownKeys,
    layout,
    leaves::KnownDirectories,
    line::OwnWrites,
    paths::{SENTINEL, parent},
    probe::ServerFacts,
    session::ZkSession,
    settings::Settings,
    tide::Tide,
    waits::Nodes,
};

/// How often creating a path may lose against the server's collector of empty containers.
pub(crate) const RACES_MAX: usize = 16;
const READ_BACKOFF_MAX: Duration = Duration::from_millis(500);

/// The state of one handle.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) runtime: Runtime,
    pub(crate) facts: ServerFacts,
    pub(crate) base: Arc<Base>,
    /// A second connection for one-shot watches, where one session must not mix them with recursive ones.
    one_shots: OnceCell<Arc<Base>>,
    sessions: Mutex<HashMap<SessionId, Arc<ZkSession>>>,
    /// Names of the directories that somebody waits in.
    pub(crate) lines: Hubs,
    /// Values of the directories that somebody watches.
    pub(crate) trees: Hubs,
    /// Keys whose values somebody waits for.
    pub(crate) nodes: Nodes,
    pub(crate) own_writes: OwnWrites,
    pub(crate) known: KnownDirectories,
    pub(crate) known_keys: KnownKeys,
    pub(crate) tide: Tide,
    closed: watch::Sender<bool>,
}

impl Core {
    pub(crate) fn new(settings: Settings, facts: ServerFacts, base: Arc<Base>) -> Self {
        Self {
            runtime: settings.connector.runtime.clone(),
            settings,
            facts,
            base,
            one_shots: OnceCell::new(),
            sessions: Mutex::default(),
            lines: Hubs::default(),
            trees: Hubs::default(),
            nodes: Nodes::default(),
            own_writes: OwnWrites::default(),
            known: KnownDirectories::default(),
            known_keys: KnownKeys::default(),
            tide: Tide::default(),
            closed: watch::Sender::new(false),
        }
    }

    // ---- life -------------------------------------------------------------------------------------------------

    pub(crate) fn closed_error() -> Error {
        Error::new(ErrorKind::Closed, "the handle was closed")
    }

    pub(crate) fn ensure_open(&self) -> Result<()> {
        if *self.closed.borrow() { Err(Self::closed_error()) } else { Ok(()) }
    }

    /// Resolves once the handle is closed.
    pub(crate) async fn closed(&self) {
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// Ends everything. The first error of a session is told; all are ended.
    pub(crate) async fn close(&self) -> Result<()> {
        if self.closed.send_replace(true) {
            return Ok(());
        }
        self.lines.close(Self::closed_error);
        self.trees.close(Self::closed_error);
        let sessions: Vec<_> = self.sessions().drain().map(|(_, session)| session).collect();
        let closing = sessions.iter().map(|session| coord_api::SessionDriver::close(&**session));
        let one_shots = async {
            match self.one_shots.get() {
                Some(base) => base.close().await,
                None => Ok(()),
            }
        };
        // Only sessions own keys: the others expire by themselves if the server does not hear of their end.
        let (ended, _, _) = futures::join!(futures::future::join_all(closing), self.base.close(), one_shots);
        ended.into_iter().collect()
    }

    // ---- connections ------------------------------------------------------------------------------------------

    pub(crate) fn deadline(&self, ctx: &OpContext) -> Instant {
        ctx.deadline.unwrap_or_else(|| Instant::now() + self.settings.operation_timeout)
    }

    /// The connection of the call's session while it lives, or the base: for calls that make nothing of the
    /// session's own.
    pub(crate) async fn conn(&self, ctx: &OpContext, deadline: Instant) -> Result<Arc<Conn>> {
        self.ensure_open()?;
        match ctx.session.as_ref().map(|id| self.session_conn(id)) {
            Some(Ok(conn)) => Ok(conn),
            Some(Err(_)) | None => self.base.conn(deadline).await,
        }
    }

    /// The connection of a session that lives.
    ///
    /// # Errors
    /// [`SessionLost`](ErrorKind::SessionLost), before anything is sent.
    pub(crate) fn session_conn(&self, id: &SessionId) -> Result<Arc<Conn>> {
        self.ensure_open()?;
        let session = self.sessions().get(id).cloned().ok_or_else(|| {
            Error::session_lost("no session of this handle has this name").with_context("session", id)
        })?;
        session.conn().cloned()
    }

    /// The connection for one-shot watches.
    pub(crate) async fn one_shots(&self) -> Result<Arc<Base>> {
        self.ensure_open()?;
        if self.facts.mixes_watch_modes() {
            return Ok(Arc::clone(&self.base));
        }
        let settings = &self.settings;
        let base = self
            .one_shots
            .get_or_try_init(|| Base::open(settings.connector.clone(), settings.base_ttl))
            .await?;
        if let Err(error) = self.ensure_open() {
            // Closed while this was opened.
            let _ = base.close().await;
            return Err(error);
        }
        Ok(Arc::clone(base))
    }

    pub(crate) fn keep_session(self: &Arc<Self>, session: Arc<ZkSession>) -> Result<()> {
        self.sessions().insert(coord_api::SessionDriver::id(&*session).clone(), Arc::clone(&session));
        let core = Arc::downgrade(self);
        self.runtime.spawn({
            let session = Arc::clone(&session);
            async move {
                session.lost().await;
                if let Some(core) = core.upgrade() {
                    core.sessions().remove(coord_api::SessionDriver::id(&*session));
                    core.tide.forget(session.conn_id());
                }
            }
        });
        self.ensure_open().inspect_err(|_| coord_api::SessionDriver::abandon(&*session))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<ZkSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- reading ----------------------------------------------------------------------------------------------

    /// Whether a read must be preceded by a sync.
    ///
    /// A single server is its own leader: what it has acknowledged it shows.
    fn must_sync(&self, freshness: Freshness, stale: bool) -> bool {
        let several = self.facts.standalone != Some(true);
        (stale || freshness == Freshness::Latest) && several
    }

    /// Reads a node's value and state; `None` if it is absent.
    pub(crate) async fn read(
        &self,
        conn: &Arc<Conn>,
        deadline: Instant,
        path: &str,
        freshness: Freshness,
    ) -> Result<Option<(Bytes, Node)>> {
        let mut conn = Arc::clone(conn);
        let mut retries = Retries::new(deadline);
        loop {
            let (mark, stale) = self.tide.before(conn.id());
            let sync = self.must_sync(freshness, stale);
            match found(conn.get(deadline, path.to_owned(), sync).await) {
                Ok(reply) => {
                    if sync {
                        self.tide.synced(conn.id(), mark);
                    }
                    return Ok(reply);
                }
                Err(error) => self.again(&mut retries, &mut conn, error).await?,
            }
        }
    }

    /// Reads the names and the state of a node's children; `None` if it is absent.
    pub(crate) async fn read_children(
        &self,
        conn: &Arc<Conn>,
        deadline: Instant,
        path: &str,
        freshness: Freshness,
    ) -> Result<Option<Children>> {
        let mut conn = Arc::clone(conn);
        let mut retries = Retries::new(deadline);
        loop {
            let (mark, stale) = self.tide.before(conn.id());
            let sync = self.must_sync(freshness, stale);
            match found(conn.children(deadline, path.to_owned(), sync).await) {
                Ok(reply) => {
                    if sync {
                        self.tide.synced(conn.id(), mark);
                    }
                    return Ok(reply);
                }
                Err(error) => self.again(&mut retries, &mut conn, error).await?,
            }
        }
    }

    /// Returns when a read whose reply was lost may be repeated, and its error if it may not.
    async fn again(&self, retries: &mut Retries, conn: &mut Arc<Conn>, error: Error) -> Result<()> {
        let lost = error.kind() == ErrorKind::Unavailable && error.retry() == Retry::Safe;
        let delay = retries.backoff.next_delay(&self.runtime);
        if !lost || Instant::now() + delay >= retries.deadline || *self.closed.borrow() {
            return Err(error);
        }
        tokio::time::sleep(delay).await;
        if conn.is_over() && conn.is_base() {
            *conn = self.base.conn(retries.deadline).await?;
        }
        Ok(())
    }

    pub(crate) fn listing(&self, dir: &Dir, children: Option<Children>) -> Listing {
        let Some((names, node)) = children else { return Listing::default() };
        let keys = names.iter().filter_map(|name| self.settings.paths.child(dir, name));
        Listing::new(layout::line(keys), node.children_modified)
    }

    // ---- directories ------------------------------------------------------------------------------------------

    /// Creates the directory nodes above `path`.
    ///
    /// They are containers: the server collects them some time after their last child went, and may do so between
    /// our creating one and putting something into it. The caller tries again then.
    pub(crate) async fn make_parents(&self, conn: &Conn, deadline: Instant, path: &str) -> Result<()> {
        let Some(mut dir) = parent(path).map(str::to_owned) else { return Ok(()) };
        let mut below: Vec<String> = Vec::new();
        for _ in 0..RACES_MAX * 8 {
            if dir == "/" {
                return Ok(());
            }
            match self.make_directory(conn, deadline, dir.clone()).await {
                Ok(_) | Err(Fault::NodeExists) => match below.pop() {
                    Some(next) => dir = next,
                    None => return Ok(()),
                },
                Err(Fault::NoNode) => {
                    let Some(above) = parent(&dir).map(str::to_owned) else { return Ok(()) };
                    below.push(std::mem::replace(&mut dir, above));
                }
                // Creating a directory twice does no harm, so a lost reply is no reason to be unsure.
                Err(fault) => return Err(nothing_lost(fault.into_error())),
            }
        }
        Err(lost_races(path))
    }

    async fn make_directory(&self, conn: &Conn, deadline: Instant, path: String) -> Result<Node, Fault> {
        let value = Bytes::from_static(SENTINEL);
        conn.create(deadline, path, value, crate::driver::NodeKind::Container, self.settings.acl.clone())
            .await
    }
}

/// How a read is repeated.
struct Retries {
    deadline: Instant,
    backoff: Backoff,
}

impl Retries {
    fn new(deadline: Instant) -> Self {
        Self { deadline, backoff: Backoff::new(READ_BACKOFF_MAX) }
    }
}

fn nothing_lost(error: Error) -> Error {
    if error.retry() == Retry::Ambiguous { error.with_retry(Retry::Safe) } else { error }
}

/// Whether a node is only what keys live in.
pub(crate) fn is_directory(value: &[u8], node: &Node) -> bool {
    node.children > 0 || value == SENTINEL
}

pub(crate) fn lost_races(what: impl std::fmt::Display) -> Error {
    Error::unavailable("the nodes on the way changed again and again").with_context("path", what)
}

/// An absent node is an answer.
pub(crate) fn found<T>(reply: Result<T, Fault>) -> Result<Option<T>> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(Fault::NoNode) => Ok(None),
        Err(fault) => Err(fault.into_error()),
    }
}

/// A revision at which an absent node was gone already: that of the last change below the node above.
pub(crate) async fn absent_since(conn: &Conn, deadline: Instant, path: &str) -> Result<Revision> {
    let mut above = parent(path);
    while let Some(path) = above {
        match conn.stat(deadline, path.to_owned()).await {
            Ok(Some(node)) => return Ok(node.children_modified),
            Ok(None) => above = parent(path),
            Err(fault) => {
                let error = fault.into_error();
                // What is further up is even less likely to be ours to see.
                if error.kind() == ErrorKind::PermissionDenied {
                    return Ok(Revision::ZERO);
                }
                return Err(error);
            }
        }
    }
    Ok(Revision::ZERO)
}

/// Refuses the one value that no key can have.
pub(crate) fn check_value(key: &Key, value: &[u8]) -> Result<()> {
    if value == SENTINEL {
        return Err(Error::invalid("this value marks directories on ZooKeeper").with_context("key", key));
    }
    Ok(())
}
