//! Requests that arrive when nobody waits for them any more.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use coord_api::{Backend, Dir, Error, Layer, Listing, OpContext, Ordered, OrderedCreate, Result};

use crate::meddle::{Meddle, Meddled};

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
        Meddled::around(inner, self.clone())
    }
}

#[async_trait]
impl Meddle for LateJoins {
    async fn list(&self, inner: &Arc<dyn Backend>, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        let listing = inner.list(ctx, dir).await;
        if let Late::OnItsWay { looked_for, .. } = &mut *self.lock() {
            *looked_for |= listing.is_ok();
        }
        listing
    }

    async fn create_ordered(
        &self,
        inner: &Arc<dyn Backend>,
        ctx: &OpContext,
        req: OrderedCreate,
    ) -> Result<Ordered> {
        {
            let mut late = self.lock();
            if matches!(*late, Late::None) {
                *late = Late::OnItsWay {
                    inner: Arc::clone(inner),
                    ctx: ctx.clone(),
                    request: req,
                    looked_for: false,
                };
                return Err(Error::ambiguous("the connection broke before the reply"));
            }
        }
        inner.create_ordered(ctx, req).await
    }
}
