//! The contract on every server, without faults.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::*;
use coord_api::{
    Backend, Check, ErrorKind, Failed, Lifetime, Nonce, OpContext, OrderedCreate, Revision, Seen,
    SessionState, Start, Tag, Txn, TxnOutcome, Version, WatchEvent,
};
use futures::StreamExt;

const SOON: Duration = Duration::from_secs(5);

fn place(path: &str, nonce: u128) -> OrderedCreate {
    OrderedCreate {
        dir: dir(path),
        tag: Tag::new("lock-").unwrap(),
        nonce: Nonce::new(nonce),
        value: "v".into(),
        lifetime: Lifetime::Session,
    }
}

async fn commit(backend: &dyn Backend, txn: Txn) -> TxnOutcome {
    backend.commit(&ctx(), txn).await.unwrap()
}

on_all! {
async fn a_first_round_of_everything(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let name = backend.info().server;
    assert!(name.starts_with(if which == Which::Valkey8 { "valkey 8" } else { "redis " }), "{name}");
    assert_eq!(backend.get(&ctx(), &key("/a")).await.unwrap(), None);
    let put = commit(&*backend, Txn::new().put(key("/a"), "1")).await.committed().unwrap();
    let entry = backend.get(&ctx(), &key("/a")).await.unwrap().unwrap();
    assert_eq!((&*entry.value, entry.meta.created, entry.meta.version), (&b"1"[..], put.revision().unwrap(), put.first().unwrap().version));

    let (session, mine) = session(&backend, 10_000).await;
    let one = backend.create_ordered(&mine, place("/lock", 1)).await.unwrap();
    let two = backend.create_ordered(&mine, place("/lock", 2)).await.unwrap();
    assert!(two.created > one.created);
    let line = two.line.unwrap();
    assert_eq!((line.position(&one.key), line.position(&two.key)), (Some(0), Some(1)));

    let seen = Seen::Exists(one.key.clone());
    let waiting = backend.wait(&mine, &seen);
    let (_, waited) = tokio::join!(
        async { commit(&*backend, Txn::new().delete(one.key.clone())).await },
        within("the deletion wakes the waiter", SOON, waiting),
    );
    waited.unwrap();
    session.close().await.unwrap();
    assert_eq!(backend.get(&ctx(), &two.key).await.unwrap(), None);
    backend.close().await.unwrap();
    assert_eq!(backend.get(&ctx(), &key("/a")).await.unwrap_err().kind(), ErrorKind::Closed);
}
}

