//! A directory of the store as a store of its own.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;

use crate::{
    Backend, BackendInfo, Child, Dir, Entry, Key, Layer, Listing, OpContext, Ordered, OrderedCreate, Result,
    Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, WatchEvent, WatchStream, kit::Runtime,
};

/// Shows a directory as if it were the root: keys go in below it and come out without it.
///
/// Nothing outside can be named, and neighbours stay apart: `/app` does not see `/app2`. Sessions are the store's, so
/// namespaces of one handle may share one.
#[derive(Clone, Debug)]
pub struct NamespaceLayer {
    root: Dir,
}

impl NamespaceLayer {
    /// The namespace `root`.
    #[must_use]
    pub const fn new(root: Dir) -> Self {
        Self { root }
    }
}

impl Layer for NamespaceLayer {
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        if self.root.is_root() { inner } else { Arc::new(Namespace { inner, root: self.root.clone() }) }
    }
}

#[derive(Debug)]
struct Namespace {
    inner: Arc<dyn Backend>,
    root: Dir,
}

impl Namespace {
    fn seen_inside(&self, seen: &Seen) -> Seen {
        match seen {
            Seen::Absent(key) => Seen::Absent(self.root.join_key(key)),
            Seen::Exists(key) => Seen::Exists(self.root.join_key(key)),
            Seen::Value(key, revision) => Seen::Value(self.root.join_key(key), *revision),
            Seen::Children(dir, revision) => Seen::Children(self.root.join_dir(dir), *revision),
        }
    }
}

// A backend answers about what it was asked, so keys outside the namespace cannot come back; if one does, it is
// dropped rather than shown under a wrong name.

fn entry_outside(root: &Dir, entry: Entry) -> Option<Entry> {
    Some(Entry { key: root.strip_key(&entry.key)?, ..entry })
}

fn listing_outside(root: &Dir, listing: Listing) -> Listing {
    let children = listing.children.into_iter();
    let children =
        children.filter_map(|child| Some(Child { key: root.strip_key(&child.key)?, ..child })).collect();
    Listing { children, ..listing }
}

fn event_outside(root: &Dir, event: WatchEvent) -> Option<WatchEvent> {
    Some(match event {
        WatchEvent::Snapshot { entries, revision } => {
            let entries = entries.into_iter().filter_map(|entry| entry_outside(root, entry)).collect();
            WatchEvent::Snapshot { entries, revision }
        }
        WatchEvent::Put(entry) => WatchEvent::Put(entry_outside(root, entry)?),
        WatchEvent::Delete { key, revision } => WatchEvent::Delete { key: root.strip_key(&key)?, revision },
        WatchEvent::Progress(revision) => WatchEvent::Progress(revision),
    })
}

#[async_trait]
impl Backend for Namespace {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        let entry = self.inner.get(ctx, &self.root.join_key(key)).await?;
        Ok(entry.and_then(|entry| entry_outside(&self.root, entry)))
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        let listing = self.inner.list(ctx, &self.root.join_dir(dir)).await?;
        Ok(listing_outside(&self.root, listing))
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        self.inner.commit(ctx, txn.map_keys(|key| self.root.join_key(key))).await
    }

    async fn create_ordered(&self, ctx: &OpContext, mut req: OrderedCreate) -> Result<Ordered> {
        req.dir = self.root.join_dir(&req.dir);
        let ordered = self.inner.create_ordered(ctx, req).await?;
        let key = self.root.strip_key(&ordered.key).unwrap_or(ordered.key);
        let line = ordered.line.map(|line| listing_outside(&self.root, line));
        Ok(Ordered { key, line, ..ordered })
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        self.inner.wait(ctx, &self.seen_inside(seen)).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        let root = self.root.clone();
        let stream = self.inner.watch(ctx, &self.root.join_dir(dir), start).await?;
        let stream = stream.filter_map(move |event| {
            let event = match event {
                Ok(event) => event_outside(&root, event).map(Ok),
                Err(e) => Some(Err(e)),
            };
            std::future::ready(event)
        });
        Ok(stream.boxed())
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.inner.open_session(options).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
