//! Every call ends by its deadline.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Check, Dir, Entry, Error, ErrorKind, Key, Layer, Listing, Op, OpContext, Ordered,
    OrderedCreate, Result, Retry, Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream,
    kit::Runtime,
};
use tokio::time::Instant;

use crate::{OPERATION_TIMEOUT, after, bounded};

/// Ends every call by its deadline, and gives a deadline to a call that has none.
///
/// The deadline is [`OpContext::deadline`] or, where the caller set none, this layer's time-out counted from the call;
/// the backend inside is told either way. When it passes, the call fails with [`ErrorKind::Timeout`]:
/// [`Retry::Safe`] for reads, [`Retry::Ambiguous`] for `commit`, `create_ordered`, `open_session` and `close`.
///
/// A write in flight is not taken back: the server may apply it after the caller was told. That is why the error says
/// that it may have been applied. `wait` and `watch` are exempt, since waiting long is what they are for.
#[derive(Clone, Copy, Debug)]
pub struct TimeoutLayer {
    timeout: Duration,
}

impl TimeoutLayer {
    /// Calls without a deadline of their own end after `timeout`.
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        Self { timeout }
    }
}

impl Default for TimeoutLayer {
    /// Five seconds.
    fn default() -> Self {
        Self::new(OPERATION_TIMEOUT)
    }
}

impl Layer for TimeoutLayer {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Timed { inner, timeout: self.timeout })
    }
}

#[derive(Debug)]
struct Timed {
    inner: Arc<dyn Backend>,
    timeout: Duration,
}

fn expired(operation: &'static str, retry: Retry) -> Error {
    Error::new(ErrorKind::Timeout, "the deadline passed before the reply")
        .with_retry(retry)
        .with_operation(operation)
}

/// Runs `call` until `deadline`; what it is about goes into the error of a time-out only.
async fn until<T>(
    deadline: Instant,
    operation: &'static str,
    retry: Retry,
    (name, what): (&'static str, &(dyn fmt::Display + Sync)),
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout_at(deadline, call).await {
        Ok(result) => result,
        Err(_) => Err(expired(operation, retry).with_context(name, what)),
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Timed {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        let (ctx, deadline) = bounded(ctx, self.timeout);
        until(deadline, "get", Retry::Safe, ("key", key), self.inner.get(&ctx, key)).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        let (ctx, deadline) = bounded(ctx, self.timeout);
        until(deadline, "list", Retry::Safe, ("dir", dir), self.inner.list(&ctx, dir)).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        let (ctx, deadline) = bounded(ctx, self.timeout);
        // The transaction moves; what it is about stays for the error.
        let key = txn.ops().first().map(Op::key).or_else(|| txn.checks().first().map(Check::key)).cloned();
        let retry = if txn.ops().is_empty() { Retry::Safe } else { Retry::Ambiguous };
        let call = self.inner.commit(&ctx, txn);
        match key {
            Some(key) => until(deadline, "commit", retry, ("key", &key), call).await,
            // Refused inside before anything could take time.
            None => call.await,
        }
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        let (ctx, deadline) = bounded(ctx, self.timeout);
        let dir = req.dir.clone();
        let call = self.inner.create_ordered(&ctx, req);
        until(deadline, "create_ordered", Retry::Ambiguous, ("dir", &dir), call).await
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        self.inner.wait(ctx, seen).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        self.inner.watch(ctx, dir, start).await
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        match tokio::time::timeout_at(after(self.timeout), self.inner.open_session(options)).await {
            Ok(result) => result,
            Err(_) => Err(expired("open_session", Retry::Ambiguous)),
        }
    }

    async fn close(&self) -> Result<()> {
        match tokio::time::timeout_at(after(self.timeout), self.inner.close()).await {
            Ok(result) => result,
            Err(_) => Err(expired("close", Retry::Ambiguous)),
        }
    }
}

#[cfg(test)]
mod tests;
