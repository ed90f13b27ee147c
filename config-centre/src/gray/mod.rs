//! Gray releases: rules that give some instances something else than the main release.

mod change;
mod edit;
mod network;
mod percent;
mod preview;
mod rule;

pub use change::Alternative;
pub use edit::GrayContent;
pub use network::Network;
pub use percent::Percent;
pub use preview::{Matched, Preview};
pub use rule::{Gray, Rule};

pub(crate) use rule::check_rules;
