//! Calls as numbers.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Entry, Key, Layer, Listing, OpContext, Ordered, OrderedCreate, Result, Seen,
    SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchEvent, WatchStream, kit::Runtime,
};
use futures::{Stream, StreamExt};
use metrics::{counter, gauge, histogram};

use super::names;

/// Counts every call and takes its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetricsLayer {
    pub(super) store: &'static str,
}

impl Layer for MetricsLayer {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Measured { inner, store: self.store })
    }
}

#[derive(Debug)]
struct Measured {
    inner: Arc<dyn Backend>,
    store: &'static str,
}

impl Measured {
    fn ended(&self, operation: &'static str, outcome: &'static str) {
        counter!(names::OPERATIONS, "store" => self.store, "operation" => operation, "outcome" => outcome)
            .increment(1);
    }

    fn took(&self, operation: &'static str, began: Instant) {
        histogram!(names::OPERATION_SECONDS, "store" => self.store, "operation" => operation)
            .record(began.elapsed());
    }

    async fn call<T>(&self, operation: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let began = Instant::now();
        let result = call.await;
        self.took(operation, began);
        self.ended(operation, outcome(&result));
        result
    }
}

fn outcome<T>(result: &Result<T>) -> &'static str {
    result.as_ref().map_or_else(|error| error.kind().as_str(), |_| "ok")
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Measured {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        self.call("get", self.inner.get(ctx, key)).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        self.call("list", self.inner.list(ctx, dir)).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        let began = Instant::now();
        let result = self.inner.commit(ctx, txn).await;
        self.took("commit", began);
        let rejected = matches!(result, Ok(TxnOutcome::Rejected(_)));
        self.ended("commit", if rejected { "rejected" } else { outcome(&result) });
        result
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        self.call("create_ordered", self.inner.create_ordered(ctx, req)).await
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        let result = self.inner.wait(ctx, seen).await;
        self.ended("wait", outcome(&result));
        result
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        let result = self.inner.watch(ctx, dir, start).await;
        self.ended("watch", outcome(&result));
        Ok(MeasuredWatch::new(result?, self.store).boxed())
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.call("open_session", self.inner.open_session(options)).await
    }

    async fn close(&self) -> Result<()> {
        self.call("close", self.inner.close()).await
    }
}

/// Counts what a watch tells.
struct MeasuredWatch {
    inner: WatchStream,
    store: &'static str,
    begun: bool,
}

impl MeasuredWatch {
    fn new(inner: WatchStream, store: &'static str) -> Self {
        gauge!(names::WATCHES, "store" => store).increment(1.0);
        Self { inner, store, begun: false }
    }

    fn note(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Snapshot { .. } if self.begun => {
                counter!(names::WATCH_RESYNCS, "store" => self.store).increment(1);
            }
            WatchEvent::Put(_) | WatchEvent::Delete { .. } => {
                counter!(names::WATCH_EVENTS, "store" => self.store).increment(1);
            }
            _ => {}
        }
        self.begun = true;
    }
}

impl Stream for MeasuredWatch {
    type Item = Result<WatchEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = ready!(self.inner.as_mut().poll_next(cx));
        if let Some(Ok(event)) = &event {
            self.note(event);
        }
        Poll::Ready(event)
    }
}

impl Drop for MeasuredWatch {
    fn drop(&mut self) {
        gauge!(names::WATCHES, "store" => self.store).decrement(1.0);
    }
}
