//! The backend: one handle on an etcd store.

use std::sync::Arc;

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Entry, Key, Listing, OpContext, Ordered, OrderedCreate, Result, Seen,
    SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream,
    kit::{CLOSE_TIME, Runtime},
};
use tokio::time::{Instant, timeout_at};

use crate::{
    commit,
    error::Call,
    ordered, read, session,
    store::{Store, within},
    watching,
};

/// An etcd store.
///
/// Made by [`EtcdFactory`](crate::EtcdFactory). Dropping it without [`close`](Backend::close) ends its watches and
/// sessions in the background.
#[derive(Debug)]
pub struct EtcdBackend {
    store: Arc<Store>,
    info: BackendInfo,
}

impl EtcdBackend {
    pub(crate) fn new(store: Store, info: BackendInfo) -> Self {
        Self { store: Arc::new(store), info }
    }
}

#[async_trait]
impl Backend for EtcdBackend {
    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    fn runtime(&self) -> Runtime {
        self.store.runtime.clone()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        self.store.ensure_open()?;
        within(ctx, Call::Read, read::get(&self.store, key)).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        self.store.ensure_open()?;
        within(ctx, Call::Read, read::list(&self.store, ctx, dir)).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        self.store.ensure_open()?;
        within(ctx, Call::Write, commit::commit(&self.store, ctx, txn)).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        self.store.ensure_open()?;
        within(ctx, Call::Write, ordered::create(&self.store, ctx, req)).await
    }

    async fn wait(&self, _: &OpContext, seen: &Seen) -> Result<()> {
        self.store.ensure_open()?;
        watching::wait(&self.store, seen).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        self.store.ensure_open()?;
        Ok(watching::watch(&self.store, ctx, dir, start).await)
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.store.ensure_open()?;
        session::open(&self.store, options).await
    }

    async fn close(&self) -> Result<()> {
        let store = Arc::clone(&self.store);
        // Own task, so that a caller who goes away does not leave a half-closed handle.
        let closing = async move {
            let until = Instant::now() + CLOSE_TIME;
            let sessions = store.all_sessions();
            let ends = sessions.iter().map(|held| session::close(&store, held));
            let ends = futures::future::join_all(ends).await;
            store.end();
            store.endpoints.close();
            // Tasks hold connections; they have nothing left to do.
            let _ = timeout_at(until, store.ended()).await;
            ends.into_iter().collect()
        };
        self.store.runtime.run(closing).await
    }
}

impl Drop for EtcdBackend {
    fn drop(&mut self) {
        // The tasks see it, end, and tell the store of the sessions that are left.
        self.store.end();
    }
}
