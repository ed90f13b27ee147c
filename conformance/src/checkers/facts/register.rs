//! Reads and writes of one key.

use serde::{Deserialize, Serialize};

/// Calls on one key, each with its answer. A call without an answer may have been applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Register {
    /// A call is about to be made.
    Call {
        /// Its id.
        op: u64,
        /// The key.
        key: String,
        /// What is asked.
        action: Action,
    },
    /// The caller has the answer.
    Return {
        /// The call.
        op: u64,
        /// The answer.
        answer: Answer,
    },
}

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Read it.
    Read,
    /// Write this, whatever was there; `None` deletes.
    Write(Option<u64>),
    /// Write `to` if the key was last changed by `at`; `None` means if it is absent.
    Swap {
        /// The revision that is expected.
        at: Option<u64>,
        /// The new value; `None` deletes.
        to: Option<u64>,
    },
}

/// What the caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A read: value and the revision that wrote it; `None` if the key is absent.
    Value(Option<(u64, u64)>),
    /// A write that was applied, by this revision.
    Done(u64),
    /// A swap that found something else, and did nothing.
    Rejected,
    /// Surely not applied, for a reason that is not the key's.
    NotApplied,
    /// Nobody knows.
    Unknown,
}
