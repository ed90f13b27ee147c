//! Joining the line of a directory.

use std::sync::Arc;

use coord_api::{
    Dir, Error, ErrorKind, Key, Lifetime, Listing, OpContext, Ordered, OrderedCreate, Result, Retry,
    kit::HubRef,
};
use etcd_client::{
    Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp,
    proto::{PbRangeResponse, PbTxnOpResponse},
};

use crate::{
    error::{Call, broken},
    names,
    paths::Range,
    read::{CATCH_UP, listing, mirrored},
    scan::{Scan, Want, rest, revision, scan},
    store::Store,
};

/// How much of a line comes with the reply; the rest is read after it.
const PAGE: i64 = 5_000;

/// What the store answered.
struct Joined {
    /// The revision that created the entry.
    created: i64,
    /// The first page of the line, if it was asked for, and whether there is more.
    line: Option<(Scan, bool)>,
}

/// The line around an entry.
struct Line {
    listing: Listing,
    /// A key that is no text stands before the entry: nobody can wait for it.
    blocked: bool,
}

/// Puts the entry if it is not there, and reads the line: in the same transaction, or from the mirror if there is one.
pub(crate) async fn create(store: &Arc<Store>, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
    let held = store.owner(ctx)?;
    // Not checked against the length of a key: the caller's directory was, and the name behind it is ours.
    let place = names::place(held.id(), req.lifetime, &req.tag, req.nonce);
    let key = Key::from_store(&format!("{}{place}", req.dir.prefix()));
    let lease = match req.lifetime {
        Lifetime::Session => held.lease(),
        Lifetime::Persistent => 0,
    };
    // Held to the end, so that the mirror does not go away in between.
    let hub = store.hubs.covering(&req.dir);
    let joined = join(store, &req, &key, lease, hub.is_none()).await?;
    store.own_writes.note(&store.hubs, [&key], revision(joined.created));

    let mirrored = match &hub {
        Some(hub) => from_mirror(store, ctx, hub, &req.dir, joined.created).await,
        None => None,
    };
    let line = match mirrored {
        Some(line) => line,
        None => from_store(store, &req.dir, joined.line, joined.created).await?,
    };
    if line.blocked {
        return Err(leave(store, &key, joined.created).await);
    }
    Ok(Ordered::new(key, revision(joined.created), Some(line.listing)))
}

async fn join(
    store: &Arc<Store>,
    req: &OrderedCreate,
    key: &Key,
    lease: i64,
    with_line: bool,
) -> Result<Joined> {
    let name = store.paths.encode(key);
    let put = TxnOp::put(name.clone(), req.value.to_vec(), Some(PutOptions::new().with_lease(lease)));
    let own = TxnOp::get(name.clone(), Some(GetOptions::new().with_keys_only()));
    let line = |range: Range| {
        let options = GetOptions::new().with_range(range.end).with_keys_only().with_limit(PAGE);
        TxnOp::get(range.start, Some(options))
    };
    let (mut joining, mut finding) = (vec![put], vec![own]);
    if with_line {
        joining.push(line(store.paths.range(&req.dir)));
        finding.push(line(store.paths.range(&req.dir)));
    }
    let txn = Txn::new()
        .when([Compare::create_revision(name, CompareOp::Equal, 0)])
        .and_then(joining)
        .or_else(finding);
    let sending = store.endpoints.call(Call::Write, move |connection| {
        let txn = txn.clone();
        async move { connection.kv().txn(txn).await }
    });
    let answer = sending.await?.0;
    let header = answer.header.ok_or_else(|| broken("an answer of etcd has no header"))?;

    let mut ranges = answer.responses.into_iter().filter_map(|op| match op.response {
        Some(PbTxnOpResponse::ResponseRange(range)) => Some(range),
        _ => None,
    });
    let created = if answer.succeeded {
        header.revision
    } else {
        let own = ranges.next().and_then(|range| range.kvs.into_iter().next());
        own.ok_or_else(|| broken("etcd found an entry and does not show it"))?.create_revision
    };
    let page = |range: PbRangeResponse| (Scan { kvs: range.kvs, revision: header.revision }, range.more);
    Ok(Joined { created, line: ranges.next().map(page) })
}

/// The line from the mirror once it shows the entry, and with it all that stood there before; `None` if it does not
/// get there, or cannot tell the order.
async fn from_mirror(store: &Store, ctx: &OpContext, hub: &HubRef, dir: &Dir, created: i64) -> Option<Line> {
    let patience = ctx.remaining(CATCH_UP).min(CATCH_UP) / 2;
    tokio::time::timeout(patience, hub.reached(revision(created))).await.ok()?.ok()?;
    let blocked = store.unreadable.any_before(hub.dir(), &store.paths.range(dir), created);
    Some(Line { listing: mirrored(hub, dir)?, blocked })
}

/// The line from the store, of which the first page may be known.
async fn from_store(
    store: &Arc<Store>,
    dir: &Dir,
    first: Option<(Scan, bool)>,
    created: i64,
) -> Result<Line> {
    let range = store.paths.range(dir);
    let all = match first {
        Some((all, false)) => all,
        Some((page, true)) => {
            let behind = page.kvs.last().map_or_else(|| range.clone(), |kv| range.after(&kv.key));
            match rest(&store.endpoints, behind, Want::Names, page).await {
                Err(failure) if failure.compacted => scan(&store.endpoints, range, Want::Names).await,
                result => result,
            }
            .map_err(after_joining)?
        }
        None => scan(&store.endpoints, range, Want::Names).await.map_err(after_joining)?,
    };
    let (listing, unreadable) = listing(store, dir, all);
    Ok(Line { listing, blocked: unreadable.iter().any(|other| *other < created) })
}

/// The entry is there, so the call as a whole was applied in part; with the same nonce it finds it again.
fn after_joining(failure: crate::error::Failure) -> Error {
    failure.error.with_retry(Retry::Ambiguous)
}

/// Takes the entry back: the line cannot be judged, and a lock must not be granted over what cannot be seen.
async fn leave(store: &Arc<Store>, key: &Key, created: i64) -> Error {
    let name = store.paths.encode(key);
    let txn = Txn::new()
        .when([Compare::create_revision(name.clone(), CompareOp::Equal, created)])
        .and_then([TxnOp::delete(name, None)]);
    let sending = store.endpoints.call(Call::Write, move |connection| {
        let txn = txn.clone();
        async move { connection.kv().txn(txn).await }
    });
    let retry = match sending.await {
        Ok(answer) => {
            let at = answer.0.header.map_or(0, |header| header.revision);
            if answer.0.succeeded {
                store.own_writes.note(&store.hubs, [key], revision(at));
            }
            Retry::Never
        }
        Err(_) => Retry::Ambiguous,
    };
    Error::new(ErrorKind::Malformed, "a key of others that is not UTF-8 stands in the line")
        .with_retry(retry)
        .with_context("key", key)
}
