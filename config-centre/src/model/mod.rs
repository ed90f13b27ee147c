//! What is stored: plain values, written as JSON, each with the version of its layout.

mod content;
mod digest;
mod head;
mod identity;
mod log;
mod numbers;
mod paths;
mod provenance;
mod release;
mod stored;
mod typed;

pub use content::{Content, Format};
pub use digest::Digest;
pub use head::Head;
pub use identity::Identity;
pub use log::{Anchor, GrayChange, LogEntry, Operation};
pub use numbers::{Generation, ReleaseVersion};
pub use provenance::{Provenance, WallTime};
pub use release::{Release, ReleaseRef};

pub(crate) use paths::Paths;
pub(crate) use stored::{Stored, malformed, read, write};
