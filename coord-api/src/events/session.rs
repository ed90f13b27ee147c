//! A session as those who listen see it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::{Event, Reporter, Turn, link::Sign};
use crate::{FencingToken, SessionDriver, SessionId, SessionState};

/// What is known of a session, apart from the session: it must end when its last handle is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    id: SessionId,
    ttl: Duration,
    states: watch::Receiver<SessionState>,
    closing: AtomicBool,
    followed: AtomicBool,
    held: Mutex<Held>,
}

/// What is held with a session, in the order in which it was acquired.
#[derive(Debug, Default)]
struct Held {
    next: u64,
    holdings: BTreeMap<u64, Holding>,
}

#[derive(Debug)]
pub(super) struct Holding {
    pub(super) turn: Turn,
    pub(super) token: FencingToken,
    pub(super) since: Instant,
}

impl Holding {
    fn lost(self) -> Event {
        Event::Lost { turn: self.turn, token: self.token, held: self.since.elapsed() }
    }
}

impl Watched {
    pub(crate) fn new(driver: &dyn SessionDriver) -> Self {
        Self {
            id: driver.id().clone(),
            ttl: driver.ttl(),
            states: driver.state(),
            closing: AtomicBool::new(false),
            followed: AtomicBool::new(false),
            held: Mutex::default(),
        }
    }

    pub(super) const fn id(&self) -> &SessionId {
        &self.id
    }

    pub(super) const fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.states.borrow() == SessionState::Lost
    }

    /// We end it: what follows is no loss.
    pub(crate) fn closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Whether nobody has followed it yet; from now on somebody does.
    pub(super) fn is_new(&self) -> bool {
        !self.followed.swap(true, Ordering::AcqRel)
    }

    pub(super) fn hold(&self, holding: Holding) -> u64 {
        let mut held = self.held();
        let id = held.next;
        held.next += 1;
        held.holdings.insert(id, holding);
        id
    }

    /// What is held under this number, for the one who ends it.
    pub(super) fn take(&self, id: u64) -> Option<Holding> {
        self.held().holdings.remove(&id)
    }

    /// Tells of the session until it is over.
    pub(super) async fn follow(self: Arc<Self>, reporter: Reporter) {
        let mut states = self.states.clone();
        let session = || self.id.clone();
        let mut late = false;
        loop {
            let state = *states.borrow_and_update();
            match state {
                SessionState::Lost => break,
                SessionState::Suspended if !late => {
                    reporter.tell(|| Event::SessionSuspended { session: session() });
                    reporter.saw(Sign::Late);
                }
                SessionState::Live if late => {
                    reporter.tell(|| Event::SessionResumed { session: session() });
                    reporter.saw(Sign::Renewed);
                }
                _ => {}
            }
            late = state == SessionState::Suspended;
            if states.changed().await.is_err() {
                break; // the driver is gone, and with it the session
            }
        }
        if late {
            reporter.saw(Sign::EndedLate);
        }
        let ours = self.closing.load(Ordering::Acquire) || reporter.is_closing();
        reporter.tell(|| match ours {
            true => Event::SessionClosed { session: session() },
            false => Event::SessionLost { session: session() },
        });
        let holdings = std::mem::take(&mut self.held().holdings);
        holdings.into_values().for_each(|holding| reporter.tell(|| holding.lost()));
    }

    pub(super) fn tell_lost(&self, id: u64, reporter: &Reporter) {
        if let Some(holding) = self.take(id) {
            reporter.tell(|| holding.lost());
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
