//! Who tells, and who is told.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::broadcast;

use super::{
    EVENTS_KEPT, Event, Events, Watched,
    link::{Link, Sign},
    log,
};
use crate::{ErrorKind, Result, kit::Runtime};

/// Is called with every event of a handle at the moment when it happens, and misses none.
///
/// For layers that count. It runs wherever the event happens, also on the threads that renew sessions: it must return at
/// once. Applications listen with [`Coord::events`](crate::Coord::events) instead.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &Event);
}

/// Where recipes tell what happens to them, and layers and applications hear of it. One a handle; clones share it.
///
/// While nobody listens, nothing is made, sent or followed.
#[derive(Clone, Default)]
pub struct Reporter(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Whether there is, or was, anybody to tell besides the log.
    listened: AtomicBool,
    sender: OnceLock<broadcast::Sender<Event>>,
    observers: RwLock<Vec<Arc<dyn Observer>>>,
    link: Mutex<Link>,
    /// Whether the link was suspended: what answered calls look at.
    suspended: AtomicBool,
    /// Those that are open, for listeners who come later.
    sessions: Mutex<Vec<Weak<Watched>>>,
    closing: AtomicBool,
}

impl Reporter {
    /// Tells everybody who listens. The event is made only if somebody does.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if !self.0.listened.load(Ordering::Acquire) && !log::on() {
            return;
        }
        let event = event();
        log::log(&event);
        for observer in self.0.observers.read().unwrap_or_else(PoisonError::into_inner).iter() {
            observer.observe(&event);
        }
        if let Some(sender) = self.0.sender.get() {
            // Nobody has to be there any more.
            let _ = sender.send(event);
        }
    }

    /// Events from now on. Sessions that are open are followed from now on.
    pub(crate) fn listen(&self, runtime: &Runtime) -> Events {
        let events = self.0.sender.get_or_init(|| broadcast::Sender::new(EVENTS_KEPT)).subscribe();
        self.awake(runtime);
        Events(events)
    }

    pub(crate) fn observe(&self, observer: Arc<dyn Observer>, runtime: &Runtime) {
        self.0.observers.write().unwrap_or_else(PoisonError::into_inner).push(observer);
        self.awake(runtime);
    }

    fn awake(&self, runtime: &Runtime) {
        self.0.listened.store(true, Ordering::Release);
        // One that is opened right now is followed by whoever comes first, and once.
        let open: Vec<_> = self.sessions().iter().filter_map(Weak::upgrade).collect();
        open.into_iter().for_each(|watched| self.follow(watched, runtime));
    }

    /// A session was opened.
    pub(crate) fn opened(&self, watched: &Arc<Watched>, runtime: &Runtime) {
        let mut sessions = self.sessions();
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(watched));
        drop(sessions);
        self.tell(|| Event::SessionOpened { session: watched.id().clone(), ttl: watched.ttl() });
        if self.0.listened.load(Ordering::Acquire) || log::on() {
            self.follow(Arc::clone(watched), runtime);
        }
    }

    fn follow(&self, watched: Arc<Watched>, runtime: &Runtime) {
        if watched.is_new() {
            runtime.spawn(watched.follow(self.clone()));
        }
    }

    /// Whether the whole handle is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::Acquire)
    }

    pub(crate) fn closing(&self) {
        self.0.closing.store(true, Ordering::Release);
    }

    pub(crate) fn closed(&self) {
        self.tell(|| Event::Closed);
    }

    /// Looks at how a call ended, and passes it on.
    pub(crate) fn heard<T>(&self, result: Result<T>) -> Result<T> {
        match &result {
            Ok(_) if self.0.suspended.load(Ordering::Relaxed) => self.saw(Sign::Answered),
            Err(e) if matches!(e.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {
                self.saw(Sign::Unanswered);
            }
            _ => {}
        }
        result
    }

    pub(super) fn saw(&self, sign: Sign) {
        let mut link = self.0.link.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(suspended) = link.see(sign) else { return };
        self.0.suspended.store(suspended, Ordering::Relaxed);
        // Under the lock, so that the two are told in the order in which they happened.
        self.tell(|| if suspended { Event::Suspended } else { Event::Reconnected });
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Weak<Watched>>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter")
            .field("listened", &self.0.listened.load(Ordering::Relaxed))
            .field("suspended", &self.0.suspended.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}
