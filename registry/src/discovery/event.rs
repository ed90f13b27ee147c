//! What a view shows and tells.

use std::{ops::Deref, sync::Arc, time::Duration};

use crate::Instance;

/// How far a view of a service can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DiscoveryState {
    /// No list has come yet.
    Loading,
    /// The list is one that a file kept; the store has not answered yet.
    FromFile,
    /// The store answered when it was last asked, a few seconds ago at most.
    Current,
    /// The store answers, and has no instance any more; what is shown is the last list that was not empty
    /// ([`DiscoveryOptions::protect_empty`](crate::DiscoveryOptions::protect_empty)).
    Protected,
    /// The store does not answer, or is being asked again after trouble: what is shown was true once.
    Stale,
    /// The store's handle was closed: nothing comes any more.
    Closed,
}

/// The instances of a service at one moment. Cheap to make and to clone; it never changes.
///
/// It derefs to a slice, in the order of the keys, so of the ids in most layouts. All instances are in it, whatever
/// their status: [`Instance::is_available`] tells who takes requests.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) instances: Arc<[Instance]>,
    pub(super) state: DiscoveryState,
    pub(super) age: Duration,
}

impl Snapshot {
    /// The list, to be kept or compared: while nothing changes, it is the same allocation.
    #[must_use]
    pub const fn shared(&self) -> &Arc<[Instance]> {
        &self.instances
    }

    /// How far it can be believed.
    #[must_use]
    pub const fn state(&self) -> DiscoveryState {
        self.state
    }

    /// For how long the list is not known to be true any more: zero while it is [current](DiscoveryState::Current), and
    /// counted from when the trouble was noticed, which takes up to four seconds. A list from a file counts from when
    /// it was written, by the wall clock.
    #[must_use]
    pub const fn age(&self) -> Duration {
        self.age
    }
}

impl Deref for Snapshot {
    type Target = [Instance];

    fn deref(&self) -> &[Instance] {
        &self.instances
    }
}

/// What happens to a service, in order. Whoever applies all of it has the list that the view shows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DiscoveryEvent {
    /// The first event: everything there is.
    Initial(Arc<[Instance]>),
    /// An instance came.
    Added(Instance),
    /// An instance says something else now.
    Updated {
        /// What it said before.
        before: Instance,
        /// What it says now.
        after: Instance,
    },
    /// An instance went; this is what it said last.
    Removed(Instance),
    /// Everything there is now: replaces what was told before. Comes where the changes could not be told one by one,
    /// after a gap in the watch or to a slow reader, and where the list of a file or a protected list begins or ends.
    Resync(Arc<[Instance]>),
}
