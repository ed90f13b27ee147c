//! Feeding the copy of a directory: a snapshot, then every change, then a snapshot again after a gap.

use std::{sync::Arc, time::Duration};

use coord_api::{
    Key, Revision,
    kit::{Backoff, Change, Hub, Hubs, Runtime},
};

use crate::{client::Client, line::entry, server::Batch};

/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Feeds `hub` until nobody uses it.
pub(crate) async fn feed(client: Client, hubs: Hubs, hub: Arc<Hub>, runtime: Runtime) {
    tokio::select! {
        biased;
        () = hubs.unused(&hub) => {}
        () = follow(&client, &hub, &runtime) => {}
    }
}

async fn follow(client: &Client, hub: &Hub, runtime: &Runtime) {
    let prefix = hub.dir().prefix();
    let mut backoff = Backoff::new(PAUSE_MAX);
    loop {
        // Subscribed before the snapshot is read: a change between the two would otherwise be in neither.
        if let Ok(mut changes) = client.subscribe()
            && let Ok((revision, rows)) = client.snapshot(&prefix).await
        {
            backoff.reset();
            hub.reset(Revision::new(revision), rows.iter().map(entry).collect());
            // What the snapshot has already is known by its revision, and the hub skips it.
            while let Some(batch) = changes.next().await {
                hub.apply(Revision::new(batch.revision), inside(hub, &batch));
            }
        }
        // A gap or an outage: what was missed is told as a new snapshot.
        backoff.sleep(runtime).await;
    }
}

/// The changes of a batch in the hub's directory and below; none still says how far the store is.
fn inside(hub: &Hub, batch: &Batch) -> Vec<Change> {
    let changes = batch.changes.iter().map(|(key, row)| match row {
        Some(row) => (Key::from_store(key), Change::Put(entry(row))),
        None => (Key::from_store(key), Change::Delete(Key::from_store(key))),
    });
    changes.filter(|(key, _)| hub.dir().contains(key)).map(|(_, change)| change).collect()
}
