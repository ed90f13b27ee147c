//! Sessions: leases with a keepalive of their own.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use coord_api::{
    Error, ErrorKind, Result, Retry, SessionDriver, SessionId, SessionOptions, SessionState,
    kit::{Backoff, Lease, Stamp, confirmed},
};
use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};
use tokio::{sync::watch, time::Instant};

use crate::{
    endpoints::Link,
    error::{Call, Failure, broken},
    scan::{revision, session_id},
    store::{Ending, Store},
};

/// Shortest time in which a renewal must be answered.
const PATIENCE_MIN: Duration = Duration::from_millis(250);

/// A session of this handle, as the handle's own tasks and calls hold it.
pub(crate) struct Held {
    id: SessionId,
    number: i64,
    lease: Lease,
    /// Somebody else tells the store that it ended.
    closing: AtomicBool,
}

impl Held {
    /// The name: the lease in hex.
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// The lease.
    pub(crate) fn lease(&self) -> i64 {
        self.number
    }

    /// Whether the session surely lives, by its state and by the clock.
    pub(crate) fn is_valid(&self) -> bool {
        !self.lease.is_lost() && Instant::now() < self.lease.valid_until()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("id", &self.id).field("state", &*self.lease.state().borrow()).finish()
    }
}

/// The driver that callers hold. Dropping it abandons the session.
#[derive(Debug)]
pub(crate) struct EtcdSession {
    store: Arc<Store>,
    held: Arc<Held>,
}

/// Grants a lease and starts to renew it.
pub(crate) async fn open(store: &Arc<Store>, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
    let whole = options.ttl.as_secs() + u64::from(options.ttl.subsec_nanos() > 0);
    let ttl = i64::try_from(whole).map_err(|_| Error::invalid("a ttl of that many seconds"))?;
    let this = Arc::clone(store);
    // A task: a caller that goes away leaves a driver that is dropped, and so a lease that is revoked.
    let work = async move {
        let sent = Stamp::now();
        // A grant whose reply is lost leaves a lease that nobody renews: harmless to ask again.
        let granting = this
            .endpoints
            .call(Call::Read, move |connection| async move { connection.lease().grant(ttl, None).await });
        let granted = granting.await?.0;
        let ttl = u64::try_from(granted.ttl).ok().filter(|ttl| *ttl > 0 && granted.id != 0);
        let ttl = Duration::from_secs(ttl.ok_or_else(|| broken("etcd granted a lease of no duration"))?);
        let held = Arc::new(Held {
            id: session_id(granted.id),
            number: granted.id,
            lease: Lease::new(ttl, sent),
            closing: AtomicBool::new(false),
        });
        let session = EtcdSession { store: Arc::clone(&this), held: Arc::clone(&held) };
        this.add_session(Arc::clone(&held));
        this.runtime.spawn(keep(Arc::clone(&this), held, this.ending()));
        this.ensure_open()?;
        Ok(Arc::new(session) as Arc<dyn SessionDriver>)
    };
    store.runtime.run(work).await
}

/// Renews a lease for as long as it lives, then tells the store that it is over.
async fn keep(store: Arc<Store>, held: Arc<Held>, mut ending: Ending) {
    tokio::select! {
        biased;
        () = ending.wait() => {}
        () = held.lease.expired() => {}
        () = renew(&store, &held) => {}
    }
    held.lease.lose();
    store.remove_session(&held.id);
    if !held.closing.load(Ordering::Acquire) {
        // Best effort: a lease that is not renewed ends by itself.
        let mut backoff = Backoff::new(held.lease.ttl());
        let give_up = Instant::now() + held.lease.ttl();
        while revoke(&store, &held).await.is_err_and(|e| e.retry() != Retry::Never)
            && Instant::now() < give_up
        {
            backoff.sleep(&store.runtime).await;
        }
    }
}

