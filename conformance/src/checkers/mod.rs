//! Checkers: pure functions over a recorded [`History`] that find what must not happen.
//!
//! A checker says what it looked at ([`Stats`]) or which rule is broken and by which events ([`Violation`]). None of
//! them knows a store, a clock or a seed, so they serve the simulation and runs against real servers alike.

pub mod facts;
mod history;

pub use facts::What;
pub use history::{Event, History, Stats, Verdict, Violation};
