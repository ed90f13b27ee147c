//! Sessions: renewed in the background, and ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use coord_api::{
    Result, SessionDriver, SessionId, SessionOptions, SessionState,
    kit::{Backoff, Lease, Runtime, Stamp, confirmed},
};
use tokio::{sync::watch, time::Instant};

use crate::{
    client::Client,
    error::{Call, classify, over},
    factory::Settings,
    line::session_id,
};

/// Longest pause between two renewals that fail.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The sessions of one handle that are not over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<SessionId, Arc<Held>>>>);

/// A session, as the handle holds it.
#[derive(Debug)]
pub(crate) struct Held {
    id: SessionId,
    pub(crate) number: u64,
    lease: Lease,
    client: Client,
}

/// A session, as its owner holds it. Dropping it ends the session in the background.
#[derive(Debug)]
struct TemplateSession(Arc<Held>);

impl Sessions {
    /// The session of a call, if its owner may still believe in it.
    ///
    /// Asks the clock and not only the state: after a freeze no timer has run yet.
    pub(crate) fn valid(&self, id: &SessionId) -> Result<u64> {
        let held = self.lock().get(id).cloned();
        let held = held.filter(|held| !held.lease.is_lost() && Instant::now() < held.lease.valid_until());
        held.map(|held| held.number).ok_or_else(|| over(id))
    }

    /// The store says that the session is over.
    pub(crate) fn lose(&self, id: &SessionId) {
        if let Some(held) = self.lock().get(id) {
            held.lease.lose();
        }
    }

    /// Ends all.
    ///
    /// # Errors
    /// The first of those whose end the store did not confirm.
    pub(crate) async fn close_all(&self) -> Result<()> {
        let all: Vec<Arc<Held>> = self.lock().values().cloned().collect();
        all.iter().for_each(|held| held.lease.lose());
        let ends = futures::future::join_all(all.iter().map(|held| held.end())).await;
        ends.into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a session and begins to renew it.
pub(crate) async fn open(
    client: Client,
    sessions: Sessions,
    settings: Settings,
    options: &SessionOptions,
    runtime: Runtime,
) -> Result<Arc<dyn SessionDriver>> {
    // Before it is sent: the store counts from later, so the owner knows first.
    let sent = Stamp::now();
    // A reply that is lost leaves a session that nobody renews: it ends by itself, and asking again is harmless.
    let number = client.open_session(options.ttl).await.map_err(|e| classify(e, Call::Read))?;
    let held =
        Arc::new(Held { id: session_id(number), number, lease: Lease::new(options.ttl, sent), client });
    sessions.lock().insert(held.id.clone(), Arc::clone(&held));
    runtime.spawn(Arc::clone(&held).keep(sessions, settings, runtime.clone()));
    Ok(Arc::new(TemplateSession(held)))
}

impl Held {
    /// Renews until the session is over, and then ends it in the store.
    async fn keep(self: Arc<Self>, sessions: Sessions, settings: Settings, runtime: Runtime) {
        tokio::select! {
            biased;
            () = self.lease.expired() => {}
            () = self.renew(settings, &runtime) => {}
        }
        self.lease.lose();
        sessions.lock().remove(&self.id);
        // The deadline of the store is later than ours: end it there, so that others need not wait for that.
        let _ = self.end().await;
    }

    /// Returns once the store says that the session is gone.
    async fn renew(&self, settings: Settings, runtime: &Runtime) {
        let period = self.lease.ttl() / settings.renewals;
        let mut backoff = Backoff::new(PAUSE_MAX.min(period));
        let mut pause = period;
        loop {
            tokio::time::sleep(pause).await;
            let sent = Stamp::now();
            match self.client.renew_session(self.number).await {
                Ok(true) => {
                    self.lease.renewed(sent);
                    backoff.reset();
                    pause = period;
                }
                Ok(false) => return,
                Err(_) => {
                    self.lease.suspend();
                    pause = backoff.next_delay(runtime);
                }
            }
        }
    }

    /// Tells the store that the session is over. Telling it twice is fine.
    async fn end(&self) -> Result<()> {
        let told = async {
            let ended = self.client.end_session(self.number).await;
            ended.map_err(|e| classify(e, Call::Write))
        };
        confirmed(told).await.map_err(|e| e.with_context("session", &self.id))
    }
}

#[async_trait]
impl SessionDriver for TemplateSession {
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
        self.0.end().await
    }

    fn abandon(&self) {
        // The task that renews it sees this and tells the store.
        self.0.lease.lose();
    }
}

impl Drop for TemplateSession {
    fn drop(&mut self) {
        self.abandon();
    }
}
