//! Coordination recipes, each written once over the contract of `coord-api`.
//!
//! No store's name appears in this crate: what a recipe needs, every backend has.
//!
//! | recipe | gives |
//! |---|---|
//! | [`Lock`] | a fair, fenced, exclusive lock |
//!
//! The parts underneath: a line of ephemeral entries ordered by the store (`queue`), in which everybody waits for the
//! one entry ahead, so that a release wakes one waiter.

mod guard;
mod lock;
mod queue;
mod stragglers;

pub use guard::LockGuard;
pub use lock::Lock;
