//! Lines on real servers: layout, order, cost, collected directories, lost replies.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::time::Duration;

use common::*;
use coord_api::{Freshness, Lifetime, Nonce, OpContext, Outcome, Seen, Txn};

const TTL: Duration = Duration::from_secs(10);

/// Names in the line of a directory, as the server has them.
async fn names(coord: &coord_api::Coord, line: &str) -> Vec<String> {
    let listing = coord.clone().with_freshness(Freshness::Latest).list(line).await.unwrap();
    listing.children.iter().map(|child| child.key.name().to_owned()).collect()
}

#[tokio::test]
async fn names_are_curators_and_foreign_ones_hold_their_place() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        let session = coord.session(TTL).await.unwrap();
        // What a program without Curator's protection writes, and what is no place at all.
        for name in ["lock-0000000000", "ready", "lock-2147483647"] {
            coord.create(format!("/l/{name}"), "", Lifetime::Persistent).await.unwrap().unwrap();
        }
        let mine = join(&session, "/l").await;
        let name = mine.key.name();
        assert!(name.starts_with("_c_") && name[39..].starts_with("-lock-") && name.len() == 55, "{name}");
        assert!(Nonce::from_uuid(&name[3..39]).is_some(), "{name}");
        let line = mine.line.unwrap();
        let shown: Vec<_> = line.children.iter().map(|child| child.key.name()).collect();
        assert_eq!(shown, ["lock-0000000000", name, "lock-2147483647", "ready"]);
        assert!(line.children[0].tag.is_some() && line.children[3].tag.is_none());
        let entry = coord.get(mine.key.clone()).await.unwrap().unwrap();
        assert_eq!((entry.meta.created, entry.meta.owner.as_ref()), (mine.created, Some(session.id())));
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_contended_acquisition_costs_two_requests() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let coord = open(&proxy.url()).await;
        let session = coord.session(Duration::from_secs(60)).await.unwrap();
        let mut holder = join(&session, "/l").await;
        let cycles = 50;
        let mut before = 0;
        for cycle in 0..cycles {
            let next = join(&session, "/l").await;
            let line = next.line.clone().unwrap();
            assert_eq!(line.position(&next.key), Some(1), "{line:?}");
            let seen = Seen::Exists(holder.key.clone());
            let (waited, deleted) = tokio::join!(
                within("the release", session.coord().wait(&seen)),
                session.coord().delete(holder.key.clone()),
            );
            waited.unwrap();
            assert!(deleted.unwrap());
            let shown = session.coord().list("/l").await.unwrap();
            assert_eq!(shown.position(&next.key), Some(0), "the holder that went is not shown");
            holder = next;
            if cycle == 0 {
                before = proxy.requests();
            }
        }
        let spent = proxy.requests() - before;
        let sessions_beats = 10;
        // A server before 3.9 does not tell when things changed, and its directory is read again.
        let limit = if server.version().contains("3.8") { 6 } else { 2 } * (cycles - 1) + sessions_beats;
        assert!(spent <= limit, "{spent} requests for {cycles} cycles on {}", server.version());
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_directory_that_the_server_collects_in_between_is_made_again() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..4 {
            let coord = coord.clone();
            tasks.spawn(async move {
                let session = coord.session(TTL).await.unwrap();
                let mut last = coord_api::Revision::ZERO;
                for round in 0..12_u64 {
                    // The directories are empty for most of the time, so that the collector gets its chances.
                    let line = format!("/parents/{task}/{}", round % 2);
                    let mine = join(&session, &line).await;
                    assert!(mine.created > last, "fences grow although the directory is a new one");
                    last = mine.created;
                    assert!(coord.delete(mine.key).await.unwrap());
                    tokio::time::sleep(Duration::from_millis(40 * (1 + round % 12))).await;
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        eventually("the directories are collected", || async { names(&coord, "/parents").await.is_empty() })
            .await;
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_wait_survives_that_its_directory_is_collected() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        coord.put("/d/a", "").await.unwrap();
        let listed = coord.list("/d").await.unwrap();
        let waiter = tokio::spawn({
            let coord = coord.clone();
            async move { coord.wait(&Seen::Absent(key("/d/gate"))).await }
        });
        // The mirror is up once it answers for the directory.
        let seen = Seen::Children(dir("/d"), listed.revision);
        let (emptied, deleted) = tokio::join!(within("empty", coord.wait(&seen)), coord.delete("/d/a"));
        emptied.unwrap();
        assert!(deleted.unwrap());
        eventually("the directory is collected", || async { names(&coord, "/").await.is_empty() }).await;
        assert!(!waiter.is_finished());
        coord.put("/d/gate", "open").await.unwrap();
        within("the gate", waiter).await.unwrap().unwrap();
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_retry_after_a_lost_reply_keeps_the_older_of_two_entries() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let coord = open(&proxy.url()).await;
        let session = coord.session(TTL).await.unwrap();
        let first = join(&session, "/l").await;
        let backend = coord.backend();
        let ctx = OpContext::for_session(session.id().clone());
        let mut mine = None;
        // A beat of the session may take the arrow instead; the next one then hits.
        for _ in 0..50 {
            let nonce = coord.runtime().nonce();
            let reply = proxy.lose_reply(1);
            match backend.create_ordered(&ctx, request("/l", nonce)).await {
                Ok(ordered) => {
                    coord.delete(ordered.key).await.unwrap();
                }
                Err(error) => {
                    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
                    assert!(reply.fired());
                    // Again, with the nonce of the call whose reply was lost, which may stand in line twice now.
                    let again = within("again", async {
                        loop {
                            match backend.create_ordered(&ctx, request("/l", nonce)).await {
                                Ok(ordered) => return ordered,
                                Err(error) => assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}"),
                            }
                        }
                    })
                    .await;
                    mine = Some((nonce, again));
                    break;
                }
            }
        }
        let (nonce, mine) = mine.expect("a reply was lost");
        let line = coord.clone().with_freshness(Freshness::Latest).list("/l").await.unwrap();
        let entries: Vec<_> = line.children.iter().filter(|child| child.nonce == Some(nonce)).collect();
        assert_eq!(entries.len(), 1, "{line:?}");
        assert_eq!(entries[0].key, mine.key);
        assert!(mine.created > first.created && mine.line.unwrap().position(&mine.key) == Some(1));
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn three_thousand_in_line_are_listed_mirrored_and_watched() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        let session = coord.session(Duration::from_secs(60)).await.unwrap();
        let holder = join(&session, "/l").await;
        let waiter = tokio::spawn({
            let (coord, seen) = (coord.clone(), Seen::Exists(holder.key.clone()));
            async move { coord.wait(&seen).await }
        });
        let probe = Seen::Absent(key("/l/probe"));
        let (up, put) = tokio::join!(within("mirrored", coord.wait(&probe)), coord.put("/l/probe", ""));
        up.unwrap();
        put.unwrap();
        assert!(coord.delete("/l/probe").await.unwrap());
        for batch in 0..25 {
            let txn = (0..120).fold(Txn::new(), |txn, n| {
                let number = 1_000_000 + batch * 120 + n;
                txn.create(key(&format!("/l/lock-{number:010}")), "", Lifetime::Persistent)
            });
            assert!(coord.commit(txn).await.unwrap().is_committed());
        }
        let mine = join(&session, "/l").await;
        let listed = coord.list("/l").await.unwrap();
        assert_eq!((listed.children.len(), listed.position(&mine.key)), (3002, Some(1)));
        assert_eq!(mine.line.unwrap().position(&mine.key), Some(1));
        assert!(coord.delete(holder.key).await.unwrap());
        within("the first leaves", waiter).await.unwrap().unwrap();
        let mut watch = coord.watch("/l").await.unwrap();
        match next(&mut watch).await {
            coord_api::WatchEvent::Snapshot { entries, .. } => assert_eq!(entries.len(), 3001),
            other => panic!("{other:?}"),
        }
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_release_during_an_outage_is_noticed_after_it() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let cut = open(&format!("{}?base_session_ttl=20s", proxy.url())).await;
        let other = open(&server.url()).await;
        let session = other.session(TTL).await.unwrap();
        let holder = join(&session, "/l").await;
        let listed = cut.list("/l").await.unwrap();
        let waiters: Vec<_> = [Seen::Exists(holder.key.clone()), Seen::Children(dir("/l"), listed.revision)]
            .into_iter()
            .map(|seen| {
                let cut = cut.clone();
                tokio::spawn(async move { cut.wait(&seen).await })
            })
            .collect();
        // The mirror is up.
        let probe = Seen::Absent(key("/l/probe"));
        let (up, put) = tokio::join!(within("mirrored", cut.wait(&probe)), other.put("/l/probe", ""));
        up.unwrap();
        put.unwrap();
        proxy.set(coord_testbed::Link::BlackHole);
        assert!(other.delete(holder.key).await.unwrap());
        proxy.cut_connections();
        proxy.set(coord_testbed::Link::Up);
        for waiter in waiters {
            within("the release", waiter).await.unwrap().unwrap();
        }
        // And what happens later too: the watch is there again.
        let seen = Seen::Exists(key("/l/probe"));
        let (gone, deleted) = tokio::join!(within("gone", cut.wait(&seen)), other.delete("/l/probe"));
        gone.unwrap();
        assert!(deleted.unwrap());
        cut.close().await.unwrap();
        other.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}
