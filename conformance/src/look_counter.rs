//! Counts how often the line is looked at, and how many watches are opened.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use coord_api::{Backend, Dir, Freshness, Layer, Listing, OpContext, Result, Start, WatchStream};

use crate::meddle::{Meddle, Meddled};

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
        Meddled::around(inner, self.clone())
    }
}

#[async_trait]
impl Meddle for LookCounter {
    async fn list(&self, inner: &Arc<dyn Backend>, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        // Latest reads are the test's own.
        if ctx.freshness == Freshness::Session {
            self.0.looks.fetch_add(1, Ordering::SeqCst);
        }
        inner.list(ctx, dir).await
    }

    async fn watch(
        &self,
        inner: &Arc<dyn Backend>,
        ctx: &OpContext,
        dir: &Dir,
        start: Start,
    ) -> Result<WatchStream> {
        self.0.watches.fetch_add(1, Ordering::SeqCst);
        inner.watch(ctx, dir, start).await
    }
}