on_all! {
async fn a_transaction_is_judged_on_the_state_before_it_and_tells_the_first_that_fails(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let (a, b, c) = (key("/a"), key("/b"), key("/c"));
    let first = commit(&*backend, Txn::new().create(a.clone(), "1", Lifetime::Persistent)).await.committed().unwrap();
    let first = first.first().unwrap();
    let failed = |outcome: TxnOutcome| match outcome {
        TxnOutcome::Rejected(rejection) => rejection.failed.unwrap(),
        TxnOutcome::Committed(_) => panic!("committed"),
    };
    let old = Version::new(first.version.get() - 1);
    let rows = [
        (Txn::new().check_absent(a.clone()), Failed::Check(0)),
        (Txn::new().check_exists(a.clone()).check_exists(b.clone()), Failed::Check(1)),
        (Txn::new().check_version(a.clone(), old), Failed::Check(0)),
        (Txn::new().check_version(b.clone(), old), Failed::Check(0)),
        (Txn::new().check(Check::Created(a.clone(), Revision::new(7))), Failed::Check(0)),
        (Txn::new().check(Check::Created(b.clone(), Revision::ZERO)), Failed::Check(0)),
        (Txn::new().put(c.clone(), "x").create(a.clone(), "2", Lifetime::Persistent), Failed::Op(1)),
        (Txn::new().put(c.clone(), "x").update(b.clone(), "2"), Failed::Op(1)),
        (Txn::new().put(c.clone(), "x").put(a.clone(), "x").delete(b.clone()), Failed::Op(2)),
        (Txn::new().check_absent(a.clone()).delete(b.clone()), Failed::Check(0)),
    ];
    for (txn, expected) in rows {
        assert_eq!(failed(commit(&*backend, txn.clone()).await), expected, "{txn:?}");
    }
    // Nothing of all that was applied.
    let listing = backend.list(&ctx(), &dir("/")).await.unwrap();
    assert_eq!(listing.children.len(), 1);
    assert_eq!(backend.get(&ctx(), &a).await.unwrap().unwrap().meta.modified, first.revision);

    let all = Txn::new()
        .check(Check::Created(a.clone(), first.revision))
        .check_version(a.clone(), first.version)
        .check_absent(b.clone())
        .put(a.clone(), "2")
        .put(b.clone(), "")
        .create(c.clone(), vec![0_u8, 255], Lifetime::Persistent);
    let done = commit(&*backend, all).await.committed().unwrap();
    assert_eq!(done.revision(), Some(Revision::new(first.revision.get() + 1)));
    assert!(done.written.iter().all(|written| written.unwrap().revision == done.revision().unwrap()));
    assert_eq!(&*backend.get(&ctx(), &c).await.unwrap().unwrap().value, [0, 255]);
    let kept = backend.get(&ctx(), &a).await.unwrap().unwrap().meta;
    assert_eq!((kept.created, kept.modified), (first.revision, done.revision().unwrap()));

    // A condition on a key that the transaction itself deletes or makes.
    let turn = Txn::new().check_exists(a.clone()).check_exists(b.clone()).delete(a.clone()).delete(b.clone());
    assert_eq!(commit(&*backend, turn).await.committed().unwrap().written, [None, None]);
    let only = commit(&*backend, Txn::new().check_absent(a.clone())).await.committed().unwrap();
    assert_eq!(only.written, []);
}
}

on_all! {
async fn an_ephemeral_key_keeps_its_owner_through_puts_and_goes_with_it(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let (one, mine) = session(&backend, 10_000).await;
    let make = Txn::new().create(key("/e/1"), "a", Lifetime::Session).create(key("/e/2"), "b", Lifetime::Persistent);
    assert!(backend.commit(&mine, make).await.unwrap().is_committed());
    commit(&*backend, Txn::new().put(key("/e/1"), "c")).await.committed().unwrap();
    let entry = backend.get(&ctx(), &key("/e/1")).await.unwrap().unwrap();
    assert_eq!((&*entry.value, entry.meta.owner.as_ref()), (&b"c"[..], Some(one.id())));
    // Deleted and made again by nobody's session, it stays.
    commit(&*backend, Txn::new().delete(key("/e/1"))).await.committed().unwrap();
    commit(&*backend, Txn::new().put(key("/e/1"), "d")).await.committed().unwrap();
    one.close().await.unwrap();
    one.close().await.unwrap();
    assert_eq!(*one.state().borrow(), SessionState::Lost);
    assert!(backend.get(&ctx(), &key("/e/1")).await.unwrap().is_some());
    let late = backend.commit(&mine, Txn::new().create(key("/e/3"), "", Lifetime::Session)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::SessionLost);
    let late = backend.create_ordered(&mine, place("/line", 1)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::SessionLost);
    // Without a session there is nobody to own it.
    let nobody = backend.commit(&ctx(), Txn::new().create(key("/e/3"), "", Lifetime::Session)).await.unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::InvalidArgument);
}
}

on_all! {
async fn a_session_that_the_store_does_not_know_is_lost(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let stranger = OpContext::for_session(coord_api::SessionId::new("nobody"));
    let e = backend.create_ordered(&stranger, place("/line", 1)).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::SessionLost);
    // One that is past its deadline and not reaped yet: the deadline decides, and so does its owner hear of it.
    let (session, mine) = session(&backend, 60_000).await;
    let mut conn = raw(&server).await;
    tell(&mut conn, &["ZADD", "{test}:ss", "1", session.id().as_str()]).await.unwrap();
    let e = backend.create_ordered(&mine, place("/line", 1)).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::SessionLost);
    within("the owner hears", SOON, session.state().wait_for(|s| *s == SessionState::Lost)).await.unwrap();
}
}