/// Returns once the store says that the lease is gone, or a renewal came too late.
async fn renew(store: &Store, held: &Held) {
    let lease = &held.lease;
    let period = lease.ttl() / 3;
    let mut backoff = Backoff::new(period / 2);
    let mut stream = Stream::default();
    let mut next = Instant::now() + period;
    loop {
        tokio::time::sleep_until(next).await;
        let began = Instant::now();
        // Opening a stream may include a connection and a login.
        let patience = if stream.open.is_some() { (period / 2).max(PATIENCE_MIN) } else { period };
        let member = store.endpoints.current();
        let sent = Stamp::now();
        match tokio::time::timeout(patience, ask(store, held.number, &mut stream)).await {
            Ok(Ok(true)) => {
                if !lease.renewed(sent) {
                    return;
                }
                backoff.reset();
                next = began + period;
            }
            Ok(Ok(false)) => {
                lease.lose();
                return;
            }
            trouble => {
                lease.suspend();
                let silent = trouble.is_err();
                match std::mem::take(&mut stream).link {
                    Some(link) => store.endpoints.failed(link, silent),
                    None => store.endpoints.leave(member),
                }
                let error = match trouble {
                    Ok(Err(failure)) => Some(failure.error),
                    _ => None,
                };
                tracing::debug!(session = %held.id, error = error.as_ref().map(tracing::field::display), "a renewal failed");
                next = Instant::now() + backoff.next_delay(&store.runtime);
            }
        }
    }
}

/// The stream of renewals, and the connection that it runs or is about to run on.
#[derive(Default)]
struct Stream {
    link: Option<Link>,
    open: Option<(LeaseKeeper, LeaseKeepAliveStream)>,
}

/// Asks for one renewal; whether the lease still is there. Opens a stream if there is none.
async fn ask(store: &Store, lease: i64, stream: &mut Stream) -> Result<bool, Failure> {
    let failed = |e| crate::error::failure(e, Call::Read);
    if let Some((keeper, answers)) = &mut stream.open {
        keeper.keep_alive().await.map_err(failed)?;
        return match answers.message().await.map_err(failed)? {
            // A lease that is gone is told by its ttl, not by an error.
            Some(answer) => Ok(answer.ttl() > 0),
            None => Err(Failure::plain(Error::unavailable("the stream of renewals ended"))),
        };
    }
    let connection = store.endpoints.connection().await?;
    stream.link = Some(connection.link);
    match connection.lease().keep_alive(lease).await {
        Ok(opened) => {
            stream.open = Some(opened);
            Ok(true)
        }
        // The driver's own words for a ttl of zero in the first answer.
        Err(etcd_client::Error::LeaseKeepAliveError(text)) if text.contains("lease not found") => Ok(false),
        Err(e) => Err(failed(e)),
    }
}

/// Tells the store that a session ended; its keys go at once. A lease that is gone already is fine.
async fn revoke(store: &Arc<Store>, held: &Held) -> Result<()> {
    let lease = held.number;
    let mut left = store.endpoints.count().max(2);
    loop {
        left -= 1;
        let revoking = store
            .endpoints
            .call(Call::Write, move |connection| async move { connection.lease().revoke(lease).await });
        match revoking.await {
            Ok(answer) => {
                // Its keys may lie in any directory.
                let at = answer.0.header.map_or(0, |header| header.revision);
                store.own_writes.note_anywhere(revision(at));
                return Ok(());
            }
            Err(failure) if failure.error.kind() == ErrorKind::SessionLost => return Ok(()),
            // Revoking twice is harmless.
            Err(failure) if failure.error.retry() != Retry::Never && left > 0 => {}
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// Ends a session for its owner.
pub(crate) async fn close(store: &Arc<Store>, held: &Held) -> Result<()> {
    held.closing.store(true, Ordering::Release);
    held.lease.lose();
    confirmed(revoke(store, held)).await.map_err(|e| e.with_context("session", &held.id))
}

#[async_trait]
impl SessionDriver for EtcdSession {
    fn id(&self) -> &SessionId {
        &self.held.id
    }

    fn ttl(&self) -> Duration {
        self.held.lease.ttl()
    }

    fn valid_until(&self) -> Instant {
        self.held.lease.valid_until()
    }

    fn state(&self) -> watch::Receiver<SessionState> {
        self.held.lease.state()
    }

    async fn close(&self) -> Result<()> {
        close(&self.store, &self.held).await
    }

    fn abandon(&self) {
        // The task that keeps it sees it and tells the store.
        self.held.lease.lose();
    }
}

impl Drop for EtcdSession {
    fn drop(&mut self) {
        self.abandon();
    }
}
