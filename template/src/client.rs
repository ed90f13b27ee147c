//! Stands for your driver: the calls that a server offers, its changes, and the errors of the way between.
//!
//! Keep yours in one module like this. The rest of the backend then sees few types of the driver, and its quirks are in
//! one place.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use coord_api::kit::Runtime;
use tokio::sync::{broadcast, watch};

use crate::server::{Answer, Batch, Expect, Row, Server, State, Write};

/// What can go wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientError {
    /// No connection: surely not sent.
    NotSent,
    /// Sent, and no reply: applied or not.
    NoReply,
    /// The server does not know the session.
    NoSession,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    server: Arc<Server>,
    wire: Wire,
}

/// The way between one handle and the server, which tests can break.
#[derive(Clone, Debug, Default)]
pub struct Wire(Arc<WireState>);

#[derive(Debug, Default)]
struct WireState {
    down: AtomicBool,
    /// Calls so far; session upkeep is none.
    calls: AtomicU64,
    /// Which calls lose their reply.
    losing: Mutex<Vec<u64>>,
    /// Moves whenever subscriptions break.
    breaks: watch::Sender<u64>,
}

impl Wire {
    /// Nothing passes any more.
    pub fn cut(&self) {
        self.0.down.store(true, Ordering::SeqCst);
        self.break_subscriptions();
    }

    /// Everything passes again.
    pub fn heal(&self) {
        self.0.down.store(false, Ordering::SeqCst);
    }

    /// Subscriptions break and must be made anew; calls pass.
    pub fn break_subscriptions(&self) {
        self.0.breaks.send_modify(|breaks| *breaks += 1);
    }

    /// The nth call from now on (1 is the next) is applied, and its reply lost.
    pub fn lose_reply(&self, nth: u64) {
        let at = self.0.calls.load(Ordering::SeqCst) + nth.max(1);
        self.losing().push(at);
    }

    fn losing(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.0.losing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_down(&self) -> bool {
        self.0.down.load(Ordering::SeqCst)
    }

    /// Counts a call; whether its reply gets lost.
    fn count(&self) -> bool {
        let nth = self.0.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut losing = self.losing();
        let planned = losing.iter().position(|at| *at == nth);
        planned.map(|i| losing.swap_remove(i)).is_some()
    }
}

impl Client {
    /// Connects to the server of this name.
    pub(crate) async fn dial(name: &str, runtime: &Runtime) -> Result<Self, ClientError> {
        let client = Self { server: Server::named(name, runtime), wire: Wire::default() };
        // A real call: that an object could be made does not say that anybody answers.
        client.get("/").await.map(|_| client)
    }

    pub(crate) fn wire(&self) -> Wire {
        self.wire.clone()
    }

    /// One request and its reply.
    async fn call<T>(&self, apply: impl FnOnce(&mut State) -> T + Send) -> Result<T, ClientError> {
        let lost = self.wire.count();
        let reply = self.upkeep(apply).await?;
        if lost { Err(ClientError::NoReply) } else { Ok(reply) }
    }

    /// The same for what runs in the background, which faults by number leave alone.
    async fn upkeep<T>(&self, apply: impl FnOnce(&mut State) -> T + Send) -> Result<T, ClientError> {
        if self.wire.is_down() {
            return Err(ClientError::NotSent);
        }
        // On the way to the server; a caller may go away here.
        tokio::task::yield_now().await;
        Ok(apply(&mut self.server.state()))
    }

    pub(crate) async fn get(&self, key: &str) -> Result<(u64, Option<Row>), ClientError> {
        self.call(|state| (state.revision, state.get(key))).await
    }

    /// Everything below a prefix, at one revision.
    pub(crate) async fn below(&self, prefix: &str) -> Result<(u64, Vec<Row>), ClientError> {
        self.call(|state| (state.revision, state.below(prefix))).await
    }

    /// The same for the feed of a copy.
    pub(crate) async fn snapshot(&self, prefix: &str) -> Result<(u64, Vec<Row>), ClientError> {
        self.upkeep(|state| (state.revision, state.below(prefix))).await
    }

    /// Writes if all conditions hold, and reads what stands below `read` then.
    pub(crate) async fn transact(
        &self,
        expected: Vec<(String, Expect)>,
        writes: Vec<Write>,
        read: Option<String>,
    ) -> Result<Answer, ClientError> {
        let answer = self.call(move |state| state.transact(&expected, writes, read.as_deref())).await?;
        answer.map_err(|_| ClientError::NoSession)
    }

    pub(crate) async fn open_session(&self, ttl: Duration) -> Result<u64, ClientError> {
        self.call(|state| state.open_session(ttl)).await
    }

    /// Whether the session is still there.
    pub(crate) async fn renew_session(&self, id: u64) -> Result<bool, ClientError> {
        self.upkeep(|state| state.renew_session(id)).await
    }

    pub(crate) async fn end_session(&self, id: u64) -> Result<(), ClientError> {
        self.upkeep(|state| state.end_session(id)).await
    }

    /// All changes from now on.
    pub(crate) fn subscribe(&self) -> Result<Changes, ClientError> {
        let breaks = self.wire.0.breaks.subscribe();
        if self.wire.is_down() {
            return Err(ClientError::NotSent);
        }
        Ok(Changes { batches: self.server.state().subscribe(), breaks })
    }
}

/// A subscription.
#[derive(Debug)]
pub(crate) struct Changes {
    batches: broadcast::Receiver<Arc<Batch>>,
    breaks: watch::Receiver<u64>,
}

impl Changes {
    /// The next revision's changes; `None` if some were missed or the connection broke: the subscription is over.
    pub(crate) async fn next(&mut self) -> Option<Arc<Batch>> {
        tokio::select! {
            biased;
            _ = self.breaks.changed() => None,
            batch = self.batches.recv() => batch.ok(),
        }
    }
}

/// A write as the driver wants it.
pub(crate) fn put(key: String, value: Bytes, session: Option<u64>) -> Write {
    Write::Put { key, value, session }
}
