//! A layer that makes watches deaf, and hides keys as a lagging server would.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use coord_api::{Backend, Dir, Entry, Key, Layer, OpContext, Result, Start, WatchStream};
use futures::StreamExt;

use crate::meddle::{Meddle, Meddled};

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
        Meddled::around(inner, self.clone())
    }
}

#[async_trait]
impl Meddle for Meddler {
    async fn get(&self, inner: &Arc<dyn Backend>, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        if key.as_str().contains("/rel/") {
            self.0.reads_of_releases.fetch_add(1, Ordering::SeqCst);
        }
        let found = inner.get(ctx, key).await?;
        let hidden = self.0.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(found.filter(|_| hidden.as_ref().is_none_or(|part| !key.as_str().contains(part))))
    }

    async fn watch(
        &self,
        inner: &Arc<dyn Backend>,
        ctx: &OpContext,
        dir: &Dir,
        start: Start,
    ) -> Result<WatchStream> {
        let meddling = Arc::clone(&self.0);
        let events = inner.watch(ctx, dir, start).await?;
        Ok(events
            .filter(move |_| {
                let heard = !meddling.deaf.load(Ordering::SeqCst);
                std::future::ready(heard)
            })
            .boxed())
    }
}
