//! The mirror of a line: the names in one directory, kept by one recursive watch for the whole process.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use coord_api::{
    Dir, Entry, Error, ErrorKind, Key, Listing, Meta, Result, Retry, Revision, Version,
    kit::{Backoff, Change, Hub, HubRef},
};
use futures::FutureExt;
use tokio::time::Instant;

use crate::{
    driver::{Conn, DirWatch, WatchEvent},
    feed::{FEED_BACKOFF_MAX, supervised},
    handle::{Core, absent_since, found},
    layout,
};

/// What this handle did to a directory and its mirror does not show yet: for each key the revision of its creation,
/// or `None` for a deletion.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites(Mutex<HashMap<Dir, HashMap<Key, Option<Revision>>>>);

impl OwnWrites {
    fn lock(&self) -> MutexGuard<'_, HashMap<Dir, HashMap<Key, Option<Revision>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a mirror has come to a write of ours.
fn shows(mirror: &Hub, key: &Key, created: Option<Revision>) -> bool {
    match created {
        // Deleted by somebody else since, the key will never show; the revision does.
        Some(revision) => mirror.contains(key) || mirror.revision() >= revision,
        None => !mirror.contains(key),
    }
}

impl Core {
    /// Notes an acknowledged write of ours, so that a listing from a mirror does not come before it.
    pub(crate) fn note_own(&self, key: &Key, created: Option<Revision>) {
        let dir = key.parent();
        let Some(mirror) = self.lines.live(&dir) else { return };
        // A mirror that is being loaded may still get a listing from before the write.
        if !is_loaded(&mirror) || !shows(&mirror, key, created) {
            self.own_writes.lock().entry(dir).or_default().insert(key.clone(), created);
        }
    }

    /// The mirror of `dir`, if there is one and it is whole. Does not start one.
    pub(crate) fn loaded_line(&self, dir: &Dir) -> Option<HubRef> {
        let mirror = self.lines.live(dir)?;
        is_loaded(&mirror).then_some(mirror)
    }

    /// The listing of `dir` from its mirror, if there is one that shows all that this handle did.
    pub(crate) fn listing_from_mirror(&self, dir: &Dir) -> Option<Listing> {
        let mirror = self.loaded_line(dir)?;
        let mut noted = self.own_writes.lock();
        if let Some(writes) = noted.get_mut(dir) {
            writes.retain(|key, created| !shows(&mirror, key, *created));
            if !writes.is_empty() {
                return None;
            }
            noted.remove(dir);
        }
        drop(noted);
        Some(mirror.listing(dir))
    }