on_all! {
async fn a_nonce_joins_once_and_the_line_stands_in_the_order_of_the_store(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let (_session, mine) = session(&backend, 10_000).await;
    // The smallest nonce joins last, and must not get ahead.
    let mut joined = Vec::new();
    for nonce in [9, 5, 7, 1] {
        joined.push(backend.create_ordered(&mine, place("/line", nonce)).await.unwrap());
    }
    let again = backend.create_ordered(&mine, place("/line", 5)).await.unwrap();
    assert_eq!((&again.key, again.created), (&joined[1].key, joined[1].created));
    commit(&*backend, Txn::new().put(key("/line/zz"), "").put(key("/line/a/b"), "").put(key("/line/a/c"), "")).await.committed().unwrap();
    let expect: Vec<_> = joined.iter().map(|o| o.key.clone()).chain([key("/line/a"), key("/line/zz")]).collect();
    let listing = backend.list(&ctx(), &dir("/line")).await.unwrap();
    let got: Vec<_> = listing.children.iter().map(|child| child.key.clone()).collect();
    assert_eq!(got, expect);
    assert_eq!(listing.children[0].nonce, Some(Nonce::new(9)));
    assert_eq!(listing.children[0].tag.as_ref().unwrap().as_str(), "lock-");

    // The same line from a copy of the directory, when there is one.
    let watch = backend.watch(&ctx(), &dir("/line"), Start::Snapshot).await.unwrap();
    let mut watch = watch;
    within("a snapshot", SOON, watch.next()).await.unwrap().unwrap();
    let last = backend.create_ordered(&mine, place("/line", 2)).await.unwrap();
    let line = last.line.unwrap();
    assert!(line.revision >= last.created);
    assert_eq!(line.position(&last.key), Some(4));
    assert_eq!(line.children.len(), 7);
}
}

on_all! {
async fn large_directories_list_and_watch_whole(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    for batch in 0..25 {
        let txn = (0..100).fold(Txn::new(), |txn, i| txn.put(key(&format!("/big/{:04}", batch * 100 + i)), "v"));
        commit(&*backend, txn).await.committed().unwrap();
    }
    commit(&*backend, (0..120).fold(Txn::new(), |txn, i| txn.put(key(&format!("/wide/{}/x/{i:03}", i % 2)), "v"))).await.committed().unwrap();
    let names = backend.list(&ctx(), &dir("/big")).await.unwrap();
    assert_eq!(names.children.len(), 2500);
    let names = backend.list(&ctx(), &dir("/wide")).await.unwrap();
    assert_eq!(names.children.iter().map(|c| c.key.as_str()).collect::<Vec<_>>(), ["/wide/0", "/wide/1"]);
    assert_eq!(backend.list(&ctx(), &dir("/wid")).await.unwrap().children, []);
    let mut watch = backend.watch(&ctx(), &dir("/"), Start::Snapshot).await.unwrap();
    match within("a snapshot", SOON, watch.next()).await.unwrap().unwrap() {
        WatchEvent::Snapshot { entries, .. } => assert_eq!(entries.len(), 2620),
        other => panic!("{other:?}"),
    }
}
}

