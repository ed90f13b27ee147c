//! Sessions: renewed by being held, until a fault stops that.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use coord_api::{
    Result, SessionDriver, SessionId, SessionState,
    kit::{Lease, Stamp},
};
use tokio::{sync::watch, time::Instant};

use crate::store::Shared;

/// What the store knows of a session.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) lease: Arc<Lease>,
    /// When the store ends it; `None` while renewals arrive.
    deadline: Option<Instant>,
}

impl Row {
    pub(crate) const fn new(lease: Arc<Lease>) -> Self {
        Self { lease, deadline: None }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Renewals no longer arrive: the last one was sent now.
    pub(crate) fn freeze(&mut self) -> Instant {
        if self.deadline.is_none() {
            self.lease.renewed(Stamp::now());
            self.lease.suspend();
        }
        *self.deadline.get_or_insert_with(|| Instant::now() + self.lease.ttl())
    }

    /// Renewals arrive again. Too late for the owner, if its own deadline has passed meanwhile.
    pub(crate) fn thaw(&mut self) {
        if self.lease.renewed(Stamp::now()) {
            self.deadline = None;
        }
    }

    const fn is_frozen(&self) -> bool {
        self.deadline.is_some()
    }
}

#[derive(Debug)]
pub(crate) struct MemorySession {
    pub(crate) id: SessionId,
    pub(crate) lease: Arc<Lease>,
    pub(crate) store: Weak<Shared>,
}

impl MemorySession {
    fn end(&self) {
        if let Some(store) = self.store.upgrade() {
            store.end_session(&self.id);
        }
        self.lease.lose();
    }
}

#[async_trait]
impl SessionDriver for MemorySession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn ttl(&self) -> Duration {
        self.lease.ttl()
    }

    fn valid_until(&self) -> Instant {
        let renewed =
            self.store.upgrade().and_then(|store| store.with_session(&self.id, |row| !row.is_frozen()));
        if renewed == Some(true) && !self.lease.is_lost() {
            // Store and owner are one process: the last renewal is always just now.
            return Instant::now() + self.lease.span();
        }
        self.lease.valid_until()
    }

    fn state(&self) -> watch::Receiver<SessionState> {
        self.lease.state()
    }

    async fn close(&self) -> Result<()> {
        self.end();
        Ok(())
    }

    fn abandon(&self) {
        self.end();
    }
}
