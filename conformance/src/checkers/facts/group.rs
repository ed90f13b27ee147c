//! Who is there, as others see it, and what is whose.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a watcher of a group was told. Members are ephemeral keys directly in the directory of the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Group {
    /// Somebody begins to watch a group.
    Opened {
        /// The id of this view.
        view: u64,
        /// The directory, ending with a slash.
        dir: String,
    },
    /// All members there are; replaces what was told before.
    Members {
        /// The view.
        view: u64,
        /// Of each id the revision that created its key, and the value.
        members: BTreeMap<String, (u64, u64)>,
    },
    /// A member came.
    Joined {
        /// The view.
        view: u64,
        /// Who.
        id: String,
        /// The revision that created its key.
        since: u64,
        /// The value.
        value: u64,
    },
    /// A member has another value.
    Updated {
        /// The view.
        view: u64,
        /// Who.
        id: String,
        /// The revision that created its key.
        since: u64,
        /// The value.
        value: u64,
    },
    /// A member went.
    Left {
        /// The view.
        view: u64,
        /// Who.
        id: String,
        /// The revision that created its key.
        since: u64,
    },
    /// Nothing has happened for long: the view must be what the store has.
    Settled {
        /// The view.
        view: u64,
    },
    /// The watch ended.
    Closed {
        /// The view.
        view: u64,
    },
}

/// What a member of a group takes for its own, of items with the numbers from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The directory of the group, ending with a slash.
    pub dir: String,
    /// Who.
    pub member: String,
    /// The members that it sees.
    pub ring: Vec<String>,
    /// The items that it takes for its own.
    pub items: Vec<u64>,
    /// How many items there are.
    pub of: u64,
    /// Nothing has happened for long, and all who are alive say what is theirs: each item must be somebody's.
    pub settled: bool,
}

/// What a view of a service was told. What an instance says is a number that only grows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    /// Somebody begins to discover a service.
    Opened {
        /// The id of this view.
        view: u64,
        /// The service.
        service: String,
    },
    /// All instances there are; replaces what was told before.
    All {
        /// The view.
        view: u64,
        /// What each says.
        instances: BTreeMap<String, u64>,
    },
    /// An instance came, changed or went.
    Changed {
        /// The view.
        view: u64,
        /// Which.
        id: String,
        /// What it said before, as the event tells; `None` if it came.
        before: Option<u64>,
        /// What it says now; `None` if it went.
        after: Option<u64>,
    },
    /// Nothing has happened for long, and this instance is alive: it says this.
    Says {
        /// The service.
        service: String,
        /// Which.
        id: String,
        /// What it says.
        value: u64,
    },
    /// Nothing has happened for long, and all who are alive have said so: the view must show them and nobody else.
    Settled {
        /// The view.
        view: u64,
        /// What the view lists.
        instances: BTreeMap<String, u64>,
    },
}

/// What happens to a configuration whose releases have several items, all with one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Config {
    /// A publisher was told that its release is in force.
    Published {
        /// The namespace.
        name: String,
        /// The generation.
        generation: u64,
        /// The value of all items.
        value: u64,
    },
    /// A consumer was told what is in force.
    Ran {
        /// Who.
        consumer: u64,
        /// The namespace.
        name: String,
        /// The generation.
        generation: u64,
        /// The values of the items.
        items: Vec<u64>,
    },
    /// Nothing has happened for long: the store has this.
    Head {
        /// The namespace.
        name: String,
        /// The generation.
        generation: u64,
    },
    /// Nothing has happened for long: this consumer must run what is in force.
    Settled {
        /// Who.
        consumer: u64,
        /// The namespace.
        name: String,
    },
}
