//! The facts that a history is made of, one enum a subject.
//!
//! Ids (`ask`, `op`, `watch`, ...) are unique in the history. Values are numbers: recorders write unique ones, or a
//! fingerprint.

mod data;
mod group;
mod holding;
mod meeting;
mod register;
mod store;

use serde::{Deserialize, Serialize};

pub use data::{Counter, Drawn, Queue, Told};
pub use group::{Config, Found, Group, Share};
pub use holding::{Election, Guarded, Hold, Job, Line, Mode, Resize, Why};
pub use meeting::{Barrier, Rendezvous, Step};
pub use register::{Action, Answer, Register};
pub use store::{Cache, Session, Stored, Watch};

/// A fencing token or an epoch, as one number.
pub type Token = u128;

macro_rules! what {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One fact.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum What { $($(#[$doc])* $name($name),)* }
        $(impl From<$name> for What {
            fn from(fact: $name) -> Self {
                Self::$name(fact)
            }
        })*
    };
}

what! {
    /// Reads and writes of one key.
    Register,
    /// Who asks for a lock or permits, gets them, and ends.
    Hold,
    /// Who stands in which line, in the store.
    Line,
    /// How many permits there are.
    Resize,
    /// What was written while a hold held.
    Guarded,
    /// Who leads.
    Election,
    /// Who waits at a barrier or latch, and passes.
    Barrier,
    /// Who enters and leaves a double barrier.
    Rendezvous,
    /// What goes through a queue.
    Queue,
    /// What is added to a counter.
    Counter,
    /// An id that was drawn.
    Drawn,
    /// A run of a scheduled job.
    Job,
    /// What a listener of one key was told.
    Told,
    /// What a watcher of a group was told.
    Group,
    /// What a member of a group takes for its own.
    Share,
    /// What a view of a service was told.
    Found,
    /// What publishers and consumers of a configuration were told.
    Config,
    /// What changed in the store.
    Stored,
    /// What a watch told.
    Watch,
    /// What a cache told.
    Cache,
    /// When sessions began and ended.
    Session,
    /// What was left over at the end.
    Leftover,
    /// A fault that struck.
    Fault,
}

/// Whether a write was applied, as its caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Applied {
    /// Surely applied.
    Yes,
    /// Surely not applied.
    No,
    /// Nobody knows.
    Unknown,
}

/// What was left over when all clients had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Of what.
    pub kind: LeftoverKind,
    /// Which, for a person who reads it: keys, names of tasks.
    pub which: Vec<String>,
    /// How many.
    pub count: u64,
}

/// What can be left over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LeftoverKind {
    /// Keys in the store.
    Keys,
    /// Watches and waits at the store.
    Watches,
    /// Tasks of the runtime.
    Tasks,
    /// Sessions at the store.
    Sessions,
}

/// A fault that struck something, not one that was planned and hit nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Its kind: `reply-lost`, `partition`.
    pub kind: String,
}
