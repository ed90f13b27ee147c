//! A layer that makes watches deaf, and hides keys as a lagging server would.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Entry, Key, Layer, Listing, OpContext, Ordered, OrderedCreate, Result, Seen,
    SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream, kit::Runtime,
};
use futures::StreamExt;

/// What it does to the reads of one handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meddler(Arc<Meddling>);

#[derive(Debug, Default)]
struct Meddling {
    deaf: AtomicBool,
    /// Keys with this in their path are not there.
    hidden: Mutex<Option<String>>,
    reads_of_releases: AtomicUsize,
}

impl Meddler {
    /// From now on watches say nothing, and nobody is told.
    pub(crate) fn deafen(&self) {
        self.0.deaf.store(true, Ordering::SeqCst);
    }

    /// Reads of keys with this in their path find nothing, until told otherwise.
    pub(crate) fn hide(&self, part: Option<&str>) {
        *self.0.hidden.lock().unwrap_or_else(PoisonError::into_inner) = part.map(str::to_owned);
    }

    /// How often a release was read.
    pub(crate) fn reads_of_releases(&self) -> usize {
        self.0.reads_of_releases.load(Ordering::SeqCst)
    }
}

impl Layer for Meddler {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Meddled { inner, meddling: Arc::clone(&self.0) })
    }
}

#[derive(Debug)]
struct Meddled {
    inner: Arc<dyn Backend>,
    meddling: Arc<Meddling>,
}

#[async_trait]
impl Backend for Meddled {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        if key.as_str().contains("/rel/") {
            self.meddling.reads_of_releases.fetch_add(1, Ordering::SeqCst);
        }
        let found = self.inner.get(ctx, key).await?;
        let hidden = self.meddling.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(found.filter(|_| hidden.as_ref().is_none_or(|part| !key.as_str().contains(part))))
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
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
        let meddling = Arc::clone(&self.meddling);
        let events = self.inner.watch(ctx, dir, start).await?;
        Ok(events
            .filter(move |_| {
                let heard = !meddling.deaf.load(Ordering::SeqCst);
                std::future::ready(heard)
            })
            .boxed())
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.inner.open_session(options).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
