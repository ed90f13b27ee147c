//! One span a call.

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Check, Dir, Entry, Key, Layer, Listing, Op, OpContext, Ordered, OrderedCreate,
    Result, Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream, kit::Runtime,
};
use tracing::{Instrument, Level, Span, field};

/// Wraps every call in a `tracing` span at DEBUG and tells in it how the call ended.
///
/// The span is named `coord` and has the fields `coord.op`, `coord.backend`, `coord.key` (the key or directory; of a
/// transaction the first) and `coord.session`. At the call's end one event carries `elapsed_us` and, if it failed, the
/// error. Values are never shown. While nobody listens a call costs one look at the level.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceLayer(());

impl TraceLayer {
    /// The layer.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl Layer for TraceLayer {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        let name = inner.info().name;
        Arc::new(Traced { inner, name })
    }
}

#[derive(Debug)]
struct Traced {
    inner: Arc<dyn Backend>,
    /// The backend's name: asking for it each time would clone all of its facts.
    name: &'static str,
}

fn on() -> bool {
    tracing::enabled!(Level::DEBUG)
}

impl Traced {
    fn span(&self, ctx: Option<&OpContext>, op: &'static str, about: Option<&str>) -> Span {
        tracing::debug_span!(
            "coord",
            coord.op = op,
            coord.backend = self.name,
            coord.key = about,
            coord.session = ctx.and_then(|ctx| ctx.session.as_ref()).map(field::display),
        )
    }
}

async fn told<T>(span: Span, call: impl Future<Output = Result<T>>) -> Result<T> {
    async {
        let began = std::time::Instant::now();
        let result = call.await;
        let elapsed_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        match &result {
            Ok(_) => tracing::debug!(elapsed_us, "done"),
            Err(error) => {
                tracing::debug!(elapsed_us, kind = error.kind().as_str(), outcome = ?error.outcome(), %error, "failed");
            }
        }
        result
    }
    .instrument(span)
    .await
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Traced {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        let call = self.inner.get(ctx, key);
        if on() { told(self.span(Some(ctx), "get", Some(key.as_str())), call).await } else { call.await }
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        let call = self.inner.list(ctx, dir);
        if on() { told(self.span(Some(ctx), "list", Some(dir.as_str())), call).await } else { call.await }
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        if !on() {
            return self.inner.commit(ctx, txn).await;
        }
        let key = txn.ops().first().map(Op::key).or_else(|| txn.checks().first().map(Check::key));
        let span = self.span(Some(ctx), "commit", key.map(Key::as_str));
        told(span, self.inner.commit(ctx, txn)).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        if !on() {
            return self.inner.create_ordered(ctx, req).await;
        }
        let span = self.span(Some(ctx), "create_ordered", Some(req.dir.as_str()));
        told(span, self.inner.create_ordered(ctx, req)).await
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        let call = self.inner.wait(ctx, seen);
        if !on() {
            return call.await;
        }
        let dir;
        let about = match seen {
            Seen::Absent(key) | Seen::Exists(key) | Seen::Value(key, _) => key.as_str(),
            _ => {
                dir = seen.dir();
                dir.as_str()
            }
        };
        told(self.span(Some(ctx), "wait", Some(about)), call).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        let call = self.inner.watch(ctx, dir, start);
        if on() { told(self.span(Some(ctx), "watch", Some(dir.as_str())), call).await } else { call.await }
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        let call = self.inner.open_session(options);
        if on() { told(self.span(None, "open_session", None), call).await } else { call.await }
    }

    async fn close(&self) -> Result<()> {
        let call = self.inner.close();
        if on() { told(self.span(None, "close", None), call).await } else { call.await }
    }
}

#[cfg(test)]
mod tests;
