//! A release: content that never changes.

use bytes::Bytes;
use coord_api::{Entry, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::{Content, Digest, Provenance, ReleaseVersion, Stored, malformed, read, write};

/// Content that was published. It never changes; retention removes it one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Release {
    /// Its number.
    pub version: ReleaseVersion,
    /// The release that was the main one when it was made; `None` for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ReleaseVersion>,
    /// Who made it, when and why.
    #[serde(flatten)]
    pub made: Provenance,
    /// What it holds.
    pub content: Content,
}

/// A release as a head names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReleaseRef {
    /// Its number.
    pub version: ReleaseVersion,
    /// The SHA-256 of its key's value, byte for byte.
    pub sha256: Digest,
    /// The [digest](Content::digest) of its content.
    pub content_sha256: Digest,
}

impl Stored for Release {
    const WHAT: &'static str = "a release";

    fn check(&self) -> Result<(), &'static str> {
        if self.version < ReleaseVersion::FIRST { Err("the first release is 1") } else { Ok(()) }
    }
}

impl Release {
    /// As it is stored, and what a head says of it.
    pub(crate) fn encode(&self) -> Result<(Bytes, ReleaseRef)> {
        let bytes = write(self)?;
        let reference = self.reference(&bytes);
        Ok((bytes, reference))
    }

    /// Reads the key of a release, whichever it is.
    pub(crate) fn read(entry: &Entry) -> Result<(Self, ReleaseRef)> {
        let release: Self = read(entry)?;
        if ReleaseVersion::from_name(entry.key.name()) != Some(release.version) {
            return Err(malformed(&entry.key, Self::WHAT, "it is the release of another key"));
        }
        let reference = release.reference(&entry.value);
        Ok((release, reference))
    }

    /// Reads the release that a head names.
    pub(crate) fn decode(entry: &Entry, expected: &ReleaseRef) -> Result<Self> {
        let found = Digest::of(&entry.value);
        if found != expected.sha256 {
            return Err(Error::new(ErrorKind::Malformed, "the release was changed after it was published")
                .with_context("key", &entry.key)
                .with_context("sha256", found)
                .with_context("published", expected.sha256));
        }
        Ok(Self::read(entry)?.0)
    }

    fn reference(&self, bytes: &[u8]) -> ReleaseRef {
        ReleaseRef { version: self.version, sha256: Digest::of(bytes), content_sha256: self.content.digest() }
    }
}
