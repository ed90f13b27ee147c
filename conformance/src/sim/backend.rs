//! The store as a client sees it: behind a link on which things go wrong.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Check, Dir, Entry, Key, Listing, OpContext, Ordered, OrderedCreate, Result, Seen,
    SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchEvent, WatchStream, kit::Runtime,
};
use coord_recipes::planted::{Bug, planted};
use futures::{StreamExt, stream};

use super::{
    faults::Kind,
    node::{Node, Twice},
    session::open,
};

/// A handle on the simulated store.
#[derive(Clone, Debug)]
pub(crate) struct SimBackend(pub(crate) Arc<Node>);

#[async_trait]
impl Backend for SimBackend {
    fn info(&self) -> BackendInfo {
        self.0.server.info()
    }

    fn runtime(&self) -> Runtime {
        self.0.runtime.clone()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        let (ctx, key) = (ctx.clone(), key.clone());
        let apply = move |node: Arc<Node>| {
            let (ctx, key) = (ctx.clone(), key.clone());
            let lagging = node.server_for(ctx.freshness);
            async move { lagging.as_deref().unwrap_or(&node.server).get(&ctx, &key).await }
        };
        self.0.call(false, Twice::Harmless, apply).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        let (ctx, dir) = (ctx.clone(), dir.clone());
        let apply = move |node: Arc<Node>| {
            let (ctx, dir) = (ctx.clone(), dir.clone());
            let lagging = node.server_for(ctx.freshness);
            async move { lagging.as_deref().unwrap_or(&node.server).list(&ctx, &dir).await }
        };
        self.0.call(false, Twice::Harmless, apply).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        let changes = |key: &Key| txn.ops().iter().any(|op| op.key() == key);
        let guarded = txn
            .checks()
            .iter()
            .any(|check| matches!(check, Check::Version(..) | Check::Created(..)) && changes(check.key()));
        let twice = if guarded { Twice::Harmless } else { Twice::Never };
        let ctx = ctx.clone();
        let apply = move |node: Arc<Node>| {
            let (ctx, txn) = (ctx.clone(), txn.clone());
            async move { node.server.commit(&ctx, txn).await }
        };
        self.0.call(true, twice, apply).await
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        let ctx = ctx.clone();
        let apply = move |node: Arc<Node>| {
            let (ctx, req) = (ctx.clone(), req.clone());
            async move { node.server.create_ordered(&ctx, req).await }
        };
        self.0.call(true, Twice::Unanswered, apply).await
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        let node = &self.0;
        node.world.recorder().tally.calls += 1;
        node.pass().await;
        let early = {
            let mut link = node.link();
            let after = link.range(1, 2000);
            link.strikes(Kind::EarlyWake, 150).then_some(Duration::from_millis(after))
        };
        if planted(Bug::WaitMissesPast) {
            let past = tokio::time::timeout(Duration::ZERO, node.server.wait(ctx, seen)).await.is_ok();
            if past {
                return std::future::pending().await;
            }
        }
        match early {
            None => node.server.wait(ctx, seen).await?,
            Some(after) => match tokio::time::timeout(after, node.server.wait(ctx, seen)).await {
                Ok(woken) => woken?,
                Err(_) => node.fired(Kind::EarlyWake),
            },
        }
        // What woke us is there for whoever looks now.
        node.saw(node.world.store().revision());
        node.pass().await;
        Ok(())
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        self.0.world.recorder().tally.calls += 1;
        self.0.pass().await;
        let events = self.0.server.watch(ctx, dir, start).await?;
        let watcher = Watcher { node: Arc::clone(&self.0), events, again: None, begun: false };
        Ok(stream::unfold(watcher, |mut watcher| async move {
            let item = watcher.next().await?;
            Some((item, watcher))
        })
        .boxed())
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        open(&self.0, options.ttl).await
    }

    async fn close(&self) -> Result<()> {
        self.0.server.close().await
    }
}

/// A watch on its way through the link.
struct Watcher {
    node: Arc<Node>,
    events: WatchStream,
    /// What is told besides the next event.
    again: Option<WatchEvent>,
    /// Whether the first snapshot was told.
    begun: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<WatchEvent>> {
        if let Some(again) = self.again.take() {
            return Some(Ok(again));
        }
        let mut item = self.events.next().await?;
        if planted(Bug::GapSilent) && std::mem::replace(&mut self.begun, true) {
            while let Ok(WatchEvent::Snapshot { .. }) = item {
                item = self.events.next().await?;
            }
        }
        self.node.pass().await;
        if let Ok(event) = &item {
            self.node.saw(event.revision());
            let (empty, repeated) = {
                let mut link = self.node.link();
                (link.strikes(Kind::EmptyEvent, 100), link.strikes(Kind::RepeatedEvent, 150))
            };
            if repeated {
                self.node.fired(Kind::RepeatedEvent);
                self.again = Some(event.clone());
            } else if empty {
                self.node.fired(Kind::EmptyEvent);
                self.again = Some(WatchEvent::Progress(event.revision()));
            }
        }
        Some(item)
    }
}
