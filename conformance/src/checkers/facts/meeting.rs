//! Who waits for whom: barriers, latches, double barriers.

use serde::{Deserialize, Serialize};

/// A barrier that is up or down, and a latch that counts down. A latch of n is down after n counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Barrier {
    /// The barrier is surely up from now on.
    Raised {
        /// The barrier.
        name: String,
    },
    /// Somebody calls to lower it, or to count down: from now on it may be lower by one.
    Lowering {
        /// The barrier.
        name: String,
    },
    /// That call was applied.
    Lowered {
        /// The barrier.
        name: String,
    },
    /// A latch was set up: it takes this many counts.
    Counts {
        /// The latch.
        name: String,
        /// How many.
        count: u64,
    },
    /// Somebody begins to wait.
    Waiting {
        /// The barrier.
        name: String,
        /// The id of this wait.
        wait: u64,
    },
    /// The wait ended: the way is free.
    Passed {
        /// The wait.
        wait: u64,
    },
    /// The wait ended by time-out, error or cancellation.
    GaveUp {
        /// The wait.
        wait: u64,
    },
}

/// A double barrier. A member does not enter twice in one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendezvous {
    /// The barrier.
    pub name: String,
    /// Counted by the members: each begins with 0 and adds 1 when it has left.
    pub round: u64,
    /// Who.
    pub member: u64,
    /// How many must come.
    pub of: u64,
    /// How far it came.
    pub step: Step,
}

/// How far a member of a double barrier came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Calls `enter`.
    Entering,
    /// `enter` returned: all are there.
    Entered,
    /// Calls `leave`.
    Leaving,
    /// `leave` returned: all have left.
    Departed,
    /// Ends otherwise: died, timed out, was cancelled or refused.
    GaveUp,
}
