//! Sessions: opened, renewed in the background, and ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use coord_api::{
    Error, Result, SessionDriver, SessionId, SessionOptions, SessionState,
    kit::{Backoff, CLOSE_TIME, Lease, Stamp, confirmed},
};
use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

use crate::{
    error::{again, closed, is_final},
    store::Store,
};

/// How long opening may take altogether.
const OPENING: Duration = Duration::from_secs(5);
/// How long one renewal may take.
const RESPONSE: Duration = Duration::from_secs(2);

/// The sessions of one handle that are not over, by id.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionId, Arc<Inner>>>);

#[derive(Debug)]
pub(crate) struct Inner {
    id: SessionId,
    lease: Lease,
    store: Arc<Store>,
    sessions: Arc<Sessions>,
    /// What became of telling the store that it is over; told once.
    ended: OnceCell<Result<(), Arc<Error>>>,
}

/// A session, as its owner holds it.
#[derive(Debug)]
pub(crate) struct SqliteSession(Arc<Inner>);

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

    /// Ends all; returns once the store was told, or could not be.
    ///
    /// # Errors
    /// The first of those whose end the store did not confirm.
    pub(crate) async fn close_all(&self) -> Result<()> {
        let all: Vec<_> = self.lock().values().cloned().collect();
        all.iter().for_each(|inner| inner.lease.lose());
        let ends = futures::future::join_all(all.iter().map(|inner| inner.end())).await;
        ends.into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Inner>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a session and begins to renew it.
///
/// The id is ours, so that an attempt whose answer was lost is repeated and not doubled.
pub(crate) async fn open(
    store: Arc<Store>,
    sessions: Arc<Sessions>,
    options: SessionOptions,
) -> Result<Arc<dyn SessionDriver>> {
    let id = SessionId::new(store.runtime.nonce().to_uuid());
    let ttl_ms = i64::try_from(options.ttl.as_millis()).unwrap_or(i64::MAX);
    let until = Instant::now() + OPENING;
    let mut backoff = Backoff::new(Duration::from_secs(1));
    let sent = loop {
        let (sent, named) = (Stamp::now(), id.clone());
        let opened = store.write(until, move |state| Ok(state.open_session(&named, ttl_ms)?)).await;
        match opened {
            Ok(()) => break sent,
            Err(error) if is_final(&error) || Instant::now() + RESPONSE >= until => return Err(error),
            Err(_) => backoff.sleep(&store.runtime).await,
        }
    };
    let inner = Arc::new(Inner {
        id: id.clone(),
        lease: Lease::new(options.ttl, sent),
        store,
        sessions: Arc::clone(&sessions),
        ended: OnceCell::new(),
    });
    sessions.lock().insert(id, Arc::clone(&inner));
    inner.store.runtime.spawn(Arc::clone(&inner).keep());
    if inner.store.ensure_open().is_err() {
        // Closed while we opened: nobody else ends this one.
        inner.lease.lose();
        return Err(closed());
    }
    Ok(Arc::new(SqliteSession(inner)))
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
            tokio::time::sleep(pause).await;
            // Before it waits for its turn: the store counts from later.
            let (sent, id) = (Stamp::now(), self.id.clone());
            let until = Instant::now() + RESPONSE.min(period);
            match self.store.write(until, move |state| state.renew_session(&id)).await {
                Ok(()) => {
                    self.lease.renewed(sent);
                    pause = period;
                    backoff.reset();
                }
                // Over, or the file is gone for good.
                Err(error) if is_final(&error) => {
                    tracing::debug!(session = %self.id, %error, "the session ended");
                    self.lease.lose();
                    return;
                }
                Err(error) => {
                    tracing::debug!(session = %self.id, %error, "not renewed");
                    self.lease.suspend();
                    pause = backoff.next_delay(&self.store.runtime);
                }
            }
        }
    }

    /// Ends the session in the store, once, whoever asks first.
    async fn end(&self) -> Result<()> {
        let told = async {
            let id = self.id.clone();
            let until = Instant::now() + CLOSE_TIME;
            let told = self.store.write(until, move |state| Ok(state.end_session(id.as_str())?));
            let told = confirmed(told).await;
            self.sessions.lock().remove(&self.id);
            told.map_err(Arc::new)
        };
        self.ended
            .get_or_init(|| told)
            .await
            .clone()
            .map_err(|error| again(&error).with_context("session", &self.id))
    }
}

#[async_trait]
impl SessionDriver for SqliteSession {
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
        self.0.store.runtime.run(async move { inner.end().await }).await
    }

    fn abandon(&self) {
        // The task that renews it sees this and ends it.
        self.0.lease.lose();
    }
}

impl Drop for SqliteSession {
    fn drop(&mut self) {
        self.abandon();
    }
}
