//! `get` and `list`.

use std::{sync::Arc, time::Duration};

use coord_api::{Dir, Entry, Freshness, Key, Listing, OpContext, Result, kit::HubRef};

use crate::{
    error::{Call, broken},
    names,
    scan::{Scan, Want, entry, revision, scan},
    store::Store,
};

/// How long a mirror may take to catch up before the store is asked instead.
pub(crate) const CATCH_UP: Duration = Duration::from_secs(5);

/// Reads one key, linearizable.
pub(crate) async fn get(store: &Arc<Store>, key: &Key) -> Result<Option<Entry>> {
    let name = store.paths.encode(key);
    let reading = store.endpoints.call(Call::Read, move |connection| {
        let name = name.clone();
        async move { connection.kv().get(name, None).await }
    });
    let found = reading.await?.0.kvs.into_iter().next();
    match found {
        Some(kv) => entry(&store.paths, kv).map(Some).ok_or_else(|| broken("etcd answered for another key")),
        None => Ok(None),
    }
}

/// Lists a directory: from its mirror if there is one and it is fresh enough, else from the store.
pub(crate) async fn list(store: &Arc<Store>, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
    if ctx.freshness == Freshness::Session
        && let Some(hub) = store.hubs.covering(dir)
        && !store.own_writes.may_lag(&hub)
    {
        let seen = hub.reached(store.own_writes.needed(&hub));
        // A mirror that is slow or broken is no reason to fail.
        if let Ok(Ok(())) = tokio::time::timeout(ctx.remaining(CATCH_UP).min(CATCH_UP) / 2, seen).await
            && let Some(listing) = mirrored(&hub, dir)
        {
            return Ok(listing);
        }
    }
    let all = scan(&store.endpoints, store.paths.range(dir), Want::Names).await?;
    let (listing, unreadable) = listing(store, dir, all);
    if !unreadable.is_empty() {
        tracing::warn!(%dir, keys = unreadable.len(), "left out keys of others that are not UTF-8");
    }
    Ok(listing)
}

/// The mirror's listing, unless it cannot tell the order of a line that has keys in directories below.
pub(crate) fn mirrored(hub: &HubRef, dir: &Dir) -> Option<Listing> {
    let no_line = |listing: &Listing| listing.children.iter().all(|child| child.tag.is_none());
    hub.flat_listing(dir).or_else(|| Some(hub.listing(dir)).filter(no_line))
}

/// The listing of `dir` from all keys below it, and the creation revisions of the keys that are no text.
pub(crate) fn listing(store: &Store, dir: &Dir, all: Scan) -> (Listing, Vec<i64>) {
    let mut keys = Vec::with_capacity(all.kvs.len());
    let mut unreadable = Vec::new();
    for kv in all.kvs {
        match store.paths.decode(&kv.key) {
            Some(key) => keys.push((key, kv.create_revision)),
            None => unreadable.push(kv.create_revision),
        }
    }
    (Listing::new(names::children(dir, keys), revision(all.revision)), unreadable)
}
