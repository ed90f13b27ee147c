//! What the store did, and what watches and caches told of it.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

/// Changes of keys, as the store makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stored {
    /// A key was created or changed.
    Put {
        /// The key.
        key: String,
        /// By which revision.
        revision: u64,
        /// Its value.
        value: u64,
        /// The session that owns it, if it is ephemeral.
        session: Option<u64>,
    },
    /// A key is gone.
    Gone {
        /// The key.
        key: String,
        /// By which revision.
        revision: u64,
        /// Whether it went because its session ended, and not because somebody deleted it.
        with_session: bool,
    },
}

/// What a watch told its consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Watch {
    /// A watch of everything below a directory begins.
    Opened {
        /// Its id.
        watch: u64,
        /// The directory, ending with a slash; `""` and `/` watch everything.
        dir: String,
        /// It resumes behind this revision; `None` if it begins with a snapshot.
        after: Option<u64>,
    },
    /// Everything there is.
    Snapshot {
        /// The watch.
        watch: u64,
        /// The moment.
        revision: u64,
        /// Each key with the revision that wrote it and its value.
        entries: BTreeMap<String, (u64, u64)>,
    },
    /// A key was created or changed.
    Put {
        /// The watch.
        watch: u64,
        /// The key.
        key: String,
        /// By which revision.
        revision: u64,
        /// Its value.
        value: u64,
    },
    /// A key was deleted.
    Deleted {
        /// The watch.
        watch: u64,
        /// The key.
        key: String,
        /// By this revision; where the store does not tell it, the largest that the watch told before.
        revision: u64,
    },
    /// Nothing more happened up to this revision.
    Progress {
        /// The watch.
        watch: u64,
        /// The revision.
        revision: u64,
    },
    /// The stream ended, or was dropped. One that is not closed must be up to date at the end of the run.
    Closed {
        /// The watch.
        watch: u64,
    },
}

/// What a cache told its listener and its readers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cache {
    /// A cache of everything below a directory begins.
    Opened {
        /// Its id.
        cache: u64,
        /// The directory, as in [`Watch::Opened`].
        dir: String,
    },
    /// The listener was told: all that was there has been put.
    Initialised {
        /// The cache.
        cache: u64,
    },
    /// The listener was told: a key has a value.
    Put {
        /// The cache.
        cache: u64,
        /// The key.
        key: String,
        /// The value before, as the event says; `None` if it is new.
        old: Option<u64>,
        /// The value now.
        new: u64,
        /// The revision that wrote it.
        revision: u64,
    },
    /// The listener was told: a key is gone.
    Deleted {
        /// The cache.
        cache: u64,
        /// The key.
        key: String,
        /// The value before, as the event says.
        old: u64,
    },
    /// The listener was told: the cache is up to date again after a gap.
    Resynced {
        /// The cache.
        cache: u64,
    },
    /// A reader looked at the whole cache.
    Read {
        /// The cache.
        cache: u64,
        /// The moment that it shows.
        revision: u64,
        /// Each key with the revision that wrote it and its value.
        entries: BTreeMap<String, (u64, u64)>,
    },
    /// The cache was closed. One that is not must be up to date at the end of the run.
    Closed {
        /// The cache.
        cache: u64,
    },
}

/// Sessions, as the store has them; `Lost` as the client does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Session {
    /// The store began a session.
    Opened {
        /// Its id.
        session: u64,
        /// How long it lives after a renewal.
        ttl: Duration,
    },
    /// The store accepted a renewal.
    Renewed {
        /// The session.
        session: u64,
    },
    /// The client closed the session, or an operator ended it, and the store did so: from now on its keys may go.
    Closed {
        /// The session.
        session: u64,
    },
    /// The client was told that it is lost.
    Lost {
        /// The session.
        session: u64,
    },
}
