//! The log: one entry for each generation, chained by hash.

use std::fmt;

use coord_api::{Entry, Result};
use serde::{Deserialize, Serialize};

use super::{Digest, Generation, Provenance, ReleaseRef, ReleaseVersion, Stored, malformed, read};
use crate::gray::Gray;

/// What made a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Operation {
    /// A new main release.
    Publish,
    /// The main release is one that was made before.
    Rollback,
    /// A gray rule was added or changed.
    Gray,
    /// What a gray rule gave to some became the main release, and the rule is gone.
    Promote,
    /// A gray rule is gone.
    Abandon,
}

impl Operation {
    /// The name in lower case: `publish`, `rollback`, `gray`, `promote`, `abandon`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Rollback => "rollback",
            Self::Gray => "gray",
            Self::Promote => "promote",
            Self::Abandon => "abandon",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What became of a gray rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GrayChange {
    /// The rule before; `None` if it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Gray>,
    /// The rule now; `None` if it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Gray>,
}

/// One generation, as the history tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogEntry {
    /// The generation that it made.
    pub generation: Generation,
    /// What made it.
    pub op: Operation,
    /// The main release before; `None` for the first generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ReleaseVersion>,
    /// The main release since.
    pub to: ReleaseRef,
    /// What became of a gray rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gray: Option<GrayChange>,
    /// Who did it, when and why.
    #[serde(flatten)]
    pub made: Provenance,
    /// The SHA-256 of the entry before, byte for byte; `None` for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_sha256: Option<Digest>,
    /// Made by the client for this one change.
    pub nonce: String,
}

impl Stored for LogEntry {
    const WHAT: &'static str = "a log entry";

    fn check(&self) -> Result<(), &'static str> {
        if self.generation < Generation::FIRST { Err("the first generation is 1") } else { Ok(()) }
    }
}

impl LogEntry {
    /// Reads the key of a generation, with the digest of what it holds.
    pub(crate) fn decode(entry: &Entry) -> Result<(Self, Digest)> {
        let logged: Self = read(entry)?;
        if Generation::from_name(entry.key.name()) != Some(logged.generation) {
            return Err(malformed(&entry.key, Self::WHAT, "it is the entry of another key"));
        }
        Ok((logged, Digest::of(&entry.value)))
    }
}

/// Where the log and the releases begin, after retention has removed older ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Anchor {
    /// The oldest generation that is still in the log.
    pub generation: Generation,
    /// The SHA-256 of the entry before it; `None` if none was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_sha256: Option<Digest>,
    /// Releases before this one are kept only while a head points at them.
    pub release: ReleaseVersion,
}

impl Default for Anchor {
    /// Nothing was removed.
    fn default() -> Self {
        Self { generation: Generation::FIRST, previous_sha256: None, release: ReleaseVersion::FIRST }
    }
}

impl Stored for Anchor {
    const WHAT: &'static str = "the anchor of a log";

    fn check(&self) -> Result<(), &'static str> {
        match (self.generation > Generation::FIRST, self.previous_sha256) {
            (true, None) => Err("it does not say what came before"),
            (false, Some(_)) => Err("nothing comes before the first generation"),
            _ => Ok(()),
        }
    }
}
