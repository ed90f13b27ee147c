//! The head: the one key whose change is a change of the namespace.

use bytes::Bytes;
use coord_api::{Entry, Error, ErrorKind, Key, Result};
use serde::{Deserialize, Serialize};

use super::{
    Content, Digest, Generation, Identity, Operation, Provenance, Release, ReleaseRef, ReleaseVersion,
    Stored, read, write,
};
use crate::gray::Gray;

/// Largest head, in bytes: every consumer reads it after every change.
const HEAD_MAX: usize = 64 * 1024;

/// What a namespace is now: which release is the main one, and the gray rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Head {
    /// Counts the changes of the namespace.
    pub generation: Generation,
    /// The release for everybody whom no gray rule matches.
    pub main: ReleaseRef,
    /// The latest release that was made, whether or not anything points at it.
    pub newest: ReleaseVersion,
    /// The gray rules, in the order in which they are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grays: Vec<Gray>,
    /// What made this generation.
    pub op: Operation,
    /// Who made this generation, when and why.
    #[serde(flatten)]
    pub made: Provenance,
    /// The SHA-256 of the log entry of this generation, byte for byte.
    pub log_sha256: Digest,
    /// Made by the client for this one change, so that it knows it again after a lost reply.
    pub nonce: String,
}

impl Stored for Head {
    const WHAT: &'static str = "the head of a namespace";

    fn check(&self) -> Result<(), &'static str> {
        if self.generation < Generation::FIRST || self.main.version < ReleaseVersion::FIRST {
            return Err("generations and releases begin with 1");
        }
        if self.newest < self.main.version {
            return Err("it points at a release that was never made");
        }
        Ok(())
    }
}

impl Head {
    /// Reads the head's key.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed) with the key if it holds something else.
    pub fn decode(entry: &Entry) -> Result<Self> {
        read(entry)
    }

    /// As it is stored at `key`.
    pub(crate) fn encode(&self, key: &Key) -> Result<Bytes> {
        let bytes = write(self)?;
        if bytes.len() > HEAD_MAX {
            let message = "the gray rules with their items are too large for the head";
            return Err(Error::new(ErrorKind::LimitExceeded, message)
                .with_context("key", key)
                .with_context("bytes", bytes.len())
                .with_context("limit", HEAD_MAX));
        }
        Ok(bytes)
    }

    /// The rule that this instance falls under: the first that matches it.
    #[must_use]
    pub fn rule_for(&self, instance: &Identity) -> Option<&Gray> {
        self.grays.iter().find(|gray| gray.rule.matches(instance))
    }

    /// The release that this instance has to read.
    #[must_use]
    pub fn release_for(&self, instance: &Identity) -> &ReleaseRef {
        self.rule_for(instance).and_then(|gray| gray.change.release()).unwrap_or(&self.main)
    }

    /// What holds for this instance, out of the release that [`release_for`](Self::release_for) named.
    #[must_use]
    pub fn content_for(&self, instance: &Identity, release: &Release) -> Content {
        match self.rule_for(instance) {
            Some(gray) => gray.change.over(&release.content),
            None => release.content.clone(),
        }
    }

    /// Every release that it points at.
    pub fn releases(&self) -> impl Iterator<Item = &ReleaseRef> {
        let grays = self.grays.iter().filter_map(|gray| gray.change.release());
        std::iter::once(&self.main).chain(grays)
    }
}
