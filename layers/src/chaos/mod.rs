//! Faults on demand, for tests.

mod gate;
mod plan;

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Entry, Error, Key, Layer, Listing, OpContext, Ordered, OrderedCreate, Result,
    Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream, kit::Runtime,
};

pub use gate::Gate;
pub use plan::{ChaosPlan, Method, Odds};

use plan::Fault;

/// Lets the faults of a [`ChaosPlan`] happen to the calls that pass, on any backend.
///
/// Belongs next to the store, inside of timeout and retry, so that these meet the faults. Handles behind one layer share
/// its plan and its counts.
///
/// ```
/// # coord_backend_memory::doc_example(async |coord| {
/// use coord_api::Outcome;
/// use coord_layers::{ChaosLayer, ChaosPlan, Method};
///
/// let plan = ChaosPlan::new();
/// let coord = coord.layer(&ChaosLayer::new(plan.clone()));
/// plan.lose_reply(Method::Commit, 1);
///
/// let error = coord.put("/a", "1").await.expect_err("the reply is lost");
/// assert_eq!(error.outcome(), Outcome::Unknown);
/// assert!(coord.get("/a").await?.is_some(), "and the write was applied");
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct ChaosLayer {
    plan: ChaosPlan,
}

impl ChaosLayer {
    /// A layer that follows `plan`, which may be changed at any time through its clones.
    #[must_use]
    pub const fn new(plan: ChaosPlan) -> Self {
        Self { plan }
    }
}

impl Layer for ChaosLayer {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Chaotic { inner, plan: self.plan.clone() })
    }
}

#[derive(Debug)]
struct Chaotic {
    inner: Arc<dyn Backend>,
    plan: ChaosPlan,
}

impl Chaotic {
    /// Lets the planned fault happen to `call`.
    async fn pass<T>(&self, method: Method, call: impl Future<Output = Result<T>>) -> Result<T> {
        match self.plan.next(method) {
            None => call.await,
            Some(Fault::FailBefore) => Err(Error::unavailable("chaos: the request was not sent")),
            Some(Fault::LoseReply) => {
                call.await?;
                Err(if method.writes() {
                    Error::ambiguous("chaos: the reply was lost")
                } else {
                    Error::unavailable("chaos: the reply was lost")
                })
            }
            Some(Fault::HoldReply(gate)) => {
                let result = call.await;
                gate.hold().await;
                result
            }
            Some(Fault::Delay(span)) => {
                tokio::time::sleep(span).await;
                call.await
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Chaotic {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        self.pass(Method::Get, self.inner.get(ctx, key)).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        self.pass(Method::List, self.inner.list(ctx, dir)).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        self.pass(Method::Commit, self.inner.commit(ctx, txn)).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        self.pass(Method::CreateOrdered, self.inner.create_ordered(ctx, req)).await
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        self.pass(Method::Wait, self.inner.wait(ctx, seen)).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        self.pass(Method::Watch, self.inner.watch(ctx, dir, start)).await
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        let opened = async {
            let driver = self.inner.open_session(options).await?;
            Ok(AbandonIfLost(Some(driver)))
        };
        self.pass(Method::OpenSession, opened).await?.keep()
    }

    async fn close(&self) -> Result<()> {
        self.pass(Method::Close, self.inner.close()).await
    }
}

/// A session whose reply may be lost on the way: nobody would renew or end it then.
struct AbandonIfLost(Option<Arc<dyn SessionDriver>>);

impl AbandonIfLost {
    fn keep(mut self) -> Result<Arc<dyn SessionDriver>> {
        self.0.take().ok_or_else(|| Error::session_lost("chaos: the session was abandoned"))
    }
}

impl Drop for AbandonIfLost {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abandon();
        }
    }
}

#[cfg(test)]
mod tests;
