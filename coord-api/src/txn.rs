//! Transactions: checks and writes that happen together or not at all.

use std::collections::HashSet;

use bytes::Bytes;

use crate::{Error, ErrorKind, IntoKey, Key, Lifetime, Limits, Result, Revision, Version};

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// The key is not there.
    Absent(Key),
    /// The key is there.
    Exists(Key),
    /// The key is there in this version.
    Version(Key, Version),
    /// The key is there and was created by this revision.
    ///
    /// On ZooKeeper this costs one read before the transaction.
    Created(Key, Revision),
}

impl Check {
    /// The key it is about.
    #[must_use]
    pub const fn key(&self) -> &Key {
        match self {
            Self::Absent(key) | Self::Exists(key) | Self::Version(key, _) | Self::Created(key, _) => key,
        }
    }
}

/// A write of one key, with what it expects of the key.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Creates the key; refused if it is there.
    Create {
        /// The key.
        key: Key,
        /// Its value.
        value: Bytes,
        /// How long it lives.
        lifetime: Lifetime,
    },
    /// Changes the value and keeps the owner; refused if the key is absent.
    Update {
        /// The key.
        key: Key,
        /// Its new value.
        value: Bytes,
    },
    /// Changes the value and keeps the owner, or creates a persistent key; never refused.
    Put {
        /// The key.
        key: Key,
        /// Its new value.
        value: Bytes,
    },
    /// Deletes the key; refused if it is absent.
    Delete {
        /// The key.
        key: Key,
    },
}

impl Op {
    /// The key it writes.
    #[must_use]
    pub const fn key(&self) -> &Key {
        match self {
            Self::Create { key, .. }
            | Self::Update { key, .. }
            | Self::Put { key, .. }
            | Self::Delete { key } => key,
        }
    }

    /// The value it writes; empty for a deletion.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match self {
            Self::Create { value, .. } | Self::Update { value, .. } | Self::Put { value, .. } => value,
            Self::Delete { .. } => &[],
        }
    }
}

impl std::fmt::Debug for Op {
    /// Shows the size of the value and not the value, which may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Create { .. } => "Create",
            Self::Update { .. } => "Update",
            Self::Put { .. } => "Put",
            Self::Delete { .. } => "Delete",
        };
        write!(f, "{name}({}, {} bytes)", self.key(), self.value().len())
    }
}

/// Checks and writes that happen together or not at all.
///
/// All checks are judged on the state before the transaction. A key is written at most once. Keys are given as text or
/// as [`Key`]; a malformed one is an error when the transaction is committed.
///
/// ```
/// # use coord_api::{Lifetime, Txn};
///
/// let txn = Txn::new()
///     .check_absent("/deploy/frozen")
///     .create("/deploy/running", "v42", Lifetime::Persistent)
///     .put("/deploy/last", "v42");
/// assert_eq!((txn.checks().len(), txn.ops().len()), (1, 2));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Txn {
    checks: Vec<Check>,
    ops: Vec<Op>,
    /// What is wrong with the first key that is none; told when the transaction is committed.
    malformed: Option<String>,
}

impl Txn {
    /// An empty transaction.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition.
    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Adds a write.
    pub fn op(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    /// Adds [`Check::Absent`].
    pub fn check_absent(self, key: impl IntoKey) -> Self {
        self.with_key(key, |txn, key| txn.check(Check::Absent(key)))
    }

    /// Adds [`Check::Exists`].
    pub fn check_exists(self, key: impl IntoKey) -> Self {
        self.with_key(key, |txn, key| txn.check(Check::Exists(key)))
    }

    /// Adds [`Check::Version`].
    pub fn check_version(self, key: impl IntoKey, version: Version) -> Self {
        self.with_key(key, |txn, key| txn.check(Check::Version(key, version)))
    }

    /// Adds [`Op::Create`].
    pub fn create(self, key: impl IntoKey, value: impl Into<Bytes>, lifetime: Lifetime) -> Self {
        self.with_key(key, |txn, key| txn.op(Op::Create { key, value: value.into(), lifetime }))
    }

    /// Adds [`Op::Update`].
    pub fn update(self, key: impl IntoKey, value: impl Into<Bytes>) -> Self {
        self.with_key(key, |txn, key| txn.op(Op::Update { key, value: value.into() }))
    }

    /// Adds [`Op::Put`].
    pub fn put(self, key: impl IntoKey, value: impl Into<Bytes>) -> Self {
        self.with_key(key, |txn, key| txn.op(Op::Put { key, value: value.into() }))
    }

    /// Adds [`Op::Delete`].
    pub fn delete(self, key: impl IntoKey) -> Self {
        self.with_key(key, |txn, key| txn.op(Op::Delete { key }))
    }

    fn with_key(mut self, key: impl IntoKey, add: impl FnOnce(Self, Key) -> Self) -> Self {
        match key.into_key() {
            Ok(key) => add(self, key),
            Err(error) => {
                self.malformed.get_or_insert_with(|| error.to_string());
                self
            }
        }
    }

    /// The conditions, in order.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The writes, in order.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The conditions and writes, in order.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Check>, Vec<Op>) {
        (self.checks, self.ops)
    }

