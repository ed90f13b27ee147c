//! Sessions: one client of the driver each, with a deadline of our own.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    Error, ErrorKind, Result, Retry, SessionDriver, SessionId, SessionState,
    kit::{CLOSE_TIME, Lease, Runtime, Stamp},
};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::driver::{Conn, Connector, Fault, Link, Node, Role, session_id};

/// The fraction of the ttl after which a look proves that the session lives.
const BEATS: u32 = 5;

/// A session of an application.
#[derive(Debug)]
pub(crate) struct ZkSession {
    id: SessionId,
    conn: Arc<Conn>,
    lease: Lease,
    runtime: Runtime,
}

impl ZkSession {
    /// Opens a session. It is kept until it is closed, abandoned or lost.
    pub(crate) async fn open(connector: &Connector, ttl: Duration) -> Result<Arc<Self>> {
        let asked = Stamp::now();
        let conn = connector.open(Role::Session, ttl).await?;
        let session = Arc::new(Self {
            id: session_id(conn.session()),
            lease: Lease::new(conn.ttl(), asked),
            conn,
            runtime: connector.runtime.clone(),
        });
        if Instant::now() >= session.lease.valid_until() {
            session.abandon();
            return Err(Error::unavailable("the session took longer to open than it lives"));
        }
        session.runtime.spawn(keep(Arc::clone(&session)));
        Ok(session)
    }

    /// The connection, while nobody else can own the session's keys.
    ///
    /// # Errors
    /// [`SessionLost`](coord_api::ErrorKind::SessionLost), before anything is sent.
    pub(crate) fn conn(&self) -> Result<&Arc<Conn>> {
        if self.lease.is_lost() || Instant::now() >= self.lease.valid_until() || self.conn.is_over() {
            return Err(
                Error::session_lost("the session is over: open a new one").with_context("session", &self.id)
            );
        }
        Ok(&self.conn)
    }

    pub(crate) fn conn_id(&self) -> u64 {
        self.conn.id()
    }

    /// Resolves once the session is lost.
    pub(crate) async fn lost(&self) {
        let _ = self.lease.state().wait_for(|state| *state == SessionState::Lost).await;
    }
}

/// Proves that the session lives, and ends it when that is no longer sure.
async fn keep(session: Arc<ZkSession>) {
    let lease = &session.lease;
    tokio::select! {
        biased;
        () = lease.expired() => {}
        () = ended(&session) => {}
        () = beat(&session) => {}
    }
    lease.lose();
    // Whoever comes next need not wait for the ttl, if the server can be told.
    if session.conn.close(CLOSE_TIME).await.is_err() {
        tracing::debug!(session = %session.id, "the end of a session was not confirmed");
    }
}

/// Follows the link: down means suspended at once, over means lost.
async fn ended(session: &ZkSession) {
    let mut link = session.conn.link();
    loop {
        match *link.borrow_and_update() {
            Link::Up => {}
            Link::Down => session.lease.suspend(),
            Link::Ended(_) => return,
        }
        if link.changed().await.is_err() {
            return;
        }
    }
}

/// Looks at the root every so often. The server counts the ttl from when it receives a request, which is no
/// earlier than when we sent it; so an answer moves the deadline, by the time of sending.
async fn beat(session: &ZkSession) {
    let lease = &session.lease;
    let period = (lease.ttl() / BEATS).max(Duration::from_millis(10));
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let sent = Stamp::now();
        let look = session.conn.stat(Instant::now() + lease.ttl(), "/".to_owned());
        tokio::pin!(look);
        let answer = tokio::select! {
            biased;
            answer = &mut look => answer,
            () = tokio::time::sleep(period) => {
                lease.suspend();
                look.await
            }
        };
        match answer {
            answer if answered(&answer) => {
                if !lease.renewed(sent) {
                    return;
                }
            }
            _ => lease.suspend(),
        }
    }
}

/// Newer servers ask the root's ACL; a refusal is as good a sign of life.
fn answered(answer: &std::result::Result<Option<Node>, Fault>) -> bool {
    match answer {
        Ok(_) => true,
        Err(Fault::Error(error)) => error.kind() == ErrorKind::PermissionDenied,
        Err(_) => false,
    }
}

#[async_trait]
impl SessionDriver for ZkSession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn ttl(&self) -> Duration {
        self.lease.ttl()
    }

    fn valid_until(&self) -> Instant {
        self.lease.valid_until()
    }

    fn state(&self) -> watch::Receiver<SessionState> {
        self.lease.state()
    }

    async fn close(&self) -> Result<()> {
        let was_lost = self.lease.is_lost();
        self.lease.lose();
        match self.conn.close(CLOSE_TIME).await {
            Err(error) if !was_lost => {
                Err(error.with_retry(Retry::Ambiguous).with_context("session", &self.id))
            }
            _ => Ok(()),
        }
    }

    fn abandon(&self) {
        self.lease.lose();
        let conn = Arc::clone(&self.conn);
        self.runtime.spawn(async move { conn.close(CLOSE_TIME).await });
    }
}
