//! Waiting for a change once, and streaming changes.

use futures::stream::BoxStream;

use crate::{Dir, Entry, Key, Result, Revision};

/// What the caller saw; [`Backend::wait`](crate::Backend::wait) returns once it is no longer true.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seen {
    /// The key was absent.
    Absent(Key),
    /// The key was there, whatever its value.
    Exists(Key),
    /// The key was there, last changed by this revision.
    Value(Key, Revision),
    /// The directory had these names at this revision of its [`Listing`](crate::Listing).
    Children(Dir, Revision),
}

impl Seen {
    /// The directory that holds what was seen.
    #[must_use]
    pub fn dir(&self) -> Dir {
        match self {
            Self::Absent(key) | Self::Exists(key) | Self::Value(key, _) => key.parent(),
            Self::Children(dir, _) => dir.clone(),
        }
    }
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With a snapshot of everything there is.
    #[default]
    Snapshot,
    /// With the changes after this revision, if the store still has them, and with a snapshot if not.
    ///
    /// Which stores have them: [`Guarantees::watch_resumes`](crate::Guarantees::watch_resumes).
    After(Revision),
}

/// One thing that a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchEvent {
    /// Everything there is. Replaces all that came before; comes first, and again after any gap.
    Snapshot {
        /// All keys in the directory and below, by key.
        entries: Vec<Entry>,
        /// The moment.
        revision: Revision,
    },
    /// A key was created or changed.
    Put(Entry),
    /// A key was deleted.
    Delete {
        /// The key.
        key: Key,
        /// When; where the store does not tell it, the largest revision seen before.
        revision: Revision,
    },
    /// Nothing happened up to this revision.
    Progress(Revision),
}

impl WatchEvent {
    /// The revision that this event brings the watcher to.
    #[must_use]
    pub fn revision(&self) -> Revision {
        match self {
            Self::Snapshot { revision, .. } | Self::Delete { revision, .. } | Self::Progress(revision) => {
                *revision
            }
            Self::Put(entry) => entry.meta.modified,
        }
    }
}

/// The changes of a directory and everything below.
///
/// Revisions never go back. After an `Err` the stream ends; transient trouble is handled inside and shows as a
/// new [`WatchEvent::Snapshot`]. Dropping the stream ends the watch.
pub type WatchStream = BoxStream<'static, Result<WatchEvent>>;
