//! Revisions, entries and listings: what a store says about its keys.

use std::{fmt, num::ParseIntError, str::FromStr};

use bytes::Bytes;

use crate::{Key, Nonce, SessionId, Tag};

/// A point in the history of a store: it grows with every write, store-wide.
///
/// ZooKeeper: zxid. etcd: revision. Redis: the counter of the state machine. Two revisions of one store can be
/// compared; the numbers themselves mean nothing and have gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Before every write.
    pub const ZERO: Self = Self(0);

    /// The revision with this number; for backends.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state of one key, for compare-and-set: it differs after every write of the key.
///
/// Opaque: only equality means something. On ZooKeeper it restarts when a key is deleted and created again
/// ([`Guarantees::check_survives_recreate`](crate::Guarantees::check_survives_recreate)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version(u64);

impl Version {
    /// The version with this number; for backends.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How long a key lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// Until it is deleted.
    #[default]
    Persistent,
    /// Until it is deleted or the calling session ends (an ephemeral key).
    Session,
}

/// What the store keeps about a key besides its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meta {
    /// The revision that created the key.
    pub created: Revision,
    /// The revision that last changed it.
    pub modified: Revision,
    /// For [`Check::Version`](crate::Check::Version).
    pub version: Version,
    /// The session that owns it, if it is ephemeral.
    pub owner: Option<SessionId>,
}

impl Meta {
    /// Puts the parts together; for backends.
    #[must_use]
    pub const fn new(
        created: Revision,
        modified: Revision,
        version: Version,
        owner: Option<SessionId>,
    ) -> Self {
        Self { created, modified, version, owner }
    }
}

/// A key with its value.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value; may be empty, may be any bytes.
    pub value: Bytes,
    /// What the store keeps about it.
    pub meta: Meta,
}

impl Entry {
    /// Puts the parts together; for backends.
    #[must_use]
    pub const fn new(key: Key, value: Bytes, meta: Meta) -> Self {
        Self { key, value, meta }
    }
}

impl fmt::Debug for Entry {
    /// Shows the size of the value and not the value, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("value_bytes", &self.value.len())
            .field("meta", &self.meta)
            .finish()
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Child {
    /// The key, or the path of a directory below.
    pub key: Key,
    /// What kind of place in the line it is, if [`create_ordered`](crate::Backend::create_ordered) made it, here
    /// or in a program that uses the same layout.
    pub tag: Option<Tag>,
    /// The nonce it was made with, if it shows one.
    pub nonce: Option<Nonce>,
}

impl Child {
    /// Puts the parts together; for backends.
    #[must_use]
    pub const fn new(key: Key, tag: Option<Tag>, nonce: Option<Nonce>) -> Self {
        Self { key, tag, nonce }
    }
}

/// The names in a directory at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// Places in the line first, in the order in which the store received them; then all others by name.
    ///
    /// What counts as a place is the layout's rule: on ZooKeeper names with a tag and a sequence number, on
    /// etcd, as for its own clients, every key.
    pub children: Vec<Child>,
    /// The moment, for [`Seen::Children`](crate::Seen::Children).
    pub revision: Revision,
}

impl Listing {
    /// Puts the parts together; for backends.
    #[must_use]
    pub const fn new(children: Vec<Child>, revision: Revision) -> Self {
        Self { children, revision }
    }

    /// The index of `key`, if it is here.
    #[must_use]
    pub fn position(&self, key: &Key) -> Option<usize> {
        self.children.iter().position(|child| child.key == *key)
    }
}

/// A number that grows with every grant of a name, for resources outside the store to compare (promise G1).
///
/// The high part is the fence epoch of the configuration, the low part the revision that made the grant. Raise
/// the epoch when you move to another store, and tokens keep growing although the new store counts from less.
///
/// ```
/// # use coord_api::{FencingToken, Revision};
///
/// let before = FencingToken::new(0, Revision::new(7_000_000));
/// let after_the_move = FencingToken::new(1, Revision::new(12));
/// assert!(after_the_move > before);
/// assert_eq!(before.to_string(), "7000000");
/// // As it came with a request, to who keeps the resource.
/// assert_eq!("7000000".parse::<FencingToken>().ok(), Some(before));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u128);

impl FencingToken {
    /// The token of a grant at `revision` under fence epoch `epoch`.
    #[must_use]
    pub const fn new(epoch: u32, revision: Revision) -> Self {
        Self(((epoch as u128) << 64) | revision.0 as u128)
    }

    /// The token as one number: epoch x 2^64 + revision.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }
}

impl From<u128> for FencingToken {
    /// The token that [`get`](FencingToken::get) gave as a number.
    fn from(number: u128) -> Self {
        Self(number)
    }
}

impl FromStr for FencingToken {
    type Err = ParseIntError;

    /// Reads what `Display` writes, and what a command finds in `COORD_FENCING_TOKEN`.
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

impl fmt::Display for FencingToken {
    /// Decimal; fits 64 bits while the fence epoch is 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({self})")
    }
}
