//! The suites.

pub(crate) mod contended;
pub(crate) mod round_trips;
pub(crate) mod throughput;
pub(crate) mod waiters;
