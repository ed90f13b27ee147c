//! One client per member, one of them in use.
//!
//! The driver's own balancing over several members keeps sending to those that are down (27 % of calls failed with
//! one of three down). So every member has a client of its own; calls go to one member until it fails, then to the
//! next. Sessions, watches and writes of a handle thus reach the same member.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use coord_api::{Error, ErrorKind, Result, kit::Runtime};
use etcd_client::{Client, ConnectOptions, KvClient, LeaseClient, WatchClient};
use tokio::sync::OnceCell;

use crate::{
    error::{Call, Failure, failure},
    settings::Settings,
};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(1);
/// After how much silence a connection with open streams is probed.
///
/// Not sooner: etcd takes pings at intervals below 5 s (`--grpc-keepalive-min-time`) for an attack and ends the
/// connection at the third, and pings without an open stream at once.
const PROBE: Duration = Duration::from_secs(6);
/// How long the answer to a probe may take.
const PROBE_ANSWER: Duration = Duration::from_secs(2);
/// Largest answer. A page of a listing with the largest values fits.
const DECODE_MAX: usize = 64 << 20;

/// The members of the store.
pub(crate) struct Endpoints {
    members: Vec<Member>,
    current: AtomicUsize,
    closed: AtomicBool,
    /// Tells the connections of one member apart.
    serial: AtomicU64,
    runtime: Runtime,
    options: ConnectOptions,
    secure: bool,
}

struct Member {
    host: String,
    /// Opened by the first call; replaced by an empty cell on close.
    connection: Mutex<Arc<OnceCell<Arc<Connection>>>>,
}

/// A client of one member, in its parts: cloning one of them costs a tenth of cloning all.
pub(crate) struct Connection {
    pub(crate) client: Client,
    kv: KvClient,
    lease: LeaseClient,
    watch: WatchClient,
    pub(crate) link: Link,
}

impl Connection {
    pub(crate) fn kv(&self) -> KvClient {
        self.kv.clone()
    }

    pub(crate) fn lease(&self) -> LeaseClient {
        self.lease.clone()
    }

    pub(crate) fn watch(&self) -> WatchClient {
        self.watch.clone()
    }
}

/// Which connection to which member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    member: usize,
    serial: u64,
}

impl Endpoints {
    /// Nothing is connected yet.
    pub(crate) fn new(settings: &Settings, runtime: Runtime) -> Result<Self> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT)
            .with_timeout(settings.request_timeout)
            .with_keep_alive(PROBE, PROBE_ANSWER)
            .with_keep_alive_while_idle(false)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((name, password)) = &settings.user {
            options = options.with_user(name, password.expose());
        }
        if let Some(tls) = &settings.tls {
            options = crate::tls::apply(options, tls)?;
        }
        let members =
            settings.hosts.iter().map(|host| Member { host: host.clone(), connection: Mutex::default() });
        Ok(Self {
            members: members.collect(),
            current: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            serial: AtomicU64::new(0),
            runtime,
            options,
            secure: settings.tls.is_some(),
        })
    }

    /// How many members the URL names.
    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    /// The member in use, by its place in the URL.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// `host:port` of a member.
    pub(crate) fn host(&self, member: usize) -> &str {
        self.members.get(member).map_or("", |member| &member.host)
    }

    /// A client of the member in use.
    ///
    /// # Errors
    /// `Closed`, and those of logging in.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        let index = self.current();
        let member = &self.members[index];
        let cell = Arc::clone(&member.cell());
        if self.closed.load(Ordering::Acquire) {
            return Err(Failure::plain(closed()));
        }
        let connection = cell.get_or_try_init(|| Box::pin(self.open(index))).await;
        match connection {
            Ok(connection) => Ok(Arc::clone(connection)),
            Err(failure) => {
                if failure.rotate {
                    self.leave(index);
                }
                Err(failure)
            }
        }
    }

    /// Makes a client, and logs in if there is a user. Must run on the library's runtime: the driver spawns the
    /// tasks of the connection on the current one.
    async fn open(&self, index: usize) -> Result<Arc<Connection>, Failure> {
        let scheme = if self.secure { "https" } else { "http" };
        let url = format!("{scheme}://{}", self.members[index].host);
        let options = self.options.clone();
        let connecting = async move { Ok(Client::connect([url], Some(options)).await) };
        let client = self.runtime.run(connecting).await.map_err(Failure::plain)?;
        let client = client.map_err(|e| failure(e, Call::Read))?;
        Ok(Arc::new(Connection {
            kv: client.kv_client().max_decoding_message_size(DECODE_MAX),
            watch: client.watch_client().max_decoding_message_size(DECODE_MAX),
            lease: client.lease_client(),
            client,
            link: Link { member: index, serial: self.serial.fetch_add(1, Ordering::Relaxed) },
        }))
    }

    /// Moves on from a member that failed, unless somebody already did.
    ///
    /// A `silent` connection is given up too: it may be half open, and the driver would wait for it while a new one
    /// would work at once.
    pub(crate) fn failed(&self, link: Link, silent: bool) {
        if silent {
            let mut cell = self.members[link.member].cell();
            if cell.get().is_some_and(|connection| connection.link == link) {
                *cell = Arc::default();
            }
        }
        self.leave(link.member);
    }

    /// Moves on from a member, unless somebody already did.
    pub(crate) fn leave(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let moved = self.current.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if moved && next != member {
            tracing::debug!(from = self.host(member), to = self.host(next), "moving to another etcd member");
        }
    }

    /// Makes one call, on other members too where that is surely harmless.
    ///
    /// Runs on the library's runtime and to its end also if the caller goes away: a caller that blocks its thread
    /// must not stop the shared connection from being read, and a write in flight is never cancelled.
    pub(crate) async fn call<T, F>(
        self: &Arc<Self>,
        call: Call,
        send: impl Fn(Arc<Connection>) -> F + Send + Sync + 'static,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let this = Arc::clone(self);
        // Boxed: the driver's futures are tens of kilobytes.
        let work = Box::pin(async move { Ok(this.attempts(call, send).await) });
        match self.runtime.run(work).await {
            Ok(result) => result,
            Err(e) => Err(Failure::plain(e)),
        }
    }

    async fn attempts<T, F>(&self, call: Call, send: impl Fn(Arc<Connection>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let mut left = self.members.len().max(2);
        loop {
            left -= 1;
            let failure = match self.connection().await {
                Ok(connection) => {
                    let link = connection.link;
                    match send(connection).await {
                        Ok(value) => return Ok(value),
                        Err(e) => {
                            let failure = failure(e, call);
                            if failure.rotate {
                                self.failed(link, failure.silent);
                            }
                            failure
                        }
                    }
                }
                Err(failure) => failure,
            };
            if left == 0
                || failure.error.retry() != coord_api::Retry::Safe
                || failure.too_large
                || failure.compacted
            {
                return Err(failure);
            }
        }
    }

    /// Lets go of all connections; calls afterwards fail.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for member in &self.members {
            *member.cell() = Arc::default();
        }
    }
}

impl Member {
    fn cell(&self) -> MutexGuard<'_, Arc<OnceCell<Arc<Connection>>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every call says after close.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store was closed")
}

impl fmt::Debug for Endpoints {
    /// Not the options: the driver's show the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints")
            .field("hosts", &self.members.iter().map(|member| &member.host).collect::<Vec<_>>())
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}
