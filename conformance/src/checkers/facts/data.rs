//! What goes through queues, counters and generators.

use serde::{Deserialize, Serialize};

use super::Applied;

/// The way of items through a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Queue {
    /// `put` is called.
    Putting {
        /// The queue.
        name: String,
        /// The item.
        item: u64,
        /// Smaller comes first.
        priority: u32,
    },
    /// `put` returned.
    Put {
        /// The queue.
        name: String,
        /// The item.
        item: u64,
        /// Whether it is in the queue.
        applied: Applied,
    },
    /// `take` is called.
    Taking {
        /// The queue.
        name: String,
        /// The id of this take.
        take: u64,
    },
    /// `take` gave an item.
    Taken {
        /// The take.
        take: u64,
        /// The item.
        item: u64,
    },
    /// `take` returned without an item, and surely took none.
    Missed {
        /// The take.
        take: u64,
    },
    /// The consumer said that the item is done.
    Done {
        /// The take.
        take: u64,
        /// Whether the store has it.
        applied: Applied,
    },
    /// The consumer died, lost its session or gave the item back: it may be taken again.
    Returned {
        /// The take.
        take: u64,
    },
}

/// Additions to a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counter {
    /// `add` is called.
    Adding {
        /// The counter.
        name: String,
        /// The call.
        op: u64,
        /// How much.
        delta: i64,
    },
    /// `add` returned.
    Added {
        /// The call.
        op: u64,
        /// Whether it counts.
        applied: Applied,
        /// The value behind this addition, if it was told.
        value: Option<i64>,
    },
    /// Somebody read the counter when nobody added any more.
    Total {
        /// The counter.
        name: String,
        /// What it says.
        value: i64,
    },
}

/// An id that a generator gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// The generator.
    pub name: String,
    /// The id.
    pub id: u64,
}

/// What a listener of one key was told, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// Somebody begins to listen.
    Opened {
        /// The id of the listener.
        listener: u64,
        /// The key.
        key: String,
    },
    /// The key has this value now; `None` if there is none.
    Value {
        /// The listener.
        listener: u64,
        /// The value.
        value: Option<u64>,
    },
    /// Nothing has happened for long: what was told last must be what the store has.
    Settled {
        /// The listener.
        listener: u64,
    },
}
