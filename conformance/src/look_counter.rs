//! Counts how often the line is looked at, and how many watches are opened.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Entry, Key, Layer, Listing, OpContext, Ordered, OrderedCreate, Result, Seen,
    SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream, kit::Runtime,
};

/// A layer that counts calls of `list`, which is how waiters look at a line after they were woken, and of `watch`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LookCounter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    looks: AtomicUsize,
    watches: AtomicUsize,
}

impl LookCounter {
    pub(crate) fn count(&self) -> usize {
        self.0.looks.load(Ordering::SeqCst)
    }

    /// How many watches were opened.
    pub(crate) fn watches(&self) -> usize {
        self.0.watches.load(Ordering::SeqCst)
    }
}

impl Layer for LookCounter {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Counted { inner, counts: Arc::clone(&self.0) })
    }
}

#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Backend>,
    counts: Arc<Counts>,
}

#[async_trait]
impl Backend for Counted {
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
        // Latest reads are the test's own.
        if ctx.freshness == coord_api::Freshness::Session {
            self.counts.looks.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.list(ctx, dir).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        self.inner.commit(ctx, txn).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        self.inner.create_ordered(ctx, req).await
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        self.inner.wait(ctx, seen).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        self.counts.watches.fetch_add(1, Ordering::SeqCst);
        self.inner.watch(ctx, dir, start).await
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.inner.open_session(options).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
