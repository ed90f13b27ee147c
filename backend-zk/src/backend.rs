//! The backend: the contract's methods, each forwarded to where it is done.

use std::sync::Arc;

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Durability, Entry, Freshness, Guarantees, Key, Limits, Listing, OpContext,
    Ordered, OrderedCreate, Result, Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchStream,
    kit::Runtime,
};
use tokio::time::timeout_at;

use crate::{
    handle::{Core, is_directory},
    probe::warnings,
    session::ZkSession,
};

/// A handle of a ZooKeeper ensemble, made by [`ZkFactory`](crate::ZkFactory).
///
/// Dropping it ends its sessions, watches and connections in the background.
#[derive(Debug)]
pub struct ZkBackend {
    core: Arc<Core>,
}

impl ZkBackend {
    pub(crate) fn new(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl Drop for ZkBackend {
    fn drop(&mut self) {
        let core = Arc::clone(&self.core);
        self.core.runtime.spawn(async move { core.close().await });
    }
}

#[async_trait]
impl Backend for ZkBackend {
    fn info(&self) -> BackendInfo {
        let facts = &self.core.facts;
        let mut guarantees = Guarantees::STRONGEST;
        guarantees.watch_every_change = false;
        guarantees.watch_resumes = false;
        guarantees.check_survives_recreate = false;
        guarantees.linearizable_reads = false;
        guarantees.durability =
            if facts.standalone == Some(false) { Durability::Quorum } else { Durability::Restart };
        guarantees.can_lose_acknowledged_writes = false;
        BackendInfo::new("zk", facts.name(), Limits::PORTABLE, guarantees)
            .with_warnings(warnings(&self.core.settings, facts))
    }

    fn runtime(&self) -> Runtime {
        self.core.runtime.clone()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        let core = &self.core;
        let deadline = core.deadline(ctx);
        let conn = core.conn(ctx, deadline).await?;
        let found = core.read(&conn, deadline, &core.settings.paths.key(key), ctx.freshness).await?;
        Ok(found
            .filter(|(value, node)| !is_directory(value, node))
            .map(|(value, node)| Entry::new(key.clone(), value, node.meta())))
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        let core = &self.core;
        core.ensure_open()?;
        if ctx.freshness == Freshness::Session
            && let Some(listing) = core.listing_from_mirror(dir)
        {
            return Ok(listing);
        }
        let deadline = core.deadline(ctx);
        let conn = core.conn(ctx, deadline).await?;
        let children =
            core.read_children(&conn, deadline, &core.settings.paths.dir(dir), ctx.freshness).await?;
        Ok(core.listing(dir, children))
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        Arc::clone(&self.core).commit(ctx, txn).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        Arc::clone(&self.core).create_ordered(ctx, req).await
    }

    async fn wait(&self, _: &OpContext, seen: &Seen) -> Result<()> {
        Arc::clone(&self.core).wait(seen).await
    }

    async fn watch(&self, _: &OpContext, dir: &Dir, _: Start) -> Result<WatchStream> {
        // The server keeps no history, so every start is a snapshot.
        Ok(self.core.tree(dir)?.into_watch(Start::Snapshot))
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        let core = &self.core;
        core.ensure_open()?;
        let deadline = core.deadline(&OpContext::default());
        // Whoever stops waiting leaves a session behind that nobody knows: it is ended as soon as it is open.
        let opened = core.runtime.spawn({
            let core = Arc::clone(core);
            let ttl = options.ttl;
            async move {
                let session = ZkSession::open(&core.settings.connector, ttl).await?;
                core.keep_session(Arc::clone(&session))?;
                Ok(Opened(Some(session)))
            }
        });
        let mut opened = match timeout_at(deadline, opened).await {
            Ok(Ok(opened)) => opened?,
            Ok(Err(gone)) => {
                return Err(coord_api::Error::unavailable("opening the session broke").with_source(gone));
            }
            Err(_) => {
                return Err(coord_api::Error::new(
                    coord_api::ErrorKind::Timeout,
                    "no session could be opened before the deadline",
                )
                .with_retry(coord_api::Retry::Safe));
            }
        };
        match opened.0.take() {
            Some(session) => Ok(session),
            None => Err(Core::closed_error()),
        }
    }

    async fn close(&self) -> Result<()> {
        let core = Arc::clone(&self.core);
        // Own task, so that a caller who goes away does not leave a half-closed handle.
        self.core.runtime.run(async move { core.close().await }).await
    }
}

/// A session on its way to whoever asked for it.
struct Opened(Option<Arc<ZkSession>>);

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.abandon();
        }
    }
}
