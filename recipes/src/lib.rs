//! Coordination recipes, each written once over the contract of `coord-api`.
//!
//! No store's name appears in this crate: what a recipe needs, every backend has.
//!
//! | recipe | gives |
//! |---|---|
//! | [`Lock`] | a fair, fenced, exclusive lock |
//! | [`ReentrantLock`] | the same, which its owner may take again |
//! | [`SharedLock`] | the same, with a queue in the process |
//! | [`MultiLock`] | several of them, all or none |
//! | [`RwLock`] | a lock that readers share |
//! | [`Semaphore`] | as many at once as agreed |
//! | [`Fence`] | refuses tokens of the past, at a resource outside the store |
//! | [`Candidate`], [`Election`] | a leader, in a new epoch each time |
//! | [`PersistentEphemeral`] | a key that comes back with each new session |
//! | [`Membership`] | who is there, with a payload each |
//! | [`Partition`], [`HashRing`] | a share of the work for each member |
//! | [`RunOnce`] | a scheduled job once a period |
//! | [`SessionKeeper`] | the next session when one is lost |
//! | [`Cache`] | a local copy of a key, a directory or a tree, with listeners |
//! | [`Counter`] | a number that many change, each change counted once |
//! | [`IdGenerator`] | numbers that nobody gets twice |
//! | [`Barrier`] | a gate that holds everybody until it is opened |
//! | [`DoubleBarrier`] | a group that begins together and ends together |
//! | [`CountDownLatch`] | a gate that opens after so many have reported |
//! | [`SharedValue`] | a value for all, changed by version, with a listener |
//! | [`WorkQueue`] | tasks that are done at least once |
//!
//! Underneath: a line of ephemeral entries ordered by the store (`line`), in which everybody waits for the one entry
//! ahead, so that a release wakes one waiter; and what holding means ([`Hold`]), which every guard shares.

mod barrier;
mod cache;
mod cell;
mod counter;
mod dirs;
mod double_barrier;
mod election;
mod fence;
mod guard;
mod hold;
mod ids;
mod insist;
mod keeper;
mod latch;
mod line;
mod lock;
mod membership;
#[cfg(feature = "micro")]
#[doc(hidden)]
pub mod micro;
mod multi;
mod partition;
mod persistent;
#[doc(hidden)]
pub mod planted;
mod reentrant;
mod revocable;
mod run_once;
mod rwlock;
mod semaphore;
mod shared;
mod shared_value;
mod work_queue;

pub use barrier::Barrier;
pub use cache::{Cache, CacheEvent, CacheState, Change, Listener, Snapshot};
pub use counter::Counter;
pub use double_barrier::{DoubleBarrier, Entered};
pub use election::{
    Candidate, CandidateOptions, CandidateState, Election, LeaderStream, Leadership, Participant,
};
pub use fence::Fence;
pub use hold::Hold;
pub use ids::IdGenerator;
pub use keeper::SessionKeeper;
pub use latch::CountDownLatch;
pub use lock::{Lock, LockGuard};
pub use membership::{Joined, Member, MemberEvent, MemberStream, Membership};
pub use multi::{MultiGuard, MultiLock};
pub use partition::{HashRing, Partition, Share, ShareStream};
pub use persistent::{PersistentEphemeral, RegistrationState};
pub use reentrant::{Owner, ReentrantGuard, ReentrantLock};
pub use run_once::{Marker, MarkerState, RunOnce, RunOutcome, Unfinished};
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use shared::{SharedGuard, SharedLock};
pub use shared_value::{SharedValue, Versioned};
pub use work_queue::{Item, Priority, WorkQueue};
