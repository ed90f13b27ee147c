//! Coordination recipes, each written once over the contract of `coord-api`.
//!
//! No store's name appears in this crate: what a recipe needs, every backend has.
//!
//! | recipe | gives |
//! |---|---|
//! | [`Lock`] | a fair, fenced, exclusive lock |
//! | [`RwLock`] | the same, shared by readers |
//! | [`Semaphore`] | as many at once as agreed |
//!
//! Underneath: a line of ephemeral entries ordered by the store (`line`), in which everybody waits for the one entry
//! ahead, so that a release wakes one waiter; and what holding means ([`Hold`]), which every guard shares.

mod guard;
mod hold;
mod insist;
mod line;
mod lock;
mod rwlock;
mod semaphore;

pub use hold::Hold;
pub use lock::{Lock, LockGuard};
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
