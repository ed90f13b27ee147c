//! Calls that take as long as a case wants.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use coord_api::{Backend, Error, Layer, OpContext, Ordered, OrderedCreate, Result, Seen};
use tokio::sync::watch;

use crate::meddle::{Meddle, Meddled};

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
        Meddled::around(inner, self.clone())
    }
}

#[async_trait]
impl Meddle for HeldCalls {
    async fn create_ordered(
        &self,
        inner: &Arc<dyn Backend>,
        ctx: &OpContext,
        req: OrderedCreate,
    ) -> Result<Ordered> {
        let created = inner.create_ordered(ctx, req).await;
        if self.held(Held::RepliesToJoins).await {
            return Err(Error::ambiguous("the connection broke before the reply"));
        }
        created
    }

    async fn wait(&self, inner: &Arc<dyn Backend>, ctx: &OpContext, seen: &Seen) -> Result<()> {
        self.held(Held::Waits).await;
        inner.wait(ctx, seen).await
    }
}
