//! Keys, directories, limits and access on real servers.

mod common;

use std::time::Duration;

use common::*;
use coord_api::{
    Check, ErrorKind, Failed, Freshness, Lifetime, Rejection, Seen, Txn, TxnOutcome, Version, WatchEvent,
};

#[tokio::test]
async fn an_empty_directory_is_no_key_and_makes_room_for_one() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        // A minute between collections, so that the leftover stays: the default of the server.
        coord.put("/d/k", "").await.unwrap();
        coord.put("/e/k", "").await.unwrap();
        for path in ["/d/k", "/e/k"] {
            assert!(coord.delete(path).await.unwrap());
        }
        for path in ["/d", "/e"] {
            assert_eq!(coord.get(path).await.unwrap(), None);
            assert!(!coord.delete(path).await.unwrap());
        }
        let gone = Txn::new().check(Check::Exists(key("/d"))).put(key("/x"), "");
        let TxnOutcome::Rejected(Rejection { failed, .. }) = coord.commit(gone).await.unwrap() else {
            panic!()
        };
        assert_eq!(failed, Some(Failed::Check(0)));
        // Written where the container was, the value must outlive the collector.
        coord.put("/d", "now a key").await.unwrap();
        coord.create("/e", "now a key", Lifetime::Persistent).await.unwrap().unwrap();
        coord.put("/f/k", "").await.unwrap();
        assert!(coord.delete("/f/k").await.unwrap());
        eventually("the collector was here", || async {
            coord.list("/").await.unwrap().children.iter().all(|child| child.key.as_str() != "/f")
        })
        .await;
        for path in ["/d", "/e"] {
            assert_eq!(coord.get(path).await.unwrap().unwrap().value, "now a key");
        }
        let error = coord.put("/g/k", "").await.and(coord.put("/g", "").await).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_value_of_directories_is_refused_as_a_value() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        let error = coord.put("/a", "\0coord:directory\0").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(coord.get("/a").await.unwrap(), None);
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn every_part_of_a_transaction_is_reported_as_on_other_stores() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        let a = coord.put("/t/a", "1").await.unwrap();
        let txn = Txn::new()
            .check_version(key("/t/a"), a.version)
            .check_absent(key("/t/none"))
            .check_exists(key("/t/a"))
            .create(key("/t/new"), "x", Lifetime::Persistent)
            .update(key("/t/a"), "2")
            .put(key("/t/deep/er"), "y");
        let commit = coord.commit(txn).await.unwrap().committed().unwrap();
        let revisions: Vec<_> = commit.written.iter().map(|written| written.unwrap().revision).collect();
        assert!(revisions.iter().all(|revision| *revision == revisions[0]) && revisions[0] > a.revision);
        let entry = coord.get("/t/new").await.unwrap().unwrap();
        assert_eq!(
            (entry.meta.created, entry.meta.version),
            (revisions[0], commit.written[0].unwrap().version)
        );
        assert_eq!(coord.get("/t/none").await.unwrap(), None);

        let rejected = [
            (
                Txn::new().check_version(key("/t/a"), Version::new(u64::MAX)).put(key("/t/b"), ""),
                Failed::Check(0),
            ),
            (Txn::new().check_version(key("/t/a"), a.version).update(key("/t/a"), ""), Failed::Check(0)),
            (
                Txn::new().check_absent(key("/t/a")).create(key("/t/a"), "", Lifetime::Persistent),
                Failed::Check(0),
            ),
            (Txn::new().check_absent(key("/t/a")).put(key("/t/b"), ""), Failed::Check(0)),
            (Txn::new().put(key("/t/b"), "").create(key("/t/a"), "", Lifetime::Persistent), Failed::Op(1)),
            (Txn::new().put(key("/t/b"), "").update(key("/t/none"), ""), Failed::Op(1)),
            (Txn::new().put(key("/t/b"), "").delete(key("/t/none")), Failed::Op(1)),
            (
                Txn::new().check(Check::Created(key("/t/a"), revisions[0])).put(key("/t/b"), ""),
                Failed::Check(0),
            ),
        ];
        for (txn, failed) in rejected {
            let outcome = coord.commit(txn.clone()).await.unwrap();
            let TxnOutcome::Rejected(rejection) = outcome else { panic!("{txn:?}: {outcome:?}") };
            assert_eq!(rejection.failed, Some(failed), "{txn:?}");
        }
        assert_eq!(coord.get("/t/b").await.unwrap(), None);
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_harms_nobody_else() {
    on_each(async |server| {
        let coord = open(&format!("{}/{}", server.url(), ["long".repeat(60).as_str(); 4].join("/"))).await;
        let largest = vec![7_u8; 1_000_000 - "/big".len()];
        coord.put("/big", largest.clone()).await.unwrap();
        assert_eq!(coord.get("/big").await.unwrap().unwrap().value.len(), largest.len());
        let errors = [
            coord.put("/big", vec![7_u8; 1_000_001]).await.map(drop).unwrap_err(),
            // Within what all stores take, but with its paths more than a packet of this one.
            coord
                .commit((0..128).fold(Txn::new(), |txn, n| {
                    let name = format!("/{n}/{}", "n".repeat(200));
                    txn.create(key(&name), vec![0_u8; 7600], Lifetime::Persistent)
                }))
                .await
                .map(drop)
                .unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        }
        // The connection was not dropped by the server: it never saw them.
        assert_eq!(coord.get("/big").await.unwrap().unwrap().value.len(), largest.len());
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn access_follows_the_acl_on_every_node() {
    on_each(async |server| {
        let with = |user: &str, acl: &str| {
            format!("{}/app?acl={acl}", server.url().replace("//", &format!("//{user}@")))
        };
        let alice = open(&with("alice:pw", "creator")).await;
        let session = alice.session(Duration::from_secs(10)).await.unwrap();
        alice.put("/d/secret", "1").await.unwrap();
        let mine = join(&session, "/l").await;
        let bob = open(&with("bob:pw", "creator")).await;
        let stranger = open(&format!("{}/app", server.url())).await;
        let wrong = open(&with("alice:other", "creator")).await;
        for other in [&bob, &stranger, &wrong] {
            for error in [
                other.get("/d/secret").await.map(drop).unwrap_err(),
                other.put("/d/secret", "2").await.map(drop).unwrap_err(),
                other.put("/d/more", "2").await.map(drop).unwrap_err(),
                other.list("/l").await.map(drop).unwrap_err(),
                other.delete(mine.key.clone()).await.map(drop).unwrap_err(),
                other.wait(&Seen::Exists(mine.key.clone())).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            }
        }
        assert_eq!(alice.get("/d/secret").await.unwrap().unwrap().value, "1");
        let shown =
            open(&format!("{}/shown?acl=creator_world_read", server.url().replace("//", "//carol:pw@")))
                .await;
        shown.put("/a", "1").await.unwrap();
        let reader = open(&format!("{}/shown", server.url())).await;
        assert_eq!(reader.get("/a").await.unwrap().unwrap().value, "1");
        assert_eq!(reader.put("/a", "2").await.unwrap_err().kind(), ErrorKind::PermissionDenied);
        for coord in [alice, bob, stranger, wrong, shown, reader] {
            coord.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_tree_is_watched_through_cuts_with_revisions_that_never_go_back() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let watcher = open(&proxy.url()).await;
        let writer = open(&server.url()).await;
        let mut stream = watcher.watch("/w").await.unwrap();
        let mut seen = std::collections::BTreeMap::new();
        let mut last = coord_api::Revision::ZERO;
        let writes = tokio::spawn(async move {
            for n in 0..300_u32 {
                let path = format!("/w/{}/{}", n % 3, n % 7);
                if n % 5 == 4 {
                    writer.delete(path.as_str()).await.unwrap();
                } else {
                    // The condition makes and deletes a node, which no watcher must see.
                    let txn = Txn::new().check_absent(key("/w/gate")).put(path.as_str(), n.to_string());
                    assert!(writer.commit(txn).await.unwrap().is_committed());
                }
                if n % 50 == 25 {
                    proxy.cut_connections();
                }
            }
            writer.put("/w/last", "last").await.unwrap();
            let mut left = std::collections::BTreeMap::new();
            for dir in ["/w", "/w/0", "/w/1", "/w/2"] {
                for child in writer.list(dir).await.unwrap().children {
                    if let Some(entry) = writer.get(child.key.clone()).await.unwrap() {
                        left.insert(child.key, entry.value);
                    }
                }
            }
            (writer, proxy, left)
        });
        loop {
            let event = next(&mut stream).await;
            assert!(event.revision() >= last, "{event:?} after {last}");
            last = event.revision();
            match event {
                WatchEvent::Snapshot { entries, .. } => {
                    seen = entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
                }
                WatchEvent::Put(entry) => {
                    assert_ne!(entry.key.as_str(), "/w/gate");
                    seen.insert(entry.key, entry.value);
                }
                WatchEvent::Delete { key, .. } => assert!(seen.remove(&key).is_some(), "{key} was not there"),
                other => panic!("{other:?}"),
            }
            if seen.contains_key(&key("/w/last")) {
                break;
            }
        }
        let (writer, _proxy, left) = writes.await.unwrap();
        assert_eq!(seen, left);
        for coord in [watcher, writer] {
            coord.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn waiting_for_a_key_where_a_directory_stands_does_not_spin() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let coord = open(&proxy.url()).await;
        for path in ["/d/dir/k", "/top/k"] {
            coord.put(path, "").await.unwrap();
        }
        let waits = [Seen::Absent(key("/d/dir")), Seen::Absent(key("/top"))].map(|seen| {
            let coord = coord.clone();
            tokio::spawn(async move { coord.wait(&seen).await })
        });
        eventually("both wait", || async { proxy.requests() > 8 }).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let quiet = proxy.requests();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(proxy.requests() - quiet < 5, "somebody asks again and again");
        for path in ["/d/dir", "/top"] {
            assert!(coord.delete(format!("{path}/k")).await.unwrap());
            coord.put(path, "a key").await.unwrap();
        }
        for wait in waits {
            within("the key", wait).await.unwrap().unwrap();
        }
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_value_is_waited_for_by_a_watch_that_survives_cuts() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let coord = open(&proxy.url()).await;
        let writer = open(&server.url()).await;
        let mut at = writer.put("/v/a", "0").await.unwrap().revision;
        for round in 0..5 {
            let wait = tokio::spawn({
                let (coord, seen) = (coord.clone(), Seen::Value(key("/v/a"), at));
                async move { coord.wait(&seen).await }
            });
            if round % 2 == 1 {
                proxy.cut_connections();
            }
            at = if round == 4 {
                assert!(writer.delete("/v/a").await.unwrap());
                at
            } else {
                writer.put("/v/a", round.to_string()).await.unwrap().revision
            };
            within("the change", wait).await.unwrap().unwrap();
        }
        let reader = coord.clone().with_freshness(Freshness::Latest);
        assert_eq!(reader.get("/v/a").await.unwrap(), None);
        for coord in [coord, writer] {
            coord.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_thousand_who_wait_for_a_value_cost_one_read_a_change() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let coord = open(&proxy.url()).await;
        let writer = open(&server.url()).await;
        let at = writer.put("/v/a", "0").await.unwrap().revision;
        let before = proxy.requests();
        let mut waits = tokio::task::JoinSet::new();
        for _ in 0..1000 {
            let (coord, seen) = (coord.clone(), Seen::Value(key("/v/a"), at));
            waits.spawn(async move { coord.wait(&seen).await });
        }
        eventually("watched", || async { proxy.requests() > before }).await;
        writer.put("/v/a", "1").await.unwrap();
        while let Some(wait) = within("the change", waits.join_next()).await {
            wait.unwrap().unwrap();
        }
        let spent = proxy.requests() - before;
        assert!(spent <= 5, "{spent} requests");
        for coord in [coord, writer] {
            coord.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}
