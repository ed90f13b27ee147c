//! What a store can hold and what it promises, as data.

use std::time::Duration;

use crate::{Error, ErrorKind, Key, Result};

/// Facts about a backend, as [`Backend::info`](crate::Backend::info) tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackendInfo {
    /// The name of the backend: `memory`, `zk`, `etcd`, `redis`.
    pub name: &'static str,
    /// The server and its version, as it reports itself: `etcd 3.5.16`. Empty if it does not.
    pub server: String,
    /// What the store can hold.
    pub limits: Limits,
    /// What the store promises.
    pub guarantees: Guarantees,
    /// What is wrong or risky with this store as it is set up, one sentence each. `coord doctor` prints them.
    pub warnings: Vec<String>,
}

impl BackendInfo {
    /// Puts the parts together; for backends.
    #[must_use]
    pub const fn new(name: &'static str, server: String, limits: Limits, guarantees: Guarantees) -> Self {
        Self { name, server, limits, guarantees, warnings: Vec::new() }
    }

    /// The same with these warnings.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

/// What a store can hold. Exceeding one is [`LimitExceeded`](ErrorKind::LimitExceeded), before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest value, in bytes.
    pub value_max_bytes: usize,
    /// Largest request: all keys and values of a transaction, in bytes.
    pub request_max_bytes: usize,
    /// Most checks and writes in a transaction, together.
    pub txn_max_ops: usize,
    /// Shortest session; shorter is refused. The server may grant longer.
    pub session_ttl_min: Duration,
    /// Longest session; longer is refused. The server may grant shorter.
    pub session_ttl_max: Duration,
}

impl Limits {
    /// What every store of this project takes, so that code that runs on one runs on all.
    ///
    /// Values and requests up to 1,000,000 bytes (ZooKeeper's packet is 1 MiB with its envelope), 128 checks
    /// and writes together (etcd compares once for each), sessions from 100 ms to a day.
    pub const PORTABLE: Self = Self {
        value_max_bytes: 1_000_000,
        request_max_bytes: 1_000_000,
        txn_max_ops: 128,
        session_ttl_min: Duration::from_millis(100),
        session_ttl_max: Duration::from_secs(86_400),
    };

    /// Refuses a value that is too large.
    ///
    /// # Errors
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) with the key, the size and the limit.
    pub fn check_value(&self, key: &Key, value: &[u8]) -> Result<()> {
        if value.len() <= self.value_max_bytes {
            return Ok(());
        }
        Err(Error::new(ErrorKind::LimitExceeded, "the value is too large")
            .with_context("key", key)
            .with_context("bytes", value.len())
            .with_context("limit", self.value_max_bytes))
    }

    /// Refuses a request that is too large.
    ///
    /// # Errors
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) with the size and the limit.
    pub fn check_request(&self, bytes: usize) -> Result<()> {
        if bytes <= self.request_max_bytes {
            return Ok(());
        }
        Err(Error::new(ErrorKind::LimitExceeded, "the request is too large")
            .with_context("bytes", bytes)
            .with_context("limit", self.request_max_bytes))
    }

    /// Refuses a session that is too short or too long.
    ///
    /// # Errors
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) with the limits.
    pub fn check_ttl(&self, ttl: Duration) -> Result<()> {
        if (self.session_ttl_min..=self.session_ttl_max).contains(&ttl) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::LimitExceeded, "the session's ttl is outside the limits")
            .with_context("ttl", format!("{ttl:?}"))
            .with_context("limits", format!("{:?} to {:?}", self.session_ttl_min, self.session_ttl_max)))
    }
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: it is gone when the store's process ends.
    Process,
    /// A restart of the store, but not the loss of its host, and not a failover to a replica.
    Restart,
    /// The loss of any minority of the store's servers.
    Quorum,
}

/// What a store promises beyond what all of them do.
///
/// Recipes may not read this; it is for people, for the suite, which chooses what to assert by it, and for the warning
/// that exclusion is at risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantees {
    /// A watcher sees every change; otherwise only the latest of several in a row.
    pub watch_every_change: bool,
    /// [`Start::After`](crate::Start::After) is served from history, while it lasts.
    pub watch_resumes: bool,
    /// [`Check::Version`](crate::Check::Version) is not fooled by a key that was deleted and created again.
    pub check_survives_recreate: bool,
    /// A `get` of [`Freshness::Session`](crate::Freshness::Session) already sees every acknowledged write. A `list` may
    /// still be answered from the copy of a watched directory.
    pub linearizable_reads: bool,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// A write may be acknowledged and lost later: exclusion can be broken at a failover or restart, and only
    /// fencing tokens protect then (promise G13).
    pub can_lose_acknowledged_writes: bool,
}

impl Guarantees {
    /// The strongest of everything; for backends to start from.
    pub const STRONGEST: Self = Self {
        watch_every_change: true,
        watch_resumes: true,
        check_survives_recreate: true,
        linearizable_reads: true,
        durability: Durability::Quorum,
        can_lose_acknowledged_writes: false,
    };
}
