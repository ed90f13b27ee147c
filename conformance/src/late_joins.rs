//! Requests that arrive when nobody waits for them any more.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Entry, Error, Key, Layer, Listing, OpContext, Ordered, OrderedCreate, Result,
    Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream, kit::Runtime,
};

/// A layer that keeps the first request to join back, tells its caller that the reply was lost, and delivers the
/// request when it is told to, as the buffers of a dead connection do.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateJoins(Arc<Mutex<Late>>);

#[derive(Debug, Default)]
enum Late {
    #[default]
    None,
    OnItsWay {
        inner: Arc<dyn Backend>,
        ctx: OpContext,
        request: OrderedCreate,
        /// Somebody looked for its entry, in vain.
        looked_for: bool,
    },
    Delivered,
}

impl LateJoins {
    /// Lets the request arrive; whether there was one.
    pub(crate) async fn deliver(&self) -> Result<bool> {
        let late = std::mem::replace(&mut *self.lock(), Late::Delivered);
        let Late::OnItsWay { inner, ctx, request, .. } = late else { return Ok(false) };
        inner.create_ordered(&ctx, request).await.map(|_| true)
    }

    /// Whether somebody looked for the entry of the request that has not arrived.
    pub(crate) fn was_looked_for(&self) -> bool {
        matches!(*self.lock(), Late::OnItsWay { looked_for: true, .. })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Late> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layer for LateJoins {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Delayed { inner, late: self.clone() })
    }
}

#[derive(Debug)]
struct Delayed {
    inner: Arc<dyn Backend>,
    late: LateJoins,
}

#[async_trait]
impl Backend for Delayed {
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
        let listing = self.inner.list(ctx, dir).await;
        if let Late::OnItsWay { looked_for, .. } = &mut *self.late.lock() {
            *looked_for |= listing.is_ok();
        }
        listing
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        self.inner.commit(ctx, txn).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        {
            let mut late = self.late.lock();
            if matches!(*late, Late::None) {
                *late = Late::OnItsWay {
                    inner: Arc::clone(&self.inner),
                    ctx: ctx.clone(),
                    request: req,
                    looked_for: false,
                };
                return Err(Error::ambiguous("the connection broke before the reply"));
            }
        }
        self.inner.create_ordered(ctx, req).await
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
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
