//! Caches.

use std::{collections::BTreeMap, time::Duration};

use coord_api::{Entry, Lifetime};
use coord_recipes::{Cache as Copy, CacheEvent, Change, Listener, Snapshot};

use super::{BASE, of_data};
use crate::{
    checkers::{cache, facts::Cache},
    sim::{
        client::Client,
        faults::Kind,
        recorder::fingerprint,
        run::{Rule, Scenario, all_but},
    },
};

const DIR: &str = "/tree/";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("mirror", cache)];

/// Writers of a tree, each with a cache of it, a listener and readers.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 14,
    faults: all_but(&[Kind::EarlyWake, Kind::Expiry, Kind::FastClock, Kind::LastReply, Kind::StaleRead]),
    dirs: &["/tree/a", "/tree/b"],
    keeps: |key| key.starts_with(DIR),
    ..of_data(
        "cache",
        "caches: what a listener is told makes the tree, and reads never go back",
        RULES,
        |me| Box::pin(client(me)),
    )
};

async fn client(me: Client) {
    let Ok(copy) = Copy::tree(me.coord(), "/tree") else { return };
    let id = me.next_id();
    me.record(Cache::Opened { cache: id, dir: DIR.to_owned() });
    me.node().if_killed(Cache::Closed { cache: id });
    let listening = me.node().runtime.spawn(listen(me.clone(), id, copy.listen()));
    // Before that there is nothing to read.
    let _ = copy.ready().await;
    for _ in 0..me.steps() {
        me.idle(0, 500).await;
        let _ = me.perhaps_cancelled(write(&me)).await;
        read(&me, id, &copy.snapshot());
    }
    // Until everything was told.
    tokio::time::sleep(Duration::from_secs(30)).await;
    read(&me, id, &copy.snapshot());
    listening.abort();
}

/// What comes of it the caches tell.
async fn write(me: &Client) {
    let dir = if me.chance(500) { "a" } else { "b" };
    let key = format!("{DIR}{dir}/{}", me.range(0, 3));
    let value = me.next_id().to_string();
    let _ = match me.range(0, 4) {
        0 => me.coord().delete(key).await.map(drop),
        1 => me.coord().create(key, value, Lifetime::Persistent).await.map(drop),
        _ => me.coord().put(key, value).await.map(drop),
    };
}

fn read(me: &Client, cache: u64, snapshot: &Snapshot) {
    let entries: BTreeMap<_, _> = snapshot
        .iter()
        .map(|entry| (entry.key.to_string(), (entry.meta.modified.get(), value(entry))))
        .collect();
    me.record(Cache::Read { cache, revision: snapshot.revision().get(), entries });
}

async fn listen(me: Client, cache: u64, mut listener: Listener) {
    while let Some(event) = listener.next().await {
        match event {
            CacheEvent::Initialized { entries } => {
                for entry in &entries {
                    put(&me, cache, None, entry);
                }
                me.record(Cache::Initialised { cache });
            }
            CacheEvent::Changed(change) => changed(&me, cache, &change),
            CacheEvent::Resynced { changes } => {
                for change in &changes {
                    changed(&me, cache, change);
                }
                me.record(Cache::Resynced { cache });
            }
        }
    }
}

fn changed(me: &Client, cache: u64, change: &Change) {
    match change {
        Change::Put { old, new } => put(me, cache, old.as_ref(), new),
        Change::Delete { old } => {
            me.record(Cache::Deleted { cache, key: old.key.to_string(), old: value(old) });
        }
    }
}

fn put(me: &Client, cache: u64, old: Option<&Entry>, new: &Entry) {
    let (key, revision) = (new.key.to_string(), new.meta.modified.get());
    me.record(Cache::Put { cache, key, old: old.map(value), new: value(new), revision });
}

fn value(entry: &Entry) -> u64 {
    fingerprint(&entry.value)
}