/// Pages are read while others write: what comes out must be the state at one moment. Each transaction moves a
/// token, so that a torn reading shows none or two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reading_in_pages_shows_one_moment() {
    let server = plain(Which::Redis8).await;
    let (backend, writer) = (open(&server).await, open(&server).await);
    for batch in 0..30 {
        let txn =
            (0..100).fold(Txn::new(), |txn, i| txn.put(key(&format!("/p/{:04}/v", batch * 100 + i)), "v"));
        commit(&*backend, txn).await.committed().unwrap();
    }
    commit(&*backend, Txn::new().put(key("/p/0000/token"), "")).await.committed().unwrap();
    let moves = Arc::new(AtomicUsize::new(0));
    let moved = Arc::clone(&moves);
    let moving = tokio::spawn(async move {
        let mut at = 0;
        loop {
            let next = (at + 1537) % 3000;
            let txn = Txn::new()
                .delete(key(&format!("/p/{at:04}/token")))
                .put(key(&format!("/p/{next:04}/token")), "");
            commit(&*writer, txn).await.committed().unwrap();
            at = next;
            moved.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut readings = 0;
    while readings < 10 || moves.load(Ordering::Relaxed) <= 100 {
        let mut watch = backend.watch(&ctx(), &dir("/p"), Start::After(Revision::new(1))).await.unwrap();
        let snapshot = within("a snapshot", SOON, watch.next()).await.unwrap().unwrap();
        let WatchEvent::Snapshot { entries, .. } = snapshot else { panic!("{snapshot:?}") };
        let tokens = entries.iter().filter(|entry| entry.key.name() == "token").count();
        assert_eq!((tokens, entries.len()), (1, 3001));
        assert!(!moving.is_finished(), "the writer failed");
        readings += 1;
    }
    moving.abort();
}

on_all! {
async fn a_watch_shows_every_change_of_its_directory_and_nothing_else(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let other = open(&server).await;
    commit(&*backend, Txn::new().put(key("/w/old"), "0")).await.committed().unwrap();
    let mut watch = backend.watch(&ctx(), &dir("/w"), Start::Snapshot).await.unwrap();
    match within("a snapshot", SOON, watch.next()).await.unwrap().unwrap() {
        WatchEvent::Snapshot { entries, .. } => assert_eq!(entries.len(), 1),
        event => panic!("{event:?}"),
    }
    let mut last = Revision::ZERO;
    for i in 0..50 {
        commit(&*other, Txn::new().put(key("/w/a"), format!("{i}")).put(key("/wx"), "")).await.committed().unwrap();
    }
    let done = commit(&*other, Txn::new().delete(key("/w/a")).put(key("/w/d/e"), "")).await.committed().unwrap();
    let (mut values, mut deleted) = (Vec::new(), false);
    loop {
        let event = within("the next event", SOON, watch.next()).await.unwrap().unwrap();
        assert!(event.revision() >= last, "{event:?} after {last}");
        last = event.revision();
        match event {
            WatchEvent::Put(entry) if entry.key == key("/w/a") => {
                values.push(String::from_utf8(entry.value.to_vec()).unwrap());
            }
            WatchEvent::Put(entry) => {
                assert_eq!((entry.key, Some(entry.meta.modified)), (key("/w/d/e"), done.revision()));
                break;
            }
            WatchEvent::Delete { key: deleted_key, revision } => {
                assert_eq!((deleted_key, Some(revision)), (key("/w/a"), done.revision()));
                deleted = true;
            }
            WatchEvent::Progress(_) => {}
            event => panic!("{event:?}"),
        }
    }
    assert!(deleted);
    assert_eq!(values, (0..50).map(|i| i.to_string()).collect::<Vec<_>>());
}
}

on_all! {
async fn a_watch_resumes_from_the_log_and_gets_a_snapshot_where_that_does_not_reach(which: Which) {
    let server = plain(which).await;
    let backend = connect(&format!("{}/test?log_max=100", server.url())).await.unwrap();
    let first = commit(&*backend, Txn::new().put(key("/r/a"), "0")).await.committed().unwrap().revision().unwrap();
    for i in 1..=20 {
        commit(&*backend, Txn::new().put(key("/r/a"), format!("{i}"))).await.committed().unwrap();
    }
    let mut watch = backend.watch(&ctx(), &dir("/r"), Start::After(first)).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 20 {
        match within("the history", SOON, watch.next()).await.unwrap().unwrap() {
            WatchEvent::Put(entry) => seen.push(entry.value),
            WatchEvent::Progress(_) => {}
            event => panic!("{event:?}"),
        }
    }
    assert_eq!(seen[0], "1");
    // And goes on from there.
    commit(&*backend, Txn::new().put(key("/r/a"), "last")).await.committed().unwrap();
    loop {
        match within("the next", SOON, watch.next()).await.unwrap().unwrap() {
            WatchEvent::Put(entry) => break assert_eq!(entry.value, "last"),
            WatchEvent::Progress(_) => {}
            event => panic!("{event:?}"),
        }
    }
    for i in 0..400 {
        commit(&*backend, Txn::new().put(key("/r/b"), format!("{i}"))).await.committed().unwrap();
    }
    let mut conn = raw(&server).await;
    let length: i64 = redis::cmd("XLEN").arg("{test}:ev").query_async(&mut conn).await.unwrap();
    assert!((100..=300).contains(&length), "{length}");
    let mut late = backend.watch(&ctx(), &dir("/r"), Start::After(first)).await.unwrap();
    let event = within("a snapshot", SOON, late.next()).await.unwrap().unwrap();
    assert!(matches!(&event, WatchEvent::Snapshot { entries, .. } if entries.len() == 2), "{event:?}");
    // A revision that this store never had.
    let mut future = backend.watch(&ctx(), &dir("/r"), Start::After(Revision::new(u64::MAX >> 11))).await.unwrap();
    let e = within("a refusal", SOON, future.next()).await.unwrap().unwrap_err();
    assert!(e.to_string().contains("has not reached"), "{e}");
}
}

on_all! {
async fn every_kind_of_waiting_ends_when_what_was_seen_is_no_longer_true(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let put = commit(&*backend, Txn::new().put(key("/d/a"), "1")).await.committed().unwrap().revision().unwrap();
    let at = backend.list(&ctx(), &dir("/d")).await.unwrap().revision;
    // Not true now: at once.
    for seen in [Seen::Absent(key("/d/a")), Seen::Exists(key("/d/b")), Seen::Value(key("/d/a"), Revision::new(put.get() - 1))] {
        within("what is not true", SOON, backend.wait(&ctx(), &seen)).await.unwrap();
    }
    let cases = [
        (Seen::Absent(key("/d/b")), Txn::new().put(key("/d/b"), "")),
        (Seen::Value(key("/d/a"), put), Txn::new().put(key("/d/a"), "2")),
        (Seen::Children(dir("/d"), at), Txn::new().put(key("/d/c"), "")),
        (Seen::Exists(key("/d/a")), Txn::new().delete(key("/d/a"))),
    ];
    for (seen, txn) in cases {
        let waiter = std::sync::Arc::clone(&backend);
        let wait = {
            let seen = seen.clone();
            tokio::spawn(async move { waiter.wait(&ctx(), &seen).await })
        };
        commit(&*backend, txn).await.committed().unwrap();
        within(&format!("{seen:?}"), SOON, wait).await.unwrap().unwrap();
    }
}
}

on_all! {
async fn closing_ends_what_waits_and_what_watches(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let mut watch = backend.watch(&ctx(), &dir("/x"), Start::Snapshot).await.unwrap();
    within("a snapshot", SOON, watch.next()).await.unwrap().unwrap();
    let at = watch_revision(&*backend).await;
    let mut resumed = backend.watch(&ctx(), &dir("/x"), Start::After(at)).await.unwrap();
    let waiter = std::sync::Arc::clone(&backend);
    let wait = tokio::spawn(async move { waiter.wait(&ctx(), &Seen::Absent(key("/x/y"))).await });
    backend.close().await.unwrap();
    backend.close().await.unwrap();
    let e = within("the waiter", SOON, wait).await.unwrap().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed);
    for watch in [&mut watch, &mut resumed] {
        let end = async {
            loop {
                match watch.next().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error,
                    None => panic!("ended without a word"),
                }
            }
        };
        assert_eq!(within("the watch", SOON, end).await.kind(), ErrorKind::Closed);
    }
    let e = backend.open_session(&coord_api::SessionOptions::default()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed);
}
}

async fn watch_revision(backend: &dyn Backend) -> Revision {
    backend.list(&ctx(), &dir("/")).await.unwrap().revision
}
