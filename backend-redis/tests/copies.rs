//! Listings from the copy of a directory: as fresh as promised, and none of the server's work.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::{sync::Arc, time::Duration};

use common::*;
use coord_api::{
    Backend, Freshness, Key, Lifetime, Listing, Nonce, OrderedCreate, Start, Tag, Txn, WatchStream,
};
use coord_testbed::Server;
use futures::StreamExt;

const SOON: Duration = Duration::from_secs(5);

fn place(nonce: u128) -> OrderedCreate {
    let (tag, nonce) = (Tag::new("lock-").unwrap(), Nonce::new(nonce));
    OrderedCreate { dir: dir("/line"), tag, nonce, value: "".into(), lifetime: Lifetime::Session }
}

async fn commit(backend: &Arc<dyn Backend>, txn: Txn) {
    assert!(backend.commit(&ctx(), txn).await.unwrap().is_committed());
}

/// Somebody watches the directory: there is a copy of it, and it is whole.
async fn copied(backend: &Arc<dyn Backend>, path: &str) -> WatchStream {
    let mut watch = backend.watch(&ctx(), &dir(path), Start::Snapshot).await.unwrap();
    within("a snapshot", SOON, watch.next()).await.unwrap().unwrap();
    watch
}

fn shows(listing: &Listing, key: &Key) -> bool {
    listing.children.iter().any(|child| child.key == *key)
}

/// How many scripts the server has run, those of ticks and renewals too.
async fn scripts(server: &Server) -> u64 {
    let text: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut raw(server).await).await.unwrap();
    let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    line.split_once("calls=").unwrap().1.split(',').next().unwrap().parse().unwrap()
}

/// Ends the connection that reads the log, once it is there.
async fn kill_reader(conn: &mut redis::aio::MultiplexedConnection) {
    let id = until("a reader of the log", SOON, || {
        let mut conn = conn.clone();
        async move {
            let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut conn).await.unwrap();
            let reader = list.lines().find(|line| line.contains("cmd=xread"))?;
            Some(reader.split_once("id=")?.1.split(' ').next()?.to_owned())
        }
    })
    .await;
    tell(conn, &["CLIENT", "KILL", "ID", &id]).await.unwrap();
}

on_all! {
/// The race: the reply of a write comes over another connection than the log, and mostly before it.
async fn a_copy_shows_what_this_handle_wrote_before_it_answers(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let _watch = copied(&backend, "/line").await;
    let (_session, mine) = session(&backend, 30_000).await;
    for nonce in 0..200 {
        let path = key(&format!("/line/k{nonce}"));
        commit(&backend, Txn::new().put(path.clone(), "")).await;
        assert!(shows(&backend.list(&ctx(), &dir("/line")).await.unwrap(), &path), "a put, {nonce}");
        commit(&backend, Txn::new().delete(path.clone())).await;
        assert!(!shows(&backend.list(&ctx(), &dir("/line")).await.unwrap(), &path), "a deletion, {nonce}");
        let joined = backend.create_ordered(&mine, place(nonce)).await.unwrap();
        assert!(shows(&backend.list(&ctx(), &dir("/line")).await.unwrap(), &joined.key), "a join, {nonce}");
        commit(&backend, Txn::new().delete(joined.key)).await;
    }
}
}

on_all! {
async fn a_copy_shows_that_a_session_was_closed_before_it_answers(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let _watch = copied(&backend, "/line").await;
    for nonce in 0..100 {
        let (session, mine) = session(&backend, 30_000).await;
        let joined = backend.create_ordered(&mine, place(nonce)).await.unwrap();
        session.close().await.unwrap();
        assert!(!shows(&backend.list(&ctx(), &dir("/line")).await.unwrap(), &joined.key), "{nonce}");
    }
}
}

on_all! {
async fn a_listing_from_a_copy_costs_the_server_nothing_and_the_latest_is_asked_for(which: Which) {
    const LISTINGS: u64 = 100;
    let server = plain(which).await;
    let backend = open(&server).await;
    let _watch = copied(&backend, "/line").await;
    commit(&backend, Txn::new().put(key("/line/a"), "")).await;
    let before = scripts(&server).await;
    for _ in 0..LISTINGS {
        assert!(shows(&backend.list(&ctx(), &dir("/line")).await.unwrap(), &key("/line/a")));
    }
    let ran = scripts(&server).await - before;
    assert!(ran < LISTINGS / 2, "{ran} scripts for {LISTINGS} listings");

    let (latest, before) = (ctx().with_freshness(Freshness::Latest), scripts(&server).await);
    for _ in 0..LISTINGS {
        backend.list(&latest, &dir("/line")).await.unwrap();
    }
    assert!(scripts(&server).await - before >= LISTINGS, "the latest is asked for");
}
}

on_all! {
async fn what_the_store_showed_once_a_lagging_copy_does_not_take_back(which: Which) {
    let server = plain(which).await;
    let (backend, other) = (open(&server).await, open(&server).await);
    let _watch = copied(&backend, "/line").await;
    let latest = ctx().with_freshness(Freshness::Latest);
    let mut conn = raw(&server).await;
    for i in 0..10 {
        // The copy hears of nothing until its connection is made again.
        kill_reader(&mut conn).await;
        let path = key(&format!("/line/o{i}"));
        commit(&other, Txn::new().put(path.clone(), "")).await;
        let listing = backend.list(&latest, &dir("/line")).await.unwrap();
        assert!(shows(&listing, &path), "{i}");
        let again = backend.list(&ctx(), &dir("/line")).await.unwrap();
        assert!(shows(&again, &path) && again.revision >= listing.revision, "{i}");
    }
}
}

on_all! {
async fn a_join_tells_the_whole_line_however_long_it_is(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let (_session, mine) = session(&backend, 30_000).await;
    let _watch = copied(&backend, "/line").await;
    // Short ones come with the reply, longer ones from the copy.
    for nonce in 0..70 {
        let joined = backend.create_ordered(&mine, place(nonce)).await.unwrap();
        let line = joined.line.unwrap();
        assert_eq!(line.position(&joined.key), Some(line.children.len() - 1), "{nonce}");
        assert_eq!(line.children.len() as u128, nonce + 1);
        assert!(line.revision >= joined.created);
    }
}
}

on_all! {
async fn a_copy_that_never_comes_does_not_hold_up_a_listing(which: Which) {
    let server = plain(which).await;
    let mut conn = raw(&server).await;
    // May do all but read the log.
    tell(&mut conn, &["ACL", "SETUSER", "app", "on", ">s3cret", "~*", "+@all", "-xread"]).await.unwrap();
    let backend = connect(&format!("redis://app:s3cret@{}/test", server.addr())).await.unwrap();
    let _watch = backend.watch(&ctx(), &dir("/line"), Start::Snapshot).await.unwrap();
    let (_session, mine) = session(&backend, 30_000).await;
    let joined = backend.create_ordered(&mine, place(1)).await.unwrap();
    assert!(joined.line.unwrap().position(&joined.key) == Some(0));
    let listing = within("a listing", SOON, backend.list(&ctx(), &dir("/line"))).await.unwrap();
    assert!(shows(&listing, &joined.key));
}
}
