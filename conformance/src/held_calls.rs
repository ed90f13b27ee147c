//! Calls that take as long as a case wants.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Entry, Error, Key, Layer, Listing, OpContext, Ordered, OrderedCreate, Result,
    Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream, kit::Runtime,
};
use tokio::sync::watch;

/// A layer that holds calls of one kind until it is told to let them go.
#[derive(Clone, Debug)]
pub(crate) struct HeldCalls {
    what: Held,
    open: watch::Sender<bool>,
    /// Whether a call was held.
    holds: Arc<AtomicBool>,
}

/// Which calls are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Requests to join are applied, and their replies held until they are lost.
    RepliesToJoins,
    /// Waits begin late.
    Waits,
}

impl HeldCalls {
    pub(crate) fn new(what: Held) -> Self {
        Self { what, open: watch::Sender::new(false), holds: Arc::default() }
    }

    /// Whether a call is or was held.
    pub(crate) fn holds(&self) -> bool {
        self.holds.load(Ordering::SeqCst)
    }

    /// Lets those go that are held, and all that come.
    pub(crate) fn let_go(&self) {
        self.open.send_replace(true);
    }

    /// Whether the call was held.
    async fn held(&self, what: Held) -> bool {
        if self.what != what || *self.open.borrow() {
            return false;
        }
        self.holds.store(true, Ordering::SeqCst);
        // The sender lives in this layer.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
        true
    }
}

impl Layer for HeldCalls {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Holding { inner, calls: self.clone() })
    }
}

#[derive(Debug)]
struct Holding {
    inner: Arc<dyn Backend>,
    calls: HeldCalls,
}

#[async_trait]
impl Backend for Holding {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        self.inner.get(ctx, key).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        self.inner.list(ctx, dir).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        self.inner.commit(ctx, txn).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        let created = self.inner.create_ordered(ctx, req).await;
        if self.calls.held(Held::RepliesToJoins).await {
            return Err(Error::ambiguous("the connection broke before the reply"));
        }
        created
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        self.calls.held(Held::Waits).await;
        self.inner.wait(ctx, seen).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        self.inner.watch(ctx, dir, start).await
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.inner.open_session(options).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
