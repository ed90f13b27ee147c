//! Transactions.

use std::time::Duration;

use coord_api::{Check, ErrorKind, Failed, Lifetime, Outcome, Retry, Revision, Txn, TxnOutcome, Version};

use crate::support::*;

fn failed(outcome: TxnOutcome) -> Failed {
    match outcome {
        TxnOutcome::Rejected(rejection) => rejection.failed.expect("etcd tells what failed"),
        TxnOutcome::Committed(_) => panic!("must be rejected"),
    }
}

#[tokio::test]
async fn every_condition_is_kept_and_the_first_that_fails_is_named() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    put(&store, "/there", "1").await;
    let meta = get(&store, "/there").await.unwrap().meta;
    let (there, absent) = (key("/there"), key("/absent"));
    let created = |revision| Check::Created(key("/there"), revision);
    for (txn, fails) in [
        (Txn::new().check_absent(there.clone()), Failed::Check(0)),
        (Txn::new().check_exists(there.clone()).check_exists(absent.clone()), Failed::Check(1)),
        (Txn::new().check_version(there.clone(), Version::new(meta.version.get() + 1)), Failed::Check(0)),
        (Txn::new().check_version(absent.clone(), Version::new(0)), Failed::Check(0)),
        (Txn::new().check(created(Revision::new(1))), Failed::Check(0)),
        (Txn::new().create(there.clone(), "x", Lifetime::Persistent), Failed::Op(0)),
        (Txn::new().put(key("/other"), "x").update(absent.clone(), "x"), Failed::Op(1)),
        (
            Txn::new().check_exists(there.clone()).put(key("/other"), "x").delete(absent.clone()),
            Failed::Op(1),
        ),
        (Txn::new().check_absent(there.clone()).update(there.clone(), "x"), Failed::Check(0)),
    ] {
        let outcome = store.commit(&nobody(), txn.clone()).await.unwrap();
        assert_eq!(failed(outcome), fails, "{txn:?}");
    }
    assert!(get(&store, "/other").await.is_none(), "nothing of a rejected transaction is applied");

    let good = Txn::new()
        .check_version(there.clone(), meta.version)
        .check(created(meta.created))
        .check_absent(absent.clone())
        .update(there.clone(), "2")
        .create(absent.clone(), "3", Lifetime::Persistent)
        .put(key("/other"), "4");
    let commit = store.commit(&nobody(), good).await.unwrap().committed().unwrap();
    let now = get(&store, "/there").await.unwrap();
    assert_eq!((now.value.as_ref(), now.meta.created), (&b"2"[..], meta.created));
    for written in &commit.written {
        assert_eq!(written.unwrap().version, now.meta.version);
        assert_eq!(written.unwrap().revision, now.meta.modified);
    }
    let commit = store.commit(&nobody(), Txn::new().delete(there)).await.unwrap().committed().unwrap();
    assert_eq!(commit.written, [None]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_version_is_not_fooled_by_a_key_that_was_made_anew() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    put(&store, "/a", "1").await;
    let version = get(&store, "/a").await.unwrap().meta.version;
    assert!(store.commit(&nobody(), Txn::new().delete(key("/a"))).await.unwrap().is_committed());
    put(&store, "/a", "1").await;
    let outcome = store.commit(&nobody(), Txn::new().check_version(key("/a"), version)).await.unwrap();
    assert_eq!(failed(outcome), Failed::Check(0));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_changed_ephemeral_key_keeps_its_session() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, Duration::from_secs(5)).await;
    let txn = Txn::new().create(key("/e"), "1", Lifetime::Session);
    assert!(store.commit(&owned_by(&session), txn).await.unwrap().is_committed());
    // Large: it cannot be sent twice in one request.
    let large = vec![b'x'; 900_000];
    for txn in [
        Txn::new().put(key("/e"), "2"),
        Txn::new().update(key("/e"), "3"),
        Txn::new().check_exists(key("/e")).put(key("/e"), "4"),
        Txn::new().put(key("/e"), large.clone()),
    ] {
        assert!(store.commit(&nobody(), txn.clone()).await.unwrap().is_committed());
        assert_eq!(get(&store, "/e").await.unwrap().meta.owner.as_ref(), Some(session.id()), "{txn:?}");
    }
    assert_eq!(get(&store, "/e").await.unwrap().value, large);
    put(&store, "/new", large).await;
    assert_eq!(get(&store, "/new").await.unwrap().meta.owner, None);
    session.close().await.unwrap();
    assert!(get(&store, "/e").await.is_none() && get(&store, "/new").await.is_some());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_known_key_is_written_by_a_plain_put_and_what_others_did_to_it_is_no_obstacle() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let mut raw = raw(&server).await;
    for (path, value) in [("/changed", "1"), ("/gone", "1"), ("/leased", "1"), ("/changed", "2")] {
        put(&store, path, value).await;
    }
    raw.put("/changed", "theirs", None).await.unwrap();
    raw.delete("/gone", None).await.unwrap();
    let lease = raw.lease_grant(60, None).await.unwrap().id();
    let leased = etcd_client::PutOptions::new().with_lease(lease);
    raw.put("/leased", "theirs", Some(leased)).await.unwrap();
    for path in ["/changed", "/gone", "/leased"] {
        let outcome = store.commit(&nobody(), Txn::new().put(key(path), "mine")).await.unwrap();
        let TxnOutcome::Committed(commit) = outcome else { panic!("{path}: {outcome:?}") };
        let (entry, written) = (get(&store, path).await.unwrap(), commit.written[0].unwrap());
        assert_eq!(entry.value, "mine");
        assert_eq!((written.revision, written.version), (entry.meta.modified, entry.meta.version), "{path}");
        assert_eq!(entry.meta.owner.is_some(), path == "/leased", "{path}");
    }
    // What must be there, and is not.
    raw.delete("/gone", None).await.unwrap();
    let outcome = store.commit(&nobody(), Txn::new().update(key("/gone"), "mine")).await.unwrap();
    assert_eq!(failed(outcome), Failed::Op(0));
    assert!(get(&store, "/gone").await.is_none());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_put_is_one_request_whether_the_key_is_there_or_not() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let store = open(&proxy.url()).await.unwrap();
    let delete = Txn::new().delete(key("/k"));
    for txn in [Txn::new().put(key("/k"), "v"), Txn::new().put(key("/k"), "v"), delete.clone()] {
        for _ in 0..2 {
            let before = proxy.requests();
            let _ = store.commit(&nobody(), txn.clone()).await.unwrap();
            assert_eq!(proxy.requests() - before, 1, "{txn:?}");
        }
    }
    // Others delete it again and again: guesses become rare.
    let mut raw = raw(&server).await;
    let before = proxy.requests();
    for _ in 0..100 {
        put(&store, "/k", "v").await;
        raw.delete("/k", None).await.unwrap();
    }
    let spent = proxy.requests() - before;
    assert!((101..115).contains(&spent), "{spent} requests for 100 puts");
    store.close().await.unwrap();
}

