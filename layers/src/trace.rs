//! One span a call.

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Check, Dir, Entry, Host, Key, Layer, Listing, Op, OpContext, Ordered,
    OrderedCreate, Result, Seen, SessionDriver, SessionOptions, Start, StoreUrl, Txn, TxnOutcome,
    WatchStream, kit::Runtime,
};
use tracing::{Instrument, Level, Span, field};

/// Wraps every call in a `tracing` span at DEBUG and tells in it how the call ended.
///
/// The span is named `coord` and has the names of OpenTelemetry's conventions for clients of databases:
/// `db.system.name`, `db.operation.name`, `db.namespace`, `server.address`, `server.port`, `error.type`. Ours are
/// `coord.key` (the key or directory; of a transaction the first) and `coord.session`. At the call's end one event
/// carries how long it took and, if it failed, the error. Values are never shown. While nobody listens a call costs one
/// look at the level. The table of all fields is in `docs/observability.md`.
#[derive(Clone, Debug, Default)]
pub struct TraceLayer {
    namespace: Option<Arc<str>>,
    server: Option<Host>,
}

impl TraceLayer {
    /// The layer, for a store of which nothing is known but its kind.
    #[must_use]
    pub const fn new() -> Self {
        Self { namespace: None, server: None }
    }

    /// The layer for the store at `url`.
    ///
    /// `db.namespace` is the path of the URL. `server.address` and `server.port` are set where the URL names one host:
    /// of several, nobody can say which one answers.
    #[must_use]
    pub fn of_store(url: &StoreUrl) -> Self {
        let server = match url.hosts() {
            [host] => Some(host.clone()),
            _ => None,
        };
        let path = url.path();
        Self { namespace: (!path.is_root()).then(|| path.as_str().into()), server }
    }
}

impl Layer for TraceLayer {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        let system = system_name(inner.info().name);
        Arc::new(Traced { inner, system, layer: self.clone() })
    }
}

#[derive(Debug)]
struct Traced {
    inner: Arc<dyn Backend>,
    /// Of the backend's facts: asking for them each time would clone all of them.
    system: &'static str,
    layer: TraceLayer,
}

/// The name of a kind of store in traces and metrics, from that of its backend: as OpenTelemetry's conventions have it,
/// and for a backend of others what it calls itself.
#[must_use]
pub fn system_name(backend: &'static str) -> &'static str {
    match backend {
        "zk" => "zookeeper",
        other => other,
    }
}

fn on() -> bool {
    tracing::enabled!(Level::DEBUG)
}

impl Traced {
    fn span(&self, ctx: Option<&OpContext>, op: &'static str, about: Option<&str>) -> Span {
        tracing::debug_span!(
            "coord",
            otel.name = op,
            otel.kind = "client",
            otel.status_code = field::Empty,
            db.system.name = self.system,
            db.operation.name = op,
            db.namespace = self.layer.namespace.as_deref(),
            server.address = self.layer.server.as_ref().map(|host| host.name.as_str()),
            server.port = self.layer.server.as_ref().and_then(|host| host.port),
            "error.type" = field::Empty,
            coord.key = about,
            coord.session = ctx.and_then(|ctx| ctx.session.as_ref()).map(field::display),
        )
    }
}

async fn told<T>(span: Span, call: impl Future<Output = Result<T>>) -> Result<T> {
    async {
        let began = std::time::Instant::now();
        let result = call.await;
        let duration = began.elapsed().as_secs_f64();
        match &result {
            Ok(_) => tracing::debug!(coord.duration = duration, "done"),
            Err(error) => {
                let kind = error.kind().as_str();
                Span::current().record("error.type", kind).record("otel.status_code", "ERROR");
                tracing::debug!(
                    coord.duration = duration,
                    "error.type" = kind,
                    coord.outcome = ?error.outcome(),
                    error.message = %error,
                    "failed"
                );
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