    /// The mirror of `dir`, started if there is none.
    pub(crate) fn line(self: &Arc<Self>, dir: &Dir) -> Result<HubRef> {
        self.ensure_open()?;
        let mirror = self.lines.get_or_start(
            dir,
            || Hub::new(dir.clone(), layout::order),
            |hub| {
                let core = Arc::clone(self);
                self.runtime.spawn(async move {
                    supervised(&hub, feed(&core, &hub), core.lines.unused(&hub)).await;
                    core.lines.forget(&hub);
                    core.own_writes.lock().remove(hub.dir());
                });
            },
        );
        // Closing ends the mirrors that it finds.
        self.ensure_open()?;
        Ok(mirror)
    }
}

fn is_loaded(mirror: &Hub) -> bool {
    matches!(mirror.reached(Revision::ZERO).now_or_never(), Some(Ok(())))
}

/// Keeps the mirror; returns only with an error that is final.
async fn feed(core: &Arc<Core>, hub: &Arc<Hub>) -> Result<()> {
    let path = core.settings.paths.dir(hub.dir());
    let mut backoff = Backoff::new(FEED_BACKOFF_MAX);
    let mut loaded = false;
    loop {
        let conn = core.base.conn(Instant::now() + core.settings.operation_timeout).await;
        let round = match conn {
            Ok(conn) => follow(core, hub, &conn, &path, &mut loaded, &mut backoff).await,
            Err(error) => Err(error),
        };
        match round {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Closed || error.retry() == Retry::Never => {
                return Err(error);
            }
            Err(error) => tracing::debug!(dir = %hub.dir(), %error, "the mirror of a directory waits"),
        }
        backoff.sleep(&core.runtime).await;
    }
}

/// Follows the directory on one connection, over its reconnects; `Ok` when its session is over.
async fn follow(
    core: &Core,
    hub: &Hub,
    conn: &Arc<Conn>,
    path: &str,
    loaded: &mut bool,
    backoff: &mut Backoff,
) -> Result<()> {
    let mut watch = start(core, conn, path).await?;
    let mut floor = load(core, hub, conn, path, loaded).await?;
    backoff.reset();
    loop {
        match watch.next().await {
            WatchEvent::Ended => return Ok(()),
            WatchEvent::Down => {}
            WatchEvent::Up => {
                // The server has forgotten the watch, and nobody tells what was missed.
                watch = start(core, conn, path).await?;
                floor = load(core, hub, conn, path, loaded).await?;
            }
            WatchEvent::Changed(..) => {}
            WatchEvent::Created(at, Some(revision)) => {
                if let Some(key) = direct(core, hub.dir(), &at)
                    && revision > floor
                {
                    hub.apply_at_least(revision, vec![Change::Put(entry(key))]);
                }
            }
            WatchEvent::Deleted(at, Some(revision)) => {
                if let Some(key) = direct(core, hub.dir(), &at)
                    && revision > floor
                {
                    hub.apply_at_least(revision, vec![Change::Delete(key)]);
                }
            }
            // A server before 3.9 does not tell when: what is in the mirror already cannot be known.
            WatchEvent::Created(at, None) | WatchEvent::Deleted(at, None) => {
                let mut concerns_us = direct(core, hub.dir(), &at).is_some();
                while let Some(event) = watch.try_next() {
                    match event {
                        WatchEvent::Ended => return Ok(()),
                        WatchEvent::Up => {
                            watch = start(core, conn, path).await?;
                            concerns_us = true;
                        }
                        WatchEvent::Created(at, _) | WatchEvent::Deleted(at, _) => {
                            concerns_us |= direct(core, hub.dir(), &at).is_some();
                        }
                        WatchEvent::Down | WatchEvent::Changed(..) => {}
                    }
                }
                if concerns_us {
                    floor = load(core, hub, conn, path, loaded).await?;
                }
            }
        }
    }
}

async fn start(core: &Core, conn: &Arc<Conn>, path: &str) -> Result<DirWatch> {
    let deadline = Instant::now() + core.settings.operation_timeout;
    conn.watch_tree(deadline, path.to_owned()).await.map_err(crate::driver::Fault::into_error)
}

/// Reads the names and brings the mirror up to them; returns the revision that this includes.
async fn load(core: &Core, hub: &Hub, conn: &Conn, path: &str, loaded: &mut bool) -> Result<Revision> {
    let deadline = Instant::now() + core.settings.operation_timeout;
    // Synced: the mirror must not begin before a write that this handle has seen acknowledged elsewhere.
    let several = core.facts.standalone != Some(true);
    let children = found(conn.children(deadline, path.to_owned(), several).await)?;
    let (names, floor, reached) = match children {
        Some((names, node)) => (names, node.children_modified, node.children_modified),
        // No event is old news then: the directory may be back since the look above it.
        None => (Vec::new(), Revision::ZERO, absent_since(conn, deadline, path).await?),
    };
    let keys: BTreeSet<Key> =
        names.iter().filter_map(|name| core.settings.paths.child(hub.dir(), name)).collect();
    let revision = reached.max(hub.revision());
    if std::mem::replace(loaded, true) {
        // Differences wake only those whom they concern.
        let shown: BTreeSet<Key> =
            hub.listing(hub.dir()).children.into_iter().map(|child| child.key).collect();
        let changes = shown.symmetric_difference(&keys).map(|key| match keys.contains(key) {
            true => Change::Put(entry(key.clone())),
            false => Change::Delete(key.clone()),
        });
        hub.apply_at_least(revision, changes.collect());
    } else {
        hub.reset(revision, keys.into_iter().map(entry).collect());
    }
    Ok(floor)
}

/// The key of a direct child; what is further below has no place in the line.
fn direct(core: &Core, dir: &Dir, path: &str) -> Option<Key> {
    core.settings.paths.to_key(path).filter(|key| key.parent() == *dir)
}

/// A name in the mirror: values and revisions are not read.
fn entry(key: Key) -> Entry {
    Entry::new(key, Bytes::new(), Meta::new(Revision::ZERO, Revision::ZERO, Version::new(0), None))
}

/// The error for those who wait when a feed gives up for a reason that it does not know.
pub(crate) fn feed_panicked() -> Error {
    Error::new(ErrorKind::Unexpected, "the watch of a directory broke")
}