#[tokio::test]
async fn transactions_of_the_largest_size_fit() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, Duration::from_secs(5)).await;
    let many = |from: usize, to: usize, add: fn(Txn, coord_api::Key) -> Txn| {
        (from..to).fold(Txn::new(), |txn, n| add(txn, key(&format!("/k/{n}"))))
    };
    let create = |txn: Txn, key| txn.create(key, "1", Lifetime::Session);
    for txn in [
        many(0, 128, |txn, key| txn.create(key, "1", Lifetime::Session)),
        many(0, 128, |txn, key| txn.put(key, "2")),
        many(0, 128, |txn, key| txn.update(key, "3")),
        many(0, 128, |txn, key| txn.check_exists(key.clone()).put(key, "4")),
        many(0, 128, |txn, key| txn.check_exists(key.clone()).delete(key)),
        // Does not fit with a nested put: the key is looked at first.
        create(many(1, 128, create), key("/k/200")).put(key("/k/0"), "5"),
    ]
    .into_iter()
    .map(|txn| if txn.ops().len() > 128 { many(1, 128, create).put(key("/k/0"), "5") } else { txn })
    {
        let ops = txn.ops().len();
        let commit = store.commit(&owned_by(&session), txn).await.unwrap().committed().unwrap();
        assert_eq!(commit.written.len(), ops);
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_session_that_the_store_does_not_know_any_more_is_lost() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, Duration::from_secs(60)).await;
    let lease = i64::from_str_radix(session.id().as_str(), 16).unwrap();
    raw(&server).await.lease_revoke(lease).await.unwrap();
    // The next renewal is far away: the store alone knows.
    let txn = Txn::new().put(key("/p"), "").create(key("/e"), "", Lifetime::Session);
    let error = store.commit(&owned_by(&session), txn).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::SessionLost, Outcome::NotApplied), "{error}");
    assert!(get(&store, "/p").await.is_none());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_lost_reply_is_ambiguous_and_was_applied() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let store = open(&proxy.url()).await.unwrap();
    let lost = proxy.lose_reply(1);
    let error = store.commit(&nobody(), Txn::new().put(key("/a"), "1")).await.unwrap_err();
    assert!(lost.wait().await);
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Ambiguous), "{error}");
    assert_eq!(get(&store, "/a").await.unwrap().value, "1");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_down_surely_did_not_apply() {
    let mut server = server!();
    let store = open(&server.url()).await.unwrap();
    server.kill().await.unwrap();
    until("the connection is seen to be gone", async || {
        let error = store.commit(&nobody(), Txn::new().put(key("/a"), "1")).await.unwrap_err();
        error.retry() == Retry::Safe && error.kind() == ErrorKind::Unavailable
    })
    .await;
    server.restart().await.unwrap();
    until("the store is back", async || store.get(&nobody(), &key("/a")).await.is_ok()).await;
    assert!(get(&store, "/a").await.is_none());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_is_not_taken_back() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let store = open(&proxy.url()).await.unwrap();
    let ctx = nobody();
    {
        let mut call = std::pin::pin!(store.commit(&ctx, Txn::new().put(key("/a"), "1")));
        assert!(futures::poll!(call.as_mut()).is_pending());
    }
    until("the write arrives", async || get(&store, "/a").await.is_some()).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_call_ends_by_its_deadline() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let store = open(&proxy.url()).await.unwrap();
    proxy.set(coord_testbed::Link::BlackHole);
    let soon = tokio::time::Instant::now() + Duration::from_millis(200);
    let ctx = nobody().with_deadline(soon);
    let read = store.get(&ctx, &key("/a")).await.unwrap_err();
    assert_eq!((read.kind(), read.retry()), (ErrorKind::Timeout, Retry::Safe));
    // Too late to be sent at all.
    let unsent = store.commit(&ctx, Txn::new().put(key("/a"), "1")).await.unwrap_err();
    assert_eq!((unsent.kind(), unsent.outcome()), (ErrorKind::Timeout, Outcome::NotApplied));
    let ctx = nobody().with_deadline(tokio::time::Instant::now() + Duration::from_millis(200));
    let sent = store.commit(&ctx, Txn::new().put(key("/a"), "1")).await.unwrap_err();
    assert_eq!((sent.kind(), sent.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
    proxy.set(coord_testbed::Link::Up);
    store.close().await.unwrap();
}
