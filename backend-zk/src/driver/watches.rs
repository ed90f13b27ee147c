//! Watches, each counted against the session's budget of watched path bytes.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};

use coord_api::{Error, ErrorKind, Revision};
use futures::FutureExt;
use tokio::time::Instant;
use zookeeper_client as zk;

use super::{Conn, Effect, Fault, Link, Node, WATCHED_BYTES_MAX, link_of, revision};

/// What a recursive watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchEvent {
    /// A node came, with the revision if the server tells it (3.9 and newer).
    Created(String, Option<Revision>),
    /// A node's value changed.
    Changed(String, Option<Revision>),
    /// A node went.
    Deleted(String, Option<Revision>),
    /// The connection is down.
    Down,
    /// The connection is up again, and the server has forgotten this watch.
    Up,
    /// The session is over.
    Ended,
}

/// A recursive watch of one path.
///
/// The driver does not renew it after a reconnect: on [`WatchEvent::Up`] make a new one, then read.
#[derive(Debug)]
pub(crate) struct DirWatch {
    events: zk::PersistentWatcher,
    ended: bool,
    _budget: Budget,
}

impl DirWatch {
    /// The next event. Safe to cancel. After [`WatchEvent::Ended`] it repeats that.
    pub(crate) async fn next(&mut self) -> WatchEvent {
        if self.ended {
            return WatchEvent::Ended;
        }
        let event = event(self.events.changed().await);
        self.ended = event == WatchEvent::Ended;
        event
    }

    /// The next event if it is here already.
    pub(crate) fn try_next(&mut self) -> Option<WatchEvent> {
        self.next().now_or_never()
    }
}

fn event(event: zk::WatchedEvent) -> WatchEvent {
    let at = (event.zxid > 0).then(|| revision(event.zxid));
    match event.event_type {
        zk::EventType::NodeCreated => WatchEvent::Created(event.path, at),
        zk::EventType::NodeDeleted => WatchEvent::Deleted(event.path, at),
        zk::EventType::NodeDataChanged | zk::EventType::NodeChildrenChanged => {
            WatchEvent::Changed(event.path, at)
        }
        zk::EventType::Session => match link_of(event.session_state) {
            Link::Up => WatchEvent::Up,
            Link::Down => WatchEvent::Down,
            Link::Ended(_) => WatchEvent::Ended,
        },
    }
}

/// One node with a one-shot watch on it.
#[derive(Debug)]
pub(crate) struct NodeWatch {
    watcher: zk::OneshotWatcher,
    _budget: Budget,
}

impl NodeWatch {
    /// Resolves when the node was changed, created or deleted, or the session ended.
    pub(crate) async fn changed(self) {
        self.watcher.changed().await;
    }
}

impl Conn {
    /// Watches everything at and below `path`, which need not be there.
    pub(crate) async fn watch_tree(
        self: &Arc<Self>,
        deadline: Instant,
        path: String,
    ) -> Result<DirWatch, Fault> {
        let budget = self.budget(&path)?;
        let events = self
            .call(deadline, Effect::Read, |client| async move {
                client.watch(&path, zk::AddWatchMode::PersistentRecursive).await
            })
            .await?;
        Ok(DirWatch { events, ended: false, _budget: budget })
    }

    /// Looks at a node and watches it, present or absent.
    pub(crate) async fn watch_node(
        self: &Arc<Self>,
        deadline: Instant,
        path: String,
    ) -> Result<(Option<Node>, NodeWatch), Fault> {
        let budget = self.budget(&path)?;
        let (stat, watcher) = self
            .call(deadline, Effect::Read, |client| async move { client.check_and_watch_stat(&path).await })
            .await?;
        Ok((stat.as_ref().map(Node::from_stat), NodeWatch { watcher, _budget: budget }))
    }

    fn budget(self: &Arc<Self>, path: &str) -> Result<Budget, Error> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = watched.counts.get_mut(path) {
            *count += 1;
        } else {
            let bytes = watched.bytes + path.len();
            if bytes > WATCHED_BYTES_MAX {
                return Err(Error::new(ErrorKind::LimitExceeded, "too many paths are watched at once")
                    .with_context("bytes", bytes)
                    .with_context("limit", WATCHED_BYTES_MAX));
            }
            watched.bytes = bytes;
            watched.counts.insert(path.to_owned(), 1);
        }
        Ok(Budget { conn: Arc::clone(self), path: path.to_owned() })
    }
}

/// The paths that one session watches: the driver renews each once.
#[derive(Debug, Default)]
pub(super) struct Watched {
    counts: HashMap<String, usize>,
    bytes: usize,
}

/// A path's place in the session's budget.
#[derive(Debug)]
struct Budget {
    conn: Arc<Conn>,
    path: String,
}

impl Drop for Budget {
    fn drop(&mut self) {
        let mut watched = self.conn.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = watched.counts.get_mut(&self.path) {
            *count -= 1;
            if *count == 0 {
                watched.counts.remove(&self.path);
                watched.bytes -= self.path.len();
            }
        }
    }
}
