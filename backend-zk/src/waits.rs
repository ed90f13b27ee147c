//! Waiting until something seen is no longer true.

use std::sync::Arc;

use coord_api::{
    Freshness, Key, Result, Retry, Revision, Seen,
    kit::{Backoff, HubRef},
};
use tokio::time::Instant;

use crate::{
    base::Base,
    driver::{Fault, Node, NodeWatch},
    feed::FEED_BACKOFF_MAX,
    handle::{Core, is_directory},
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
    async fn wait_key(&self, key: &Key, line: Option<HubRef>) -> Result<()> {
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

    /// Waits until the node of `key` is as `done` wants it, by one-shot watches.
    async fn wait_node(&self, key: &Key, done: impl Fn(Option<Node>) -> bool) -> Result<()> {
        let path = self.settings.paths.key(key);
        let mut backoff = Backoff::new(FEED_BACKOFF_MAX);
        loop {
            let base = self.one_shots().await?;
            match self.look_and_watch(&base, &path).await {
                Ok((node, _)) if done(node) => return Ok(()),
                // It fires for whatever happens after the look, and when the session ends.
                Ok((_, watch)) => {
                    watch.changed().await;
                    backoff.reset();
                }
                Err(error) if error.retry() == Retry::Safe => backoff.sleep(&self.runtime).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn look_and_watch(&self, base: &Base, path: &str) -> Result<(Option<Node>, NodeWatch)> {
        let deadline = Instant::now() + self.settings.operation_timeout;
        let conn = base.conn(deadline).await?;
        conn.watch_node(deadline, path.to_owned()).await.map_err(Fault::into_error)
    }
}
