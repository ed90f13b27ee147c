//! How a server is set up.

use std::{fmt, time::Duration};

use crate::TlsFiles;

/// How a server is set up. The defaults are fast and forgetful: short ticks, data in memory.
///
/// ```
/// # use {coord_testbed::ServerOptions, std::time::Duration};
/// let options = ServerOptions::new().tick(Duration::from_millis(100)).extra("maxClientCnxns", "10");
/// ```
#[derive(Debug, Clone)]
pub struct ServerOptions {
    pub(crate) tick: Duration,
    pub(crate) container_check_interval: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) election: Duration,
    pub(crate) extra: Vec<(String, String)>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) require_client_cert: bool,
    pub(crate) auth: Option<Auth>,
    pub(crate) durable: bool,
    pub(crate) start_timeout: Duration,
}

/// The name and password clients must give.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Auth {
    /// The name. On Redis and Valkey, `default` is the user of a plain `AUTH password`.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The password.
    pub fn password(&self) -> &str {
        &self.password
    }
}

// By hand, so that a password never gets into a log.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            tick: Duration::from_millis(200),
            container_check_interval: Duration::from_millis(300),
            heartbeat: Duration::from_millis(50),
            election: Duration::from_millis(500),
            extra: Vec::new(),
            tls: None,
            require_client_cert: false,
            auth: None,
            durable: false,
            start_timeout: Duration::from_secs(60),
        }
    }
}

impl ServerOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// ZooKeeper's tick (default 200 ms). Sessions may ask for 2 ticks to 60 s; a session of a
    /// dead client ends at most one tick after its time.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// How often ZooKeeper looks for empty container nodes and expired TTL nodes (default 300 ms;
    /// the server's own default is a minute).
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.container_check_interval = interval;
        self
    }

    /// etcd's heartbeat interval (default 50 ms).
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.heartbeat = interval;
        self
    }

    /// etcd's election timeout (default 500 ms). The shortest lease it grants is one and a half
    /// times this, rounded up to a second: 1 s with the default.
    pub fn election(mut self, timeout: Duration) -> Self {
        self.election = timeout;
        self
    }

    /// One more setting, after all others: a line `name=value` of `zoo.cfg` for ZooKeeper, a flag
    /// `--name value` for the rest. Can be called again.
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }

    /// Serves TLS with these files; [`Server::addr`](crate::Server::addr) is then the TLS port.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// With TLS, refuses clients without a certificate of the same authority (default: no).
    pub fn require_client_cert(mut self, require: bool) -> Self {
        self.require_client_cert = require;
        self
    }

    /// Refuses clients that do not give this name and password.
    ///
    /// Redis and Valkey get this user with all rights; if it is not `default`, the default user is
    /// turned off. etcd gets its `root` with this password, and the user, if it is another, in the
    /// `root` role. ZooKeeper has nothing to set up: its digests live in the nodes' ACLs, so
    /// starting it with this is [`Unsupported`](crate::TestbedError::Unsupported).
    pub fn auth(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.auth = Some(Auth { user: user.into(), password: password.into() });
        self
    }

    /// Keeps data on a real disk and waits for it before acknowledging, as in production (default:
    /// no, data in memory, no `fsync`).
    ///
    /// A killed and restarted server has everything it acknowledged either way: only the crash of
    /// the whole machine tells the two apart. Benchmarks of writes must set this.
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// How long [`Server::start`](crate::Server::start) and
    /// [`Server::restart`](crate::Server::restart) wait for a handshake (default 60 s).
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }
}
