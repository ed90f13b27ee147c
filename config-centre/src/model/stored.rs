//! How values are written, and read back whoever wrote them.

use bytes::Bytes;
use coord_api::{Entry, Error, ErrorKind, Key, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The version of the layout that this release writes and reads.
const LAYOUT: u32 = 1;

/// A value with a key of its own.
pub(crate) trait Stored: Serialize + DeserializeOwned {
    /// What it is, for messages.
    const WHAT: &'static str;

    /// Refuses what parses and cannot be, with the reason.
    fn check(&self) -> Result<(), &'static str>;
}

/// The value as it is stored: a JSON object with the version of its layout.
pub(crate) fn write<T: Stored>(value: &T) -> Result<Bytes> {
    #[derive(Serialize)]
    struct Versioned<'a, T> {
        v: u32,
        #[serde(flatten)]
        value: &'a T,
    }
    let written = serde_json::to_vec(&Versioned { v: LAYOUT, value });
    let broken =
        |error| Error::new(ErrorKind::Unexpected, "a value cannot be written as JSON").with_source(error);
    written.map(Bytes::from).map_err(broken)
}

/// Reads what [`write`] wrote. Fields that it does not know, it ignores: later releases may add some.
pub(crate) fn read<T: Stored>(entry: &Entry) -> Result<T> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let malformed = |why: &str| malformed(&entry.key, T::WHAT, why);
    let parse =
        |error: &serde_json::Error| malformed(&format!("{} at byte {}", class(error), error.column()));
    let version: Version = serde_json::from_slice(&entry.value).map_err(|error| parse(&error))?;
    if version.v != LAYOUT {
        let why = "it has another layout; a later release wrote it";
        return Err(malformed(why).with_context("layout", version.v).with_context("known", LAYOUT));
    }
    let value: T = serde_json::from_slice(&entry.value).map_err(|error| parse(&error))?;
    value.check().map_err(malformed)?;
    Ok(value)
}

/// What is at `key` is not what belongs there.
pub(crate) fn malformed(key: &Key, what: &'static str, why: &str) -> Error {
    Error::new(ErrorKind::Malformed, "the key holds something else than belongs there")
        .with_context("key", key)
        .with_context("expected", what)
        .with_context("why", why)
}

/// What is wrong, without the value, which may be a secret.
fn class(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "not of this form",
        serde_json::error::Category::Eof => "cut off",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "no JSON",
    }
}
