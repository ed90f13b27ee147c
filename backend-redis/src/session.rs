//! Sessions: opened, renewed in the background, and ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use coord_api::{
    Error, ErrorKind, Result, Revision, SessionDriver, SessionId, SessionOptions, SessionState,
    kit::{Backoff, CLOSE_TIME, Lease, Stamp, confirmed},
};
use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

use crate::{
    conn::RESPONSE,
    error::{again, is_final},
    link::Link,
    record::revision,
    script,
};

/// How long opening may take altogether.
const OPENING: Duration = Duration::from_secs(5);

/// The sessions of one handle that are not over, by id.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionId, Arc<Inner>>>);

#[derive(Debug)]
pub(crate) struct Inner {
    id: SessionId,
    lease: Lease,
    link: Arc<Link>,
    sessions: Arc<Sessions>,
    /// What became of telling the store that it is over; told once.
    ended: OnceCell<Result<(), Arc<Error>>>,
}

/// A session, as its owner holds it.
#[derive(Debug)]
pub(crate) struct RedisSession(Arc<Inner>);

impl Sessions {
    /// Fails if the session is one of ours and its owner may no longer believe in it.
    pub(crate) fn ensure_valid(&self, id: &SessionId) -> Result<()> {
        let found = self.lock().get(id).cloned();
        match found {
            // The clock and not only the state: after a freeze no timer has run yet.
            Some(inner) if inner.lease.is_lost() || Instant::now() >= inner.lease.valid_until() => {
                inner.lease.lose();
                Err(Error::session_lost("the session is over: open a new one").with_context("session", id))
            }
            _ => Ok(()),
        }
    }

    /// The store says that the session is over.
    pub(crate) fn lose(&self, id: &SessionId) {
        if let Some(inner) = self.lock().get(id) {
            inner.lease.lose();
        }
    }

    /// Ends all. The first error is told once the store was asked to end each.
    pub(crate) async fn close_all(&self) -> Result<()> {
        let all: Vec<_> = self.lock().values().cloned().collect();
        all.iter().for_each(|inner| inner.lease.lose());
        futures::future::join_all(all.iter().map(|inner| inner.end())).await.into_iter().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Arc<Inner>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a session and begins to renew it.
///
/// The id is ours, so that an attempt whose reply was lost is repeated and not doubled.
pub(crate) async fn open(
    link: Arc<Link>,
    sessions: Arc<Sessions>,
    options: SessionOptions,
) -> Result<Arc<dyn SessionDriver>> {
    let id = SessionId::new(link.runtime.nonce().to_uuid());
    let until = Instant::now() + OPENING;
    let mut backoff = Backoff::new(Duration::from_secs(1));
    let sent = loop {
        let sent = Stamp::now();
        match send_open(&link, &id, options.ttl, until).await {
            Ok(()) => break sent,
            Err(error) if is_final(&error) || Instant::now() + RESPONSE >= until => return Err(error),
            Err(_) => backoff.sleep(&link.runtime).await,
        }
    };
    let lease = Lease::new(options.ttl, sent);
    let inner =
        Inner { id: id.clone(), lease, link, sessions: Arc::clone(&sessions), ended: OnceCell::new() };
    let inner = Arc::new(inner);
    sessions.lock().insert(id, Arc::clone(&inner));
    inner.link.runtime.spawn(Arc::clone(&inner).keep());
    if inner.link.is_closed() {
        // Closed while we opened: nobody else ends this one.
        inner.lease.lose();
        return Err(crate::error::closed());
    }
    Ok(Arc::new(RedisSession(inner)))
}

async fn send_open(link: &Arc<Link>, id: &SessionId, ttl: Duration, until: Instant) -> Result<()> {
    let conn = link.conn(until.min(Instant::now() + RESPONSE)).await?;
    let args = |call: &mut redis::Cmd| _ = call.arg(id.as_str()).arg(millis(ttl));
    conn.write(&script::OPEN, args, until).await?;
    conn.replicated(until).await
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Inner {
    /// Renews until the session is over, and then ends it in the store.
    async fn keep(self: Arc<Self>) {
        tokio::select! {
            biased;
            () = self.lease.expired() => {}
            () = self.renew() => {}
        }
        // The deadline is ours, the store's is later: end it there, so that others need not wait for that.
        let _ = self.end().await;
    }

    async fn renew(&self) {
        let period = self.lease.ttl() / 3;
        let mut backoff = Backoff::new((period / 3).min(Duration::from_secs(1)));
        let mut pause = period;
        loop {
            let conn = self.link.conn_now();
            if conn.is_none() {
                self.lease.suspend();
            }
            tokio::select! {
                biased;
                // Down: say so at once. Up again: renew at once.
                () = self.link.changed(conn.as_ref()) => {
                    if self.link.conn_now().is_none() {
                        continue;
                    }
                }
                () = tokio::time::sleep(pause) => {}
            }
            match self.renew_once().await {
                Ok(()) => {
                    pause = period;
                    backoff.reset();
                }
                Err(error) if error.kind() == ErrorKind::SessionLost => {
                    self.lease.lose();
                    return;
                }
                Err(error) => {
                    tracing::debug!(session = %self.id, %error, "not renewed");
                    self.lease.suspend();
                    pause = backoff.next_delay(&self.link.runtime);
                }
            }
        }
    }

    async fn renew_once(&self) -> Result<()> {
        let until = Instant::now() + RESPONSE.min(self.lease.ttl() / 3);
        let conn = self.link.conn(until).await?;
        // Before it is sent: the store may count from there.
        let sent = Stamp::now();
        conn.write(&script::KEEPALIVE, |call| _ = call.arg(self.id.as_str()), until).await?;
        self.lease.renewed(sent);
        Ok(())
    }

    async fn tell(&self, until: Instant) -> Result<()> {
        let conn = self.link.conn(until).await?;
        let ended = conn.write(&script::CLOSE, |call| _ = call.arg(self.id.as_str()), until).await?;
        // Its keys are gone: a copy that still shows them may not answer for the store.
        self.link.note(Revision::new(revision(&ended)?));
        Ok(())
    }

    /// Ends the session in the store, once, whoever asks first.
    async fn end(&self) -> Result<()> {
        let told = async {
            let told = confirmed(self.tell(Instant::now() + CLOSE_TIME)).await;
            self.sessions.lock().remove(&self.id);
            told.map_err(Arc::new)
        };
        let ended = self.ended.get_or_init(|| told).await.clone();
        ended.map_err(|error| again(&error).with_context("session", &self.id))
    }
}

#[async_trait]
impl SessionDriver for RedisSession {
    fn id(&self) -> &SessionId {
        &self.0.id
    }

    fn ttl(&self) -> Duration {
        self.0.lease.ttl()
    }

    fn valid_until(&self) -> Instant {
        self.0.lease.valid_until()
    }

    fn state(&self) -> watch::Receiver<SessionState> {
        self.0.lease.state()
    }

    async fn close(&self) -> Result<()> {
        self.0.lease.lose();
        let inner = Arc::clone(&self.0);
        self.0.link.runtime.run(async move { inner.end().await }).await
    }

    fn abandon(&self) {
        // The task that renews it sees this and ends it.
        self.0.lease.lose();
    }
}

impl Drop for RedisSession {
    fn drop(&mut self) {
        self.abandon();
    }
}
