//! Waiting until something seen is no longer true.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coord_api::{
    Error, Freshness, Key, Result, Retry, Revision, Seen,
    kit::{Backoff, HubRef},
};
use futures::FutureExt;
use tokio::{sync::watch, time::Instant};

use crate::{
    driver::{Fault, Node, NodeWatch},
    feed::FEED_BACKOFF_MAX,
    handle::{Core, is_directory},
    line::feed_panicked,
};

impl Core {
    pub(crate) async fn wait(self: Arc<Self>, seen: &Seen) -> Result<()> {
        self.ensure_open()?;
        tokio::select! {
            biased;
            () = self.closed() => Err(Self::closed_error()),
            result = self.wait_open(seen) => result,
        }
    }

    async fn wait_open(self: &Arc<Self>, seen: &Seen) -> Result<()> {
        let dir = seen.dir();
        match seen {
            Seen::Value(key, revision) => match self.trees.covering(&dir) {
                // Somebody watches the values here anyhow.
                Some(tree) => tree.wait(seen).await,
                None => self.wait_node(key, |node| node.is_none_or(|node| node.modified > *revision)).await,
            },
            // A watch of the root is a watch of everything.
            Seen::Exists(key) if dir.is_root() => self.wait_node(key, |node| node.is_none()).await,
            Seen::Absent(key) if dir.is_root() => self.wait_key(key, None).await,
            Seen::Absent(key) => self.wait_key(key, Some(self.line(&dir)?)).await,
            Seen::Exists(_) | Seen::Children(..) => self.line(&dir)?.wait(seen).await,
            _ => Err(coord_api::Error::invalid("this backend cannot wait for that")),
        }
    }

    /// Waits until `key` is there as a key: an empty directory under its name is none.
    async fn wait_key(self: &Arc<Self>, key: &Key, line: Option<HubRef>) -> Result<()> {
        if let Some(line) = line {
            line.reached(Revision::ZERO).await?;
            // Absent at our first look: the change that we wait for cannot have been missed.
            if !line.contains(key) {
                return line.wait(&Seen::Absent(key.clone())).await;
            }
        }
        let path = self.settings.paths.key(key);
        loop {
            let base = self.one_shots().await?;
            let deadline = Instant::now() + self.settings.operation_timeout;
            let conn = base.conn(deadline).await;
            let value = match conn {
                Ok(conn) => self.read(&conn, deadline, &path, Freshness::Session).await,
                Err(error) => Err(error),
            };
            let unchanged = match value {
                Ok(None) => Revision::ZERO,
                Ok(Some((value, node))) if is_directory(&value, &node) => node.modified,
                Ok(Some(_)) => return Ok(()),
                Err(error) if error.retry() == Retry::Safe => {
                    tokio::time::sleep(FEED_BACKOFF_MAX).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.wait_node(key, |node| match node {
                None => unchanged > Revision::ZERO,
                Some(node) => node.modified > unchanged,
            })
            .await?;
            if unchanged == Revision::ZERO {
                return Ok(());
            }
        }
    }

    /// Waits until the node of `key` is as `done` wants it.
    async fn wait_node(self: &Arc<Self>, key: &Key, done: impl Fn(Option<Node>) -> bool) -> Result<()> {
        let mut looks = self.looks(&self.settings.paths.key(key));
        loop {
            match &*looks.borrow_and_update() {
                Look::At(node) if done(*node) => return Ok(()),
                Look::Failed(error) => {
                    return Err(Error::new(error.kind(), "the key can no longer be watched")
                        .with_retry(error.retry())
                        .with_source(error.to_string()));
                }
                Look::Unknown | Look::At(_) => {}
            }
            if looks.changed().await.is_err() {
                return Err(Self::closed_error());
            }
        }
    }

    /// What one-shot watches of `path` show: one for all who wait for it, so that a change costs one read.
    fn looks(self: &Arc<Self>, path: &str) -> watch::Receiver<Look> {
        let mut nodes = self.nodes.lock();
        if let Some(looks) = nodes.get(path) {
            return looks.subscribe();
        }
        let (sender, looks) = watch::channel(Look::Unknown);
        nodes.insert(path.to_owned(), sender.clone());
        let (core, path) = (Arc::clone(self), path.to_owned());
        self.runtime.spawn(async move {
            let follow = AssertUnwindSafe(core.follow(&path, &sender)).catch_unwind();
            tokio::select! {
                biased;
                () = core.unwanted(&path, &sender) => {}
                () = core.closed() => {}
                end = follow => {
                    core.nodes.lock().remove(&path);
                    sender.send_replace(Look::Failed(Arc::new(end.unwrap_or_else(|_| feed_panicked()))));
                }
            }
        });
        looks
    }

    /// Returns once nobody waits for `path` any more, and forgets it.
    async fn unwanted(&self, path: &str, sender: &watch::Sender<Look>) {
        loop {
            sender.closed().await;
            let mut nodes = self.nodes.lock();
            // Looked at under the lock: somebody may have come just now.
            if sender.receiver_count() == 0 {
                nodes.remove(path);
                return;
            }
        }
    }

    /// Keeps looking; returns the error that ends it.
    async fn follow(&self, path: &str, sender: &watch::Sender<Look>) -> Error {
        let mut backoff = Backoff::new(FEED_BACKOFF_MAX);
        loop {
            match self.look_and_watch(path).await {
                Ok((node, watch)) => {
                    sender.send_replace(Look::At(node));
                    backoff.reset();
                    // It fires for whatever happens after the look, and when the session ends.
                    watch.changed().await;
                }
                Err(error) if error.retry() == Retry::Safe => backoff.sleep(&self.runtime).await,
                Err(error) => return error,
            }
        }
    }

    async fn look_and_watch(&self, path: &str) -> Result<(Option<Node>, NodeWatch)> {
        let deadline = Instant::now() + self.settings.operation_timeout;
        let conn = self.one_shots().await?.conn(deadline).await?;
        conn.watch_node(deadline, path.to_owned()).await.map_err(Fault::into_error)
    }
}

/// The nodes that somebody waits for, each with its looks.
#[derive(Debug, Default)]
pub(crate) struct Nodes(Mutex<HashMap<String, watch::Sender<Look>>>);

impl Nodes {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Look>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Debug)]
enum Look {
    Unknown,
    At(Option<Node>),
    Failed(Arc<Error>),
}
