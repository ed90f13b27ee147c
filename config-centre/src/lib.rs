//! A config centre, written once over the contract of `coord-api`.

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
