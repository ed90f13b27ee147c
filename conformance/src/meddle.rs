//! The wrapper of the layers that cases put around a store: each layer says only what it changes.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Entry, Key, Listing, OpContext, Ordered, OrderedCreate, Result, Seen,
    SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream, kit::Runtime,
};

/// What a layer does to the calls that it changes; those that it does not name are passed on.
#[async_trait]
pub(crate) trait Meddle: fmt::Debug + Send + Sync + 'static {
    async fn get(&self, inner: &Arc<dyn Backend>, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        inner.get(ctx, key).await
    }

    async fn list(&self, inner: &Arc<dyn Backend>, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        inner.list(ctx, dir).await
    }

    async fn create_ordered(
        &self,
        inner: &Arc<dyn Backend>,
        ctx: &OpContext,
        req: OrderedCreate,
    ) -> Result<Ordered> {
        inner.create_ordered(ctx, req).await
    }

    async fn wait(&self, inner: &Arc<dyn Backend>, ctx: &OpContext, seen: &Seen) -> Result<()> {
        inner.wait(ctx, seen).await
    }

    async fn watch(
        &self,
        inner: &Arc<dyn Backend>,
        ctx: &OpContext,
        dir: &Dir,
        start: Start,
    ) -> Result<WatchStream> {
        inner.watch(ctx, dir, start).await
    }
}

/// A store with whose calls a layer meddles.
#[derive(Debug)]
pub(crate) struct Meddled<M> {
    inner: Arc<dyn Backend>,
    layer: M,
}

impl<M: Meddle> Meddled<M> {
    /// What [`Layer::apply`](coord_api::Layer::apply) gives back.
    pub(crate) fn around(inner: Arc<dyn Backend>, layer: M) -> Arc<dyn Backend> {
        Arc::new(Self { inner, layer })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<M: Meddle> Backend for Meddled<M> {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        self.layer.get(&self.inner, ctx, key).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        self.layer.list(&self.inner, ctx, dir).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        self.inner.commit(ctx, txn).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        self.layer.create_ordered(&self.inner, ctx, req).await
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        self.layer.wait(&self.inner, ctx, seen).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        self.layer.watch(&self.inner, ctx, dir, start).await
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.inner.open_session(options).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
