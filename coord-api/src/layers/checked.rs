//! Bad input is refused before anything is sent, and errors say what failed on which key.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Backend, BackendInfo, Dir, Entry, Error, Key, Layer, Limits, Listing, OpContext, Ordered, OrderedCreate,
    Result, Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream, kit::Runtime,
};

/// Validates every call against the backend's [`Limits`] and adds the operation and the key to its errors.
///
/// The innermost layer of every stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckedLayer;

impl Layer for CheckedLayer {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        let limits = inner.info().limits;
        Arc::new(Checked { inner, limits })
    }
}

#[derive(Debug)]
struct Checked {
    inner: Arc<dyn Backend>,
    limits: Limits,
}

fn about<T>(
    result: Result<T>,
    operation: &'static str,
    name: &'static str,
    what: impl std::fmt::Display,
) -> Result<T> {
    result.map_err(|e| e.with_operation(operation).with_context(name, what))
}

fn need_session(ctx: &OpContext) -> Result<()> {
    if ctx.session.is_some() {
        return Ok(());
    }
    Err(Error::invalid("an ephemeral key needs a session: use the handle of Session::coord"))
}

#[async_trait]
impl Backend for Checked {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        about(self.inner.get(ctx, key).await, "get", "key", key)
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        about(self.inner.list(ctx, dir).await, "list", "dir", dir)
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        let key = txn
            .ops()
            .first()
            .map(crate::Op::key)
            .or_else(|| txn.checks().first().map(crate::Check::key))
            .cloned();
        let result = match txn.validate(&self.limits) {
            Ok(()) if txn.needs_session() => match need_session(ctx) {
                Ok(()) => self.inner.commit(ctx, txn).await,
                Err(e) => Err(e),
            },
            Ok(()) => self.inner.commit(ctx, txn).await,
            Err(e) => Err(e),
        };
        match key {
            Some(key) => about(result, "commit", "key", key),
            None => result.map_err(|e| e.with_operation("commit")),
        }
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        let dir = req.dir.clone();
        let valid = need_session(ctx)
            .and_then(|()| self.limits.check_value(&Key::from_store(dir.as_str()), &req.value));
        let result = match valid {
            Ok(()) => self.inner.create_ordered(ctx, req).await,
            Err(e) => Err(e),
        };
        about(result, "create_ordered", "dir", dir)
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        about(self.inner.wait(ctx, seen).await, "wait", "dir", seen.dir())
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        about(self.inner.watch(ctx, dir, start).await, "watch", "dir", dir)
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        let result = match self.limits.check_ttl(options.ttl) {
            Ok(()) => self.inner.open_session(options).await,
            Err(e) => Err(e),
        };
        result.map_err(|e| e.with_operation("open_session"))
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await.map_err(|e| e.with_operation("close"))
    }
}
