//! The layers that every stack has.

mod checked;
mod namespace;

pub use checked::CheckedLayer;
pub use namespace::NamespaceLayer;