    /// The same transaction with every key replaced.
    pub fn map_keys(mut self, map: impl Fn(&Key) -> Key) -> Self {
        for check in &mut self.checks {
            match check {
                Check::Absent(key) | Check::Exists(key) | Check::Version(key, _) | Check::Created(key, _) => {
                    *key = map(key)
                }
            }
        }
        for op in &mut self.ops {
            match op {
                Op::Create { key, .. }
                | Op::Update { key, .. }
                | Op::Put { key, .. }
                | Op::Delete { key } => *key = map(key),
            }
        }
        self
    }

    /// Whether a write makes an ephemeral key.
    #[must_use]
    pub fn needs_session(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Create { lifetime: Lifetime::Session, .. }))
    }

    /// Refuses what no store takes, before anything is sent.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an empty transaction, a malformed key, and a key written twice,
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) for too many operations and too large a value or request.
    pub fn validate(&self, limits: &Limits) -> Result<()> {
        if let Some(malformed) = &self.malformed {
            return Err(Error::invalid(malformed.clone()));
        }
        if self.ops.is_empty() && self.checks.is_empty() {
            return Err(Error::invalid("an empty transaction"));
        }
        let count = self.ops.len() + self.checks.len();
        if count > limits.txn_max_ops {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                "too many checks and writes in one transaction",
            )
            .with_context("count", count)
            .with_context("limit", limits.txn_max_ops));
        }
        let mut written = HashSet::new();
        let mut total = 0;
        for op in &self.ops {
            if !written.insert(op.key()) {
                return Err(
                    Error::invalid("a transaction writes a key at most once").with_context("key", op.key())
                );
            }
            limits.check_value(op.key(), op.value())?;
            total += op.key().as_str().len() + op.value().len();
        }
        limits.check_request(total)
    }
}

/// How a transaction ended.
///
/// A refused condition is an answer, not an error: the caller asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a rejected transaction changed nothing"]
pub enum TxnOutcome {
    /// Everything was applied.
    Committed(Commit),
    /// Nothing was applied: a condition did not hold.
    Rejected(Rejection),
}

impl TxnOutcome {
    /// Whether it was applied.
    #[must_use]
    pub const fn is_committed(&self) -> bool {
        matches!(self, Self::Committed(_))
    }

    /// What was written, or `None` if it was rejected.
    #[must_use]
    pub fn committed(self) -> Option<Commit> {
        match self {
            Self::Committed(commit) => Some(commit),
            Self::Rejected(_) => None,
        }
    }
}

/// What a transaction wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// One for each operation, in order; `None` for a deletion.
    pub written: Vec<Option<Written>>,
}

impl Commit {
    /// Puts the parts together; for backends.
    #[must_use]
    pub const fn new(written: Vec<Option<Written>>) -> Self {
        Self { written }
    }

    /// The revision of the commit; `None` if it only deleted (ZooKeeper does not tell it then).
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        self.written.iter().flatten().map(|written| written.revision).max()
    }

    /// What the first operation wrote.
    #[must_use]
    pub fn first(&self) -> Option<Written> {
        self.written.first().copied().flatten()
    }
}

/// The state of a key after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The revision of the write.
    pub revision: Revision,
    /// The version that the key has now.
    pub version: Version,
}

impl Written {
    /// Puts the parts together; for backends.
    #[must_use]
    pub const fn new(revision: Revision, version: Version) -> Self {
        Self { revision, version }
    }
}

/// Why a transaction was rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The first condition that did not hold, where the store tells it.
    pub failed: Option<Failed>,
}

impl Rejection {
    /// Puts the parts together; for backends.
    #[must_use]
    pub const fn new(failed: Option<Failed>) -> Self {
        Self { failed }
    }
}

/// Which part of a transaction did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The check with this index.
    Check(usize),
    /// What the write with this index expects of its key.
    Op(usize),
}
