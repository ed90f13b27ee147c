//! What happens to a handle: its connection, its sessions, and what recipes hold with them.
//!
//! Applications listen with [`Coord::events`](crate::Coord::events). Recipes and layers tell and watch through
//! [`Reporter`].

mod link;
mod log;
mod reporter;
mod session;
mod turn;

use std::{fmt, time::Duration};

use tokio::sync::broadcast::{self, error::RecvError};

use crate::{Dir, FencingToken, SessionId};

pub use reporter::{Observer, Reporter};
pub(crate) use session::Watched;
pub use turn::TurnReport;

/// How many events wait for a receiver that falls behind; older ones are dropped, and it is told how many.
pub const EVENTS_KEPT: usize = 256;

/// A transition of the connection, of a session, or of something that a recipe holds.
///
/// The same on every store. An event is news and no proof: before you act as the holder, ask the guard
/// (`is_valid`, `check`, `commit`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The store does not answer: a call ended without an answer, retries and all, or a session could not be renewed in
    /// time. Told once until [`Event::Reconnected`].
    ///
    /// Nobody looks while nothing is asked: a handle without calls and sessions does not notice an outage.
    Suspended,
    /// The store answers again: a call was answered, or a late session was renewed, and no session is late.
    Reconnected,
    /// The handle was closed.
    Closed,
    /// A session was opened.
    SessionOpened {
        /// Which.
        session: SessionId,
        /// Its time to live as granted.
        ttl: Duration,
    },
    /// A renewal is late or the connection is down; the session may survive.
    SessionSuspended {
        /// Which.
        session: SessionId,
    },
    /// The session survived: renewals are acknowledged again.
    SessionResumed {
        /// Which.
        session: SessionId,
    },
    /// The session is over without our doing. Its keys are gone or will be; what was held with it is told as
    /// [`Event::Lost`] right after.
    SessionLost {
        /// Which.
        session: SessionId,
    },
    /// We ended the session: closed, dropped, or with the whole handle.
    SessionClosed {
        /// Which.
        session: SessionId,
    },
    /// It is not our turn: we stand in the line and wait.
    Waiting(Turn),
    /// We waited and gave up: timed out, dropped, refused, or our session ended.
    GaveUp {
        /// What for.
        turn: Turn,
        /// How long we had been in the line, from the request to join.
        waited: Duration,
    },
    /// It is ours: a lock acquired, a leadership gained.
    Acquired {
        /// What.
        turn: Turn,
        /// The fencing token; of a leadership the epoch.
        token: FencingToken,
        /// How long it took, from the request to join the line.
        waited: Duration,
        /// Whether somebody was ahead, so that [`Event::Waiting`] was told before.
        contended: bool,
    },
    /// We gave it back: released, resigned or dropped. The store may still have to be told.
    Released {
        /// What.
        turn: Turn,
        /// The fencing token that it had.
        token: FencingToken,
        /// How long we held it.
        held: Duration,
    },
    /// It was taken from us: the session ended, or a look at the store showed that somebody deleted our entry.
    ///
    /// Nobody looks for the sake of this event: a deleted entry is found by who asks the guard (`lost`, `check`,
    /// `commit`).
    Lost {
        /// What.
        turn: Turn,
        /// The fencing token that it had.
        token: FencingToken,
        /// How long we held it.
        held: Duration,
    },
    /// A consumer of configuration put a generation in force.
    Configured {
        /// The namespace.
        namespace: String,
        /// The generation.
        generation: u64,
    },
    /// A view of a service shows another list.
    Instances {
        /// The service.
        service: String,
        /// How many instances it shows now.
        count: usize,
    },
    /// The receiver fell behind, and this many events were dropped. Look at the states themselves.
    Missed(u64),
}

impl Event {
    /// The name in logs and metrics, such as `session.lost`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Suspended => "connection.suspended",
            Self::Reconnected => "connection.reconnected",
            Self::Closed => "connection.closed",
            Self::SessionOpened { .. } => "session.opened",
            Self::SessionSuspended { .. } => "session.suspended",
            Self::SessionResumed { .. } => "session.resumed",
            Self::SessionLost { .. } => "session.lost",
            Self::SessionClosed { .. } => "session.closed",
            Self::Waiting(_) => "turn.waiting",
            Self::GaveUp { .. } => "turn.gave_up",
            Self::Acquired { .. } => "turn.acquired",
            Self::Released { .. } => "turn.released",
            Self::Lost { .. } => "turn.lost",
            Self::Configured { .. } => "config.applied",
            Self::Instances { .. } => "registry.instances",
            Self::Missed(_) => "missed",
        }
    }
}

/// What somebody waits for or holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Turn {
    /// Which kind.
    pub recipe: Recipe,
    /// The directory of the lock, semaphore or election.
    pub name: Dir,
    /// With which session.
    pub session: SessionId,
}

/// The kinds of what can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Recipe {
    /// An exclusive lock, whichever of them.
    Lock,
    /// A read lock.
    ReadLock,
    /// A write lock.
    WriteLock,
    /// A permit of a semaphore.
    Permit,
    /// The leadership of an election.
    Leadership,
}

impl Recipe {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Lock, Self::ReadLock, Self::WriteLock, Self::Permit, Self::Leadership];

    /// The name in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::ReadLock => "read_lock",
            Self::WriteLock => "write_lock",
            Self::Permit => "permit",
            Self::Leadership => "leadership",
        }
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A receiver of the events of one handle, from [`Coord::events`](crate::Coord::events).
#[derive(Debug)]
pub struct Events(broadcast::Receiver<Event>);

impl Events {
    /// The next event; `None` once the handle and all of its clones, sessions and guards are gone.
    ///
    /// # Cancel safety
    /// Safe: an event that is not returned is still there.
    pub async fn next(&mut self) -> Option<Event> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(dropped)) => Some(Event::Missed(dropped)),
            Err(RecvError::Closed) => None,
        }
    }
}
