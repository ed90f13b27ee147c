//! Writes without a look: what they cost, and that nothing that happened since goes wrong by it.

mod common;

use std::time::Duration;

use common::*;
use coord_api::{ErrorKind, Lifetime, Outcome, Txn};
use coord_testbed::Proxy;

async fn cost(proxy: &Proxy, call: impl Future<Output = ()>) -> u64 {
    let before = proxy.requests();
    call.await;
    proxy.requests() - before
}

#[tokio::test]
async fn a_key_that_this_handle_wrote_is_written_by_one_request() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let coord = open(&proxy.url()).await;
        known(&coord, "/d/k").await;
        let before = coord.get("/d/k").await.unwrap().unwrap().meta;
        let mut written = None;
        let put = cost(&proxy, async { written = Some(coord.put("/d/k", "3").await.unwrap()) }).await;
        assert_eq!(put, 1);
        let entry = coord.get("/d/k").await.unwrap().unwrap();
        let written = written.unwrap();
        assert_eq!((entry.value, entry.meta.created), ("3".into(), before.created));
        assert_eq!((written.revision, written.version), (entry.meta.modified, entry.meta.version));
        assert!(entry.meta.version.get() > before.version.get());
        let update = Txn::new().update(key("/d/k"), "4");
        let update = cost(&proxy, async { assert!(coord.commit(update).await.unwrap().is_committed()) });
        assert_eq!(update.await, 1);
        known(&coord, "/d/l").await;
        let two = Txn::new().put(key("/d/k"), "5").update(key("/d/l"), "5");
        let two = cost(&proxy, async { assert!(coord.commit(two).await.unwrap().is_committed()) }).await;
        assert_eq!(two, 1);
        let delete = cost(&proxy, async { assert!(coord.delete("/d/k").await.unwrap()) }).await;
        assert_eq!(delete, 1);
        assert!(!coord.delete("/d/k").await.unwrap());
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_others_did_to_a_known_key_is_written_over() {
    on_each(async |server| {
        let (coord, other) = (open(&server.url()).await, open(&server.url()).await);
        for path in ["/changed", "/gone", "/anew", "/gone-2", "/changed-2"] {
            known(&coord, path).await;
        }
        other.put("/changed", "theirs").await.unwrap();
        other.put("/changed-2", "theirs").await.unwrap();
        for path in ["/gone", "/gone-2", "/anew"] {
            assert!(other.delete(path).await.unwrap());
        }
        other.create("/anew", "theirs", Lifetime::Persistent).await.unwrap().unwrap();
        let all = Txn::new().put(key("/changed-2"), "mine").put(key("/gone-2"), "mine");
        assert!(coord.commit(all).await.unwrap().is_committed());
        for path in ["/changed", "/gone", "/anew"] {
            let written = coord.put(path, "mine").await.unwrap();
            assert_eq!(other.get(path).await.unwrap().unwrap().meta.modified, written.revision);
        }
        for path in ["/changed", "/gone", "/anew", "/changed-2", "/gone-2"] {
            assert_eq!(value(&other, path).await.as_deref(), Some("mine"), "{path}");
        }
        // What must be there, and is not.
        known(&coord, "/u").await;
        known(&coord, "/d").await;
        for path in ["/u", "/d"] {
            assert!(other.delete(path).await.unwrap());
        }
        assert!(!coord.commit(Txn::new().update(key("/u"), "mine")).await.unwrap().is_committed());
        assert!(!coord.delete("/d").await.unwrap());
        assert_eq!(value(&other, "/u").await, None);
        for handle in [coord, other] {
            handle.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

/// A transaction of many keys that others changed loses one round for all of them, not one for each.
#[tokio::test]
async fn many_wrong_guesses_are_one_lost_round() {
    on_each(async |server| {
        let (coord, other) = (open(&server.url()).await, open(&server.url()).await);
        let puts = |value: &'static str| {
            (0..60).fold(Txn::new(), |txn, n| txn.put(key(&format!("/many/{n}")), value))
        };
        for handle in [&coord, &coord, &other, &coord] {
            assert!(handle.commit(puts("v")).await.unwrap().is_committed());
        }
        coord.close().await.unwrap();
        other.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_known_key_that_became_a_directory_gets_no_value() {
    on_each(async |server| {
        let (coord, other) = (open(&server.url()).await, open(&server.url()).await);
        for path in ["/full", "/empty", "/u", "/d"] {
            known(&coord, path).await;
            assert!(other.delete(path).await.unwrap());
            other.put(format!("{path}/below"), "theirs").await.unwrap();
        }
        let error = coord.put("/full", "mine").await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidArgument, Outcome::NotApplied));
        assert_eq!(value(&other, "/full/below").await.as_deref(), Some("theirs"));
        assert!(!coord.commit(Txn::new().update(key("/u"), "mine")).await.unwrap().is_committed());
        assert!(!coord.delete("/d").await.unwrap());
        // An empty one makes room, and the value outlives the collector of empty containers.
        assert!(other.delete("/empty/below").await.unwrap());
        coord.put("/empty", "mine").await.unwrap();
        other.put("/witness/k", "").await.unwrap();
        assert!(other.delete("/witness/k").await.unwrap());
        eventually("the collector was here", || async {
            other.list("/").await.unwrap().children.iter().all(|child| child.key.as_str() != "/witness")
        })
        .await;
        assert_eq!(value(&other, "/empty").await.as_deref(), Some("mine"));
        for handle in [coord, other] {
            handle.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

/// Other programs do not know the leaf rule.
#[tokio::test]
async fn a_value_that_a_node_below_hides_is_not_reported_as_written() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        known(&coord, "/k").await;
        let raw = zookeeper_client::Client::connect(&server.addr().to_string()).await.unwrap();
        let open_to_all =
            zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
        raw.create("/k/theirs", b"", &open_to_all).await.unwrap();
        let error = coord.put("/k", "mine").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidArgument, Outcome::Unknown),
            "{error}"
        );
        let error = coord.put("/k", "mine").await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotApplied, "looked at again: {error}");
        assert_eq!(value(&coord, "/k").await, None);
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

/// An empty key may be taken for a directory by others, which then make keys below it.
#[tokio::test]
async fn an_empty_key_is_looked_at() {
    on_each(async |server| {
        let (coord, other) = (open(&server.url()).await, open(&server.url()).await);
        for value in ["1", "2", ""] {
            coord.put("/k", value).await.unwrap();
        }
        other.put("/k/below", "theirs").await.unwrap();
        let error = coord.put("/k", "mine").await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidArgument, Outcome::NotApplied));
        for handle in [coord, other] {
            handle.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_ephemeral_key_keeps_its_session() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        let session = coord.session(Duration::from_secs(10)).await.unwrap();
        session.coord().create("/mine", "0", Lifetime::Session).await.unwrap().unwrap();
        for round in ["1", "2", "3"] {
            coord.put("/mine", round).await.unwrap();
            let entry = coord.get("/mine").await.unwrap().unwrap();
            assert_eq!((entry.value, entry.meta.owner.as_ref()), (round.into(), Some(session.id())));
        }
        session.close().await.unwrap();
        assert_eq!(coord.get("/mine").await.unwrap(), None);
        coord.put("/mine", "nobody's").await.unwrap();
        assert_eq!(coord.get("/mine").await.unwrap().unwrap().meta.owner, None);
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

/// Many who write one key, from one handle and from two: each write is applied, and guesses do not pile up.
#[tokio::test]
async fn writers_of_one_key_do_not_wear_each_other_out() {
    const TASKS: u64 = 64;
    const EACH: u64 = 20;
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let (coord, other) = (open(&proxy.url()).await, open(&proxy.url()).await);
        known(&coord, "/k").await;
        let first = coord.get("/k").await.unwrap().unwrap().meta.version.get();
        let spent = cost(&proxy, async {
            let writers = (0..TASKS).map(|task| {
                let coord = if task % 2 == 0 { coord.clone() } else { other.clone() };
                async move {
                    for _ in 0..EACH {
                        coord.put("/k", "v").await.unwrap();
                    }
                }
            });
            futures::future::join_all(writers).await;
        })
        .await;
        let last = coord.get("/k").await.unwrap().unwrap().meta.version.get();
        assert_eq!(last - first, TASKS * EACH);
        // Two for a look and a write; of the guesses only some are wrong.
        assert!(spent < TASKS * EACH * 9 / 4, "{spent} requests for {} puts", TASKS * EACH);
        for handle in [coord, other] {
            handle.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

/// Promise G8: a write whose reply is lost is sent once, and called neither applied nor refused.
#[tokio::test]
async fn a_lost_reply_is_unknown_and_nothing_is_sent_again() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let (coord, witness) = (open(&proxy.url()).await, open(&server.url()).await);
        known(&coord, "/k").await;
        let before = witness.get("/k").await.unwrap().unwrap().meta.version.get();
        proxy.lose_reply(1);
        let error = coord.put("/k", "mine").await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        let entry = witness.get("/k").await.unwrap().unwrap();
        assert_eq!((entry.value, entry.meta.version.get()), ("mine".into(), before + 1));
        // And the next write finds its way with the old version.
        within("connected again", async { while coord.put("/k", "next").await.is_err() {} }).await;
        assert_eq!(value(&witness, "/k").await.as_deref(), Some("next"));
        for handle in [coord, witness] {
            handle.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}
