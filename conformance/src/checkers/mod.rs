//! Checkers: pure functions over a recorded [`History`] that find what must not happen.
//!
//! A checker says what it looked at ([`Stats`]) or which rule is broken and by which events ([`Violation`]). None of
//! them knows a store, a clock or a seed, so they serve the simulation and runs against real servers alike.

mod all;
#[cfg(test)]
mod alone_tests;
mod barrier;
mod cache;
mod config;
mod election;
mod exclusion;
#[cfg(test)]
mod exclusion_tests;
pub mod facts;
mod found;
mod group;
mod guarded;
mod history;
mod holds;
mod ledger;
mod linear;
#[cfg(test)]
mod linear_tests;
#[cfg(test)]
mod model_tests;
mod multi;
mod order;
#[cfg(test)]
mod order_tests;
mod queue;
mod resize;
mod sessions;
mod shares;
#[cfg(test)]
mod story;
mod sums;
mod told;
mod vacuity;
mod watch;
#[cfg(test)]
mod watch_tests;
mod well_formed;

pub use all::{Terms, check_all};
pub use barrier::{barrier, rendezvous};
pub use cache::cache;
pub use config::config;
pub use election::election;
pub use exclusion::{exclusion, one_grant_a_release};
pub use facts::What;
pub use found::found;
pub use group::group;
pub use guarded::guarded;
pub use history::{Event, History, Stats, Verdict, Violation};
pub use linear::{Judgement, linearizable};
pub use multi::multi;
pub use order::{fifo, re_entry, tokens};
pub use queue::queue;
pub use resize::resize;
pub use sessions::{ephemeral, leaks};
pub use shares::shares;
pub use sums::{counter, run_once, unique_ids};
pub use told::told;
pub use vacuity::{Minimum, exercised};
pub use watch::{Detail, watch};
pub use well_formed::well_formed;
