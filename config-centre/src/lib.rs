//! A config centre, written once over the contract of `coord-api`.
//!
//! No store's name appears in this crate: what it needs, every backend has.
//!
//! | part | gives |
//! |---|---|
//! | [`ConfigCentre`] | the namespaces below one directory |
//! | [`Namespace`] | publish, roll back, history, drafts, gray rules, retention, audit |
//! | [`Content`] | items or a document, also as a type of the program's own |
//! | [`Edit`], [`Edited`] | who changes what they expect to find, and what became of it |
//! | [`Head`], [`Release`], [`LogEntry`] | what is in force, what was published, who did it |
//! | [`Rule`], [`Percent`], [`Network`], [`Preview`] | who is given something else, and who would be |
//! | [`Diff`], [`Audit`] | what leads from one release to another; whether the past is what it was |
//! | [`Consumer`], [`Typed`] | the newest good configuration of one instance, as it changes |
//! | [`Layers`] | namespaces laid over one another |
//! | [`InstanceReport`] | what each instance runs |
//! | [`Bundle`] | export and import, as a directory or one archive |
//! | [`Keyring`], [`mask_content`] | values that only some can read, or that are not shown |
//!
//! The head is the only key whose change is a change of the namespace. It is written in one transaction with the log
//! entry and the release of its generation, checked on its own version: see `change.rs`, and `settle.rs` for replies that
//! are lost.

mod audit;
mod centre;
mod change;
mod consumer;
mod diff;
mod draft;
mod encrypt;
mod gray;
mod history;
mod layers;
mod model;
mod namespace;
mod publish;
mod releases;
mod retention;
mod secret;
mod settle;
mod transfer;

pub use audit::{Audit, Broken};
pub use centre::ConfigCentre;
pub use consumer::{
    Changes, Configuration, Consumer, ConsumerOptions, InstanceReport, Instances, Running, Status, Typed,
};
pub use diff::{Diff, ItemDiff, LineDiff, Side};
pub use draft::{Draft, Saved};
pub use encrypt::{Keyring, is_sealed};
pub use gray::{Alternative, Gray, GrayContent, Matched, Network, Percent, Preview, Rule};
pub use history::History;
pub use layers::Layers;
pub use model::{
    Anchor, Content, Digest, Format, Generation, GrayChange, Head, Identity, LogEntry, Operation, Provenance,
    Release, ReleaseRef, ReleaseVersion, WallTime,
};
pub use namespace::{Current, Namespace};
pub use publish::{Conflict, Edit, Edited, Expected};
pub use retention::{Collected, Retention};
pub use secret::{MASK, holds_secret, looks_secret, mask_content, masked};
pub use transfer::{Bundle, Import, ImportOutcome, Imported, OnConflict};
