//! The mirror of a tree: keys with their values, kept by one recursive watch and one read per change and key.

use std::sync::Arc;

use coord_api::{
    Dir, ErrorKind, Result, Retry,
    kit::{Backoff, Hub, HubRef},
};
use tokio::time::Instant;

use crate::{
    driver::{Conn, DirWatch, Fault, WatchEvent},
    feed::{FEED_BACKOFF_MAX, supervised},
    handle::Core,
    layout,
    replica::Replica,
    scan::scan,
};

/// Without revisions in events (before 3.9), how many rounds of reading may find new events before the whole tree
/// is read again.
const UNSETTLED_MAX: usize = 16;

impl Core {
    /// The mirror of `dir` and everything below, started if there is none.
    pub(crate) fn tree(self: &Arc<Self>, dir: &Dir) -> Result<HubRef> {
        self.ensure_open()?;
        let mirror = self.trees.get_or_start(
            dir,
            || Hub::new(dir.clone(), layout::order),
            |hub| {
                let core = Arc::clone(self);
                self.runtime.spawn(async move {
                    supervised(&hub, feed(&core, &hub), core.trees.unused(&hub)).await;
                    core.trees.forget(&hub);
                });
            },
        );
        // Closing ends the mirrors that it finds.
        self.ensure_open()?;
        Ok(mirror)
    }
}

/// Keeps the mirror; returns only with an error that is final.
async fn feed(core: &Arc<Core>, hub: &Arc<Hub>) -> Result<()> {
    let mut backoff = Backoff::new(FEED_BACKOFF_MAX);
    loop {
        let round = match core.base.conn(Instant::now() + core.settings.operation_timeout).await {
            Ok(conn) => Feed { core, hub, conn }.follow(&mut backoff).await,
            Err(error) => Err(error),
        };
        match round {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Closed || error.retry() == Retry::Never => {
                return Err(error);
            }
            Err(error) => tracing::debug!(dir = %hub.dir(), %error, "the watch of a directory waits"),
        }
        backoff.sleep(&core.runtime).await;
    }
}

/// The mirror on one connection, over its reconnects.
struct Feed<'f> {
    core: &'f Core,
    hub: &'f Hub,
    conn: Arc<Conn>,
}

/// How a round of following ended.
enum End {
    /// The server has forgotten the watch, or the events cannot be put in order: read everything again.
    Reload,
    SessionOver,
}

impl Feed<'_> {
    async fn follow(&self, backoff: &mut Backoff) -> Result<()> {
        loop {
            // First the watch, then the look: what changes between the two is told twice, not missed.
            let mut watch = self.start().await?;
            let mut replica = Replica::new(self.core.settings.paths.clone(), self.hub.dir().clone());
            let end = self.load(&mut watch, &mut replica).await?;
            let end = match end {
                None => {
                    backoff.reset();
                    self.stream(&mut watch, &mut replica).await?
                }
                Some(end) => end,
            };
            match end {
                End::SessionOver => return Ok(()),
                End::Reload => {}
            }
        }
    }

    async fn start(&self) -> Result<DirWatch> {
        let path = self.core.settings.paths.dir(self.hub.dir());
        self.conn.watch_tree(self.deadline(), path).await.map_err(Fault::into_error)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.core.settings.operation_timeout
    }

    /// Reads everything, and again what changed meanwhile, until the copy is that of one moment.
    async fn load(&self, watch: &mut DirWatch, replica: &mut Replica) -> Result<Option<End>> {
        if self.core.facts.standalone != Some(true) {
            self.conn.sync(self.deadline()).await.map_err(Fault::into_error)?;
        }
        let scanned = scan(&self.conn, &self.core.settings, self.hub.dir()).await?;
        replica.load(scanned);
        for _ in 0..UNSETTLED_MAX {
            if let Some(end) = drain(watch, replica) {
                return Ok(Some(end));
            }
            if replica.unread().is_empty() {
                break;
            }
            self.read(replica).await?;
        }
        let (revision, entries) = replica.snapshot();
        self.hub.reset(revision.max(self.hub.revision()), entries);
        Ok(None)
    }

    /// Follows the events: waits for some, reads what they concern, and tells what is complete.
    async fn stream(&self, watch: &mut DirWatch, replica: &mut Replica) -> Result<End> {
        let mut unsettled = 0;
        loop {
            if replica.unread().is_empty() {
                unsettled = 0;
                let event = watch.next().await;
                if let Some(end) = note(event, replica) {
                    return Ok(end);
                }
            }
            if let Some(end) = drain(watch, replica) {
                return Ok(end);
            }
            self.read(replica).await?;
            // What the reads show was told before their replies came: now the order is known.
            if let Some(end) = drain(watch, replica) {
                return Ok(end);
            }
            for (revision, change) in replica.take_complete() {
                self.hub.apply_at_least(revision, vec![change]);
            }
            if !replica.has_revisions() && !replica.unread().is_empty() {
                unsettled += 1;
                if unsettled > UNSETTLED_MAX {
                    return Ok(End::Reload);
                }
            }
        }
    }

    /// Reads what the events concern: each key once, however often it changed.
    async fn read(&self, replica: &mut Replica) -> Result<()> {
        use futures::{StreamExt, TryStreamExt, stream};
        let read: Vec<_> = stream::iter(replica.unread())
            .map(|path| async move {
                let found = match self.conn.get(self.deadline(), path.clone(), false).await {
                    Ok(found) => Some(found),
                    Err(Fault::NoNode) => None,
                    // What we may not see is not there for us.
                    Err(Fault::Error(error)) if error.kind() == ErrorKind::PermissionDenied => None,
                    Err(fault) => return Err(fault.into_error()),
                };
                Ok((path, found))
            })
            .buffer_unordered(crate::scan::READS_AT_ONCE)
            .try_collect()
            .await?;
        for (path, found) in read {
            replica.read(&path, found);
        }
        Ok(())
    }
}

fn drain(watch: &mut DirWatch, replica: &mut Replica) -> Option<End> {
    while let Some(event) = watch.try_next() {
        if let Some(end) = note(event, replica) {
            return Some(end);
        }
    }
    None
}

fn note(event: WatchEvent, replica: &mut Replica) -> Option<End> {
    match event {
        WatchEvent::Created(path, at) | WatchEvent::Changed(path, at) => replica.changed(path, at),
        WatchEvent::Deleted(path, at) => replica.deleted(&path, at),
        WatchEvent::Down => {}
        WatchEvent::Up => return Some(End::Reload),
        WatchEvent::Ended => return Some(End::SessionOver),
    }
    None
}
