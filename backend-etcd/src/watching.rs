//! `wait` and `watch`: readers of mirrors.

use std::{future, sync::Arc};

use coord_api::{
    Dir, OpContext, Result, Revision, Seen, Start, WatchEvent, WatchStream,
    kit::{Hub, HubRef},
};
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::watch;

use crate::{endpoints::closed, feed::Feed, names, read::CATCH_UP, store::Store};

/// Waits in the mirror of the directory, or of one above: a live one costs no call to the server.
pub(crate) async fn wait(store: &Arc<Store>, seen: &Seen) -> Result<()> {
    let dir = seen.dir();
    let hub = store.hubs.covering(&dir).unwrap_or_else(|| store.hub(&dir));
    hub.wait(seen).await
}

/// Streams the changes of a directory.
pub(crate) async fn watch(store: &Arc<Store>, ctx: &OpContext, dir: &Dir, start: Start) -> WatchStream {
    match start {
        Start::Snapshot => {
            let hub = store.hub(dir);
            // The snapshot shows what this handle wrote. A mirror that does not get there shows it later.
            let patience = ctx.remaining(CATCH_UP).min(CATCH_UP);
            let _ = tokio::time::timeout(patience, hub.reached(store.own_writes.needed(&hub))).await;
            hub.into_watch(Start::Snapshot)
        }
        Start::After(after) => {
            let changes = match store.hubs.live(dir).and_then(|hub| from_log(hub, after)) {
                Some(changes) => changes,
                None => from_history(store, dir, after),
            };
            newer(changes, after)
        }
    }
}

/// The changes from the memory of a live mirror; `None` if it does not go back that far.
fn from_log(hub: HubRef, after: Revision) -> Option<WatchStream> {
    // A mirror that is not loaded yet would answer with a snapshot later.
    if hub.revision() == Revision::ZERO {
        return None;
    }
    let mut changes = hub.into_watch(Start::After(after));
    match changes.next().now_or_never() {
        // What it does not remember it answers with a snapshot, at once.
        Some(Some(Ok(WatchEvent::Snapshot { .. }) | Err(_)) | None) => None,
        Some(Some(first)) => Some(stream::iter([first]).chain(changes).boxed()),
        None => Some(changes),
    }
}

/// The changes from the history of the store, by a watch of its own.
fn from_history(store: &Arc<Store>, dir: &Dir, after: Revision) -> WatchStream {
    let hub = Arc::new(Hub::new(dir.clone(), names::order));
    hub.resume_after(after);
    let feed = Feed::new(Arc::clone(store), Arc::clone(&hub), Some(after));
    let mut ending = store.ending();
    // Dropped with the stream.
    let (alive, mut reader) = watch::channel(());
    let watched = Arc::clone(&hub);
    store.runtime.spawn(async move {
        tokio::select! {
            biased;
            () = ending.wait() => hub.fail(closed()),
            _ = reader.changed() => {}
            () = feed.run() => {}
        }
    });
    watched.watch(Start::After(after)).inspect(move |_| _ = &alive).boxed()
}

/// Leaves out what the watcher knows: a mirror that lags behind `after` still has that before it.
fn newer(changes: WatchStream, after: Revision) -> WatchStream {
    changes
        .filter(move |event| {
            let known = matches!(event, Ok(event)
                if event.revision() <= after && !matches!(event, WatchEvent::Snapshot { .. }));
            future::ready(!known)
        })
        .boxed()
}
