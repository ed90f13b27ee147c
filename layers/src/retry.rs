//! What was surely not applied is sent again.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Entry, Error, ErrorKind, Key, Layer, Listing, OpContext, Ordered,
    OrderedCreate, Result, Retry, Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream,
    kit::{Backoff, Runtime},
};
use tokio::time::Instant;

use crate::{OPERATION_TIMEOUT, after, bounded};

/// Longest pause between two attempts.
const RETRY_CAP: Duration = Duration::from_secs(1);

/// Sends a call again while that is safe, and ends with the call's deadline.
///
/// * [`Retry::Safe`]: sent again, with doubling pauses, until the deadline.
/// * [`Retry::Ambiguous`]: only `create_ordered`, which finds its own entry again by its nonce. A `commit` never: the
///   first one may have been applied.
/// * [`Retry::Never`]: returned at once.
///
/// The deadline, [`OpContext::deadline`] or this layer's time-out counted from the call, is one for the whole call: the
/// attempts and the pauses between them share it. An error after an ambiguous attempt stays ambiguous, whatever later
/// attempts say, since the first may have been applied. `wait` has no deadline and goes on until it is answered or
/// refused for good; `watch` is bounded until its stream begins.
#[derive(Clone, Copy, Debug)]
pub struct RetryLayer {
    timeout: Duration,
    ambiguous_joins: bool,
}

impl RetryLayer {
    /// Calls without a deadline of their own end after `timeout`, retries and all.
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        Self { timeout, ambiguous_joins: true }
    }

    /// The same, but an ambiguous `create_ordered` goes back to the caller.
    ///
    /// For callers that send it again themselves, as the recipes do. They have to know: a request that was lost on the
    /// way may arrive after its entry was deleted, and who does not know that there was one cannot sweep it up.
    #[must_use]
    pub const fn leave_ambiguous_joins(mut self) -> Self {
        self.ambiguous_joins = false;
        self
    }
}

impl Default for RetryLayer {
    /// Five seconds for the whole call.
    fn default() -> Self {
        Self::new(OPERATION_TIMEOUT)
    }
}

impl Layer for RetryLayer {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Retried { inner, layer: *self })
    }
}

#[derive(Debug)]
struct Retried {
    inner: Arc<dyn Backend>,
    layer: RetryLayer,
}

impl Retried {
    /// Makes `attempt`s until one ends the call.
    async fn until<T, F>(
        &self,
        deadline: Option<Instant>,
        on_ambiguous: bool,
        attempt: impl Fn() -> F + Send + Sync,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
    {
        // The usual call succeeds: what follows costs it nothing.
        let mut error = match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let runtime = self.inner.runtime();
        let mut backoff = Backoff::new(RETRY_CAP);
        let mut attempts = 1_u32;
        let mut ambiguous = false;
        loop {
            ambiguous |= error.retry() == Retry::Ambiguous;
            let again = match error.retry() {
                Retry::Safe => true,
                Retry::Ambiguous => on_ambiguous,
                Retry::Never => false,
            };
            let delay = backoff.next_delay(&runtime);
            let late = deadline.is_some_and(|at| Instant::now() + delay >= at);
            if !again || late {
                return Err(told(error, attempts, ambiguous));
            }
            tracing::debug!(attempt = attempts, %error, "trying again");
            tokio::time::sleep(delay).await;
            attempts = attempts.saturating_add(1);
            error = match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
        }
    }
}

/// The error of the last attempt, as the error of the call.
fn told(error: Error, attempts: u32, ambiguous: bool) -> Error {
    let error = if attempts > 1 { error.with_context("attempts", attempts) } else { error };
    // An earlier attempt may have been applied even if the last one was surely not (promise G8).
    if ambiguous { error.with_retry(Retry::Ambiguous) } else { error }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Retried {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        let (ctx, deadline) = bounded(ctx, self.layer.timeout);
        self.until(Some(deadline), false, || self.inner.get(&ctx, key)).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        let (ctx, deadline) = bounded(ctx, self.layer.timeout);
        self.until(Some(deadline), false, || self.inner.list(&ctx, dir)).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        let (ctx, deadline) = bounded(ctx, self.layer.timeout);
        self.until(Some(deadline), false, || self.inner.commit(&ctx, txn.clone())).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        let (ctx, deadline) = bounded(ctx, self.layer.timeout);
        self.until(Some(deadline), self.layer.ambiguous_joins, || {
            self.inner.create_ordered(&ctx, req.clone())
        })
        .await
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        self.until(None, false, || self.inner.wait(ctx, seen)).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        let deadline = ctx.deadline.unwrap_or_else(|| after(self.layer.timeout));
        self.until(Some(deadline), false, || self.inner.watch(ctx, dir, start)).await
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        // No context carries the deadline inwards, so the attempts are bounded here.
        let deadline = after(self.layer.timeout);
        self.until(Some(deadline), false, || async move {
            match tokio::time::timeout_at(deadline, self.inner.open_session(options)).await {
                Ok(result) => result,
                Err(_) => Err(Error::new(ErrorKind::Timeout, "the deadline passed before the reply")
                    .with_retry(Retry::Ambiguous)
                    .with_operation("open_session")),
            }
        })
        .await
    }

    async fn close(&self) -> Result<()> {
        let deadline = after(self.layer.timeout);
        self.until(Some(deadline), false, || self.inner.close()).await
    }
}

#[cfg(test)]
mod tests;
