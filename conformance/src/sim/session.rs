//! A session over the link: renewals that travel, and a deadline that counts from the moment they were sent.

use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use coord_api::{
    Result, SessionDriver, SessionId, SessionState,
    kit::{Lease, Stamp},
};
use coord_recipes::planted::{Bug, planted};
use tokio::{sync::watch, time::Instant};

use super::{
    node::{Node, Twice},
    recorder::number_of,
    world::lock,
};
use crate::checkers::facts::Session;

/// Opens a session and keeps it alive, as the drivers of real stores do.
pub(crate) async fn open(node: &Arc<Node>, ttl: Duration) -> Result<Arc<dyn SessionDriver>> {
    // Made before the request is sent: the deadline counts from there.
    let lease = Lease::simulated(ttl);
    let begin =
        move |node: Arc<Node>| async move { node.world.begin_session(&node.server, ttl, node.id).await };
    let id = node.call(true, Twice::Never, begin).await?;
    let session = Arc::new(SimSession {
        id,
        lease,
        node: Arc::clone(node),
        listeners: Mutex::default(),
        closed: AtomicBool::new(false),
        over: AtomicBool::new(false),
    });
    node.runtime.spawn(keep_alive(Arc::downgrade(&session), ttl));
    if !planted(Bug::DeadlineIgnored) {
        node.runtime.spawn(watch_deadline(Arc::downgrade(&session)));
    }
    Ok(session)
}

#[derive(Debug)]
struct SimSession {
    id: SessionId,
    lease: Lease,
    node: Arc<Node>,
    /// One channel for each who listens, told in order: tokio wakes the receivers of one channel in random order, and a
    /// run must repeat.
    listeners: Mutex<Vec<watch::Sender<SessionState>>>,
    closed: AtomicBool,
    /// Whether it was told that the session is over.
    over: AtomicBool,
}

impl SimSession {
    fn tell(&self) {
        let state = *self.lease.state().borrow();
        lock(&self.listeners).retain(|listener| {
            listener.send_if_modified(|told| std::mem::replace(told, state) != state);
            !listener.is_closed()
        });
    }

    fn until(&self) -> Instant {
        let (until, ttl) = (self.lease.valid_until(), self.lease.ttl());
        if planted(Bug::DeadlineIgnored) && !self.lease.is_lost() {
            return Instant::now() + ttl;
        }
        if planted(Bug::NoMargin) { until + ttl / 10 } else { until }
    }

    fn lose(&self) {
        // Not whether the lease is lost: a late renewal has lost it already, and told nobody.
        if self.over.swap(true, Ordering::SeqCst) {
            return;
        }
        self.lease.lose();
        if !self.closed.load(Ordering::SeqCst) {
            self.node.world.record(self.node.id, Session::Lost { session: number_of(&self.id) });
        }
        self.tell();
    }

    fn end(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        self.closed.store(true, Ordering::SeqCst);
        self.lose();
        let (node, id) = (Arc::clone(&self.node), self.id.clone());
        async move {
            let end = move |node: Arc<Node>| {
                node.world.end_session(&id, node.id);
                std::future::ready(Ok(()))
            };
            node.call(true, Twice::Harmless, end).await
        }
    }
}

async fn keep_alive(session: Weak<SimSession>, ttl: Duration) {
    let mut pause = ttl / 3;
    loop {
        tokio::time::sleep(pause).await;
        let Some(session) = session.upgrade().filter(|session| !session.lease.is_lost()) else { return };
        let (sent, id) = (Stamp::now(), session.id.clone());
        let renew = move |node: Arc<Node>| {
            let renewed = node.world.renew_session(&id, ttl, node.id);
            async move {
                node.last_reply().await;
                Ok(renewed)
            }
        };
        let answer = session.node.call(true, Twice::Harmless, renew).await;
        let sent = if planted(Bug::DeadlineFromReply) { Stamp::now() } else { sent };
        match answer {
            Ok(true) if session.lease.renewed(sent) => pause = ttl / 3,
            Ok(_) => return session.lose(),
            Err(_) => {
                session.lease.suspend();
                pause = ttl / 20;
            }
        }
        session.tell();
    }
}

async fn watch_deadline(session: Weak<SimSession>) {
    loop {
        let Some(until) = session.upgrade().map(|session| session.until()) else { return };
        if until <= Instant::now() {
            if let Some(session) = session.upgrade() {
                session.lose();
            }
            return;
        }
        tokio::time::sleep_until(until).await;
    }
}

#[async_trait]
impl SessionDriver for SimSession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn ttl(&self) -> Duration {
        self.lease.ttl()
    }

    fn valid_until(&self) -> Instant {
        self.until()
    }

    fn state(&self) -> watch::Receiver<SessionState> {
        let (sender, receiver) = watch::channel(*self.lease.state().borrow());
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| !listener.is_closed());
        listeners.push(sender);
        receiver
    }

    async fn close(&self) -> Result<()> {
        self.end().await
    }

    fn abandon(&self) {
        if self.closed.load(Ordering::SeqCst) {
            return;
        }
        let ended = self.end();
        self.node.runtime.spawn(async move {
            // If it does not arrive, the session ends after its ttl.
            let _ = ended.await;
        });
    }
}
