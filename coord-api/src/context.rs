//! Who calls, and until when.

use std::time::Duration;

use tokio::time::Instant;

use crate::SessionId;

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Freshness {
    /// Sees every write that this handle has seen acknowledged, and may lag behind those of others.
    ///
    /// ZooKeeper: the connected server's state. etcd, Redis: the store, or the mirror of a watched directory.
    #[default]
    Session,
    /// Sees every write that was acknowledged to anybody before the call.
    ///
    /// ZooKeeper: `sync` and then the read (which a change of leader can defeat, ZOOKEEPER-1675). etcd:
    /// linearizable. Redis: the primary.
    Latest,
}

/// Who calls and until when: the environment of a call, not what it asks for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OpContext {
    /// The session that owns ephemeral keys made by the call.
    pub session: Option<SessionId>,
    /// When to give up; `None` leaves it to the timeout layer.
    pub deadline: Option<Instant>,
    /// How fresh a read must be.
    pub freshness: Freshness,
}

impl OpContext {
    /// The context of a call on behalf of `session`.
    #[must_use]
    pub fn for_session(session: SessionId) -> Self {
        Self { session: Some(session), ..Self::default() }
    }

    /// The same with another freshness.
    #[must_use]
    pub const fn with_freshness(mut self, freshness: Freshness) -> Self {
        self.freshness = freshness;
        self
    }

    /// The same with a deadline.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How long until the deadline; `default` if there is none.
    #[must_use]
    pub fn remaining(&self, default: Duration) -> Duration {
        self.deadline.map_or(default, |at| at.saturating_duration_since(Instant::now()))
    }
}
