//! The simulation: the real recipes over the memory store, in one thread, under a clock that jumps, while everything
//! goes wrong that a seed says.
//!
//! Each client of a run has a process of its own (its tasks can be made to stand still), a link of its own (on which
//! messages are lost, late and repeated) and sessions whose renewals travel over that link. What happens is recorded
//! as a [`History`](crate::checkers::History), which the checkers judge. The same [`Setup`] gives the same run, to the
//! byte.

mod backend;
mod batch;
pub mod calls;
mod client;
mod faults;
mod gate;
mod link;
#[cfg(feature = "planted-bugs")]
pub mod museum;
mod node;
mod plan;
mod recorder;
mod rng;
mod run;
pub mod scenarios;
mod session;
mod shrink;
mod weather;
mod world;

pub use batch::{ENOUGH, Struck, Totals, batch};
pub use faults::{Faults, Kind};
pub use recorder::Tally;
pub use run::{Run, Scenario, Setup, Sweep, run, shut_down_at};
pub use shrink::shrink;
