//! Servers that die, freeze, forget and lose replies.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::{sync::Arc, time::Duration};

use common::*;
use coord_api::{
    Backend, Durability, ErrorKind, Freshness, Lifetime, Nonce, OpContext, OrderedCreate, Outcome, Result,
    Retry, Revision, Seen, SessionState, Start, Tag, Txn, TxnOutcome, WatchEvent, WatchStream,
};
use coord_testbed::{Link, ServerOptions};
use futures::StreamExt;
use tokio::time::Instant;

const SOON: Duration = Duration::from_secs(10);

async fn put(backend: &Arc<dyn Backend>, path: &str, value: &str) -> Result<Revision> {
    let outcome = backend.commit(&ctx(), Txn::new().put(key(path), value.to_owned())).await?;
    Ok(outcome.committed().unwrap().revision().unwrap())
}

fn place(nonce: u128) -> OrderedCreate {
    let (tag, nonce) = (Tag::new("lock-").unwrap(), Nonce::new(nonce));
    OrderedCreate { dir: dir("/line"), tag, nonce, value: "".into(), lifetime: Lifetime::Session }
}

/// Puts until it works: what a caller does while a server comes back.
async fn put_in_the_end(backend: &Arc<dyn Backend>, path: &str, value: &str) -> Revision {
    until("a put works again", SOON, || async { put(backend, path, value).await.ok() }).await
}

async fn next(watch: &mut WatchStream) -> Result<WatchEvent> {
    within("an event", SOON, watch.next()).await.unwrap()
}

/// The next event that tells something.
async fn news(watch: &mut WatchStream) -> WatchEvent {
    loop {
        match next(watch).await.unwrap() {
            WatchEvent::Progress(_) => {}
            event => return event,
        }
    }
}

on_all! {
async fn a_killed_server_with_a_log_comes_back_with_everything_and_larger_revisions(which: Which) {
    let mut server = start(which, ServerOptions::new().extra("appendfsync", "always")).await;
    let backend = open(&server).await;
    assert_eq!(backend.info().guarantees.durability, Durability::Restart);
    assert!(!backend.info().guarantees.can_lose_acknowledged_writes && backend.info().warnings.is_empty());
    let (session, mine) = session(&backend, 10_000).await;
    let place = backend.create_ordered(&mine, place(1)).await.unwrap();
    let mut watch = backend.watch(&ctx(), &dir("/a"), Start::Snapshot).await.unwrap();
    let before = put(&backend, "/a/b", "1").await.unwrap();
    while next(&mut watch).await.unwrap().revision() < before {}

    server.kill().await.unwrap();
    let mut states = session.state();
    within("the session is suspended", SOON, states.wait_for(|s| *s == SessionState::Suspended)).await.unwrap();
    let began = Instant::now();
    let down = put(&backend, "/a/b", "2").await.unwrap_err();
    assert_eq!((down.kind(), down.outcome()), (ErrorKind::Unavailable, Outcome::NotApplied), "{down}");
    assert!(began.elapsed() < Duration::from_secs(4));
    server.restart().await.unwrap();

    within("the session is renewed", SOON, states.wait_for(|s| *s == SessionState::Live)).await.unwrap();
    let after = put_in_the_end(&backend, "/a/b", "3").await;
    assert!(after > before);
    assert!(backend.get(&ctx(), &place.key).await.unwrap().is_some(), "the ephemeral key lives on");
    // The history is whole: no new snapshot.
    let event = news(&mut watch).await;
    assert!(matches!(&event, WatchEvent::Put(entry) if entry.value == "3"), "{event:?}");
    session.close().await.unwrap();
    assert_eq!(backend.get(&ctx(), &place.key).await.unwrap(), None);
}
}

on_all! {
async fn a_killed_server_without_a_log_forgets_all_but_revisions_still_grow(which: Which) {
    let mut server = start(which, ServerOptions::new().extra("appendonly", "no")).await;
    let backend = open(&server).await;
    let info = backend.info();
    assert_eq!(info.guarantees.durability, Durability::Process);
    assert!(info.guarantees.can_lose_acknowledged_writes && info.warnings[0].contains("append-only"), "{info:?}");
    let (session, mine) = session(&backend, 10_000).await;
    let lost = backend.create_ordered(&mine, place(1)).await.unwrap();
    let mut watch = backend.watch(&ctx(), &dir("/"), Start::Snapshot).await.unwrap();
    assert!(matches!(news(&mut watch).await, WatchEvent::Snapshot { .. }));

    server.kill().await.unwrap();
    server.restart().await.unwrap();
    // The store does not know the session any more, and its owner hears of it.
    within("the session is lost", SOON, session.state().wait_for(|s| *s == SessionState::Lost)).await.unwrap();
    let e = backend.create_ordered(&mine, place(2)).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::SessionLost);
    let (_other, theirs) = common::session(&backend, 10_000).await;
    let next = backend.create_ordered(&theirs, place(3)).await.unwrap();
    assert!(next.created > lost.created, "a fencing token went back");
    let event = news(&mut watch).await;
    assert!(matches!(&event, WatchEvent::Snapshot { entries, .. } if entries.iter().all(|e| e.key != lost.key)), "{event:?}");
}
}

on_all! {
async fn a_flushed_namespace_begins_again_with_larger_revisions(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let before = put(&backend, "/a/b", "1").await.unwrap();
    let (session, _) = session(&backend, 1_000).await;
    let mut watch = backend.watch(&ctx(), &dir("/a"), Start::Snapshot).await.unwrap();
    assert!(matches!(news(&mut watch).await, WatchEvent::Snapshot { entries, .. } if entries.len() == 1));
    tell(&mut raw(&server).await, &["FLUSHALL"]).await.unwrap();
    assert_eq!(backend.get(&ctx(), &key("/a/b")).await.unwrap(), None);
    let latest = ctx().with_freshness(Freshness::Latest);
    let after = backend.list(&latest, &dir("/a")).await.unwrap();
    assert!(after.revision > before && after.children.is_empty());
    let event = news(&mut watch).await;
    assert!(matches!(&event, WatchEvent::Snapshot { entries, .. } if entries.is_empty()), "{event:?}");
    within("the session is lost", SOON, session.state().wait_for(|s| *s == SessionState::Lost)).await.unwrap();
}
}

on_all! {
async fn a_session_outlives_a_freeze_shorter_than_its_ttl_and_dies_of_a_longer_one(which: Which) {
    let server = plain(which).await;
    let (backend, other) = (open(&server).await, open(&server).await);
    let (survivor, survivors) = session(&backend, 10_000).await;
    let (victim, victims) = session(&backend, 1_500).await;
    let lives = backend.create_ordered(&survivors, place(1)).await.unwrap();
    let dies = backend.create_ordered(&victims, place(2)).await.unwrap();
    server.pause().await.unwrap();
    // Self-fencing: the owner knows before the store could free it.
    within("the victim's owner knows", Duration::from_secs(3), victim.state().wait_for(|s| *s == SessionState::Lost))
        .await
        .unwrap();
    assert!(victim.valid_until() < Instant::now());
    let e = backend.create_ordered(&victims, place(3)).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::SessionLost);
    let frozen = put(&backend, "/f", "1").await.unwrap_err();
    assert_eq!(frozen.kind(), ErrorKind::Unavailable, "{frozen}");
    server.resume().await.unwrap();
    within("its key goes", SOON, other.wait(&ctx(), &Seen::Exists(dies.key.clone()))).await.unwrap();
    within("the survivor is live", SOON, survivor.state().wait_for(|s| *s == SessionState::Live)).await.unwrap();
    assert!(other.get(&ctx(), &lives.key).await.unwrap().is_some());
    assert_eq!(*victim.state().borrow(), SessionState::Lost);
}
}

on_all! {
async fn an_abandoned_client_loses_its_keys_after_the_ttl_and_not_before(which: Which) {
    let server = plain(which).await;
    let proxy = server.proxied().await.unwrap();
    let gone = connect(&format!("{}/test", proxy.url())).await.unwrap();
    let watcher = open(&server).await;
    let (session, mine) = session(&gone, 2_000).await;
    let place = gone.create_ordered(&mine, place(1)).await.unwrap();
    let last_renewal_before = Instant::now();
    proxy.set(Link::BlackHole);
    within("its owner knows", SOON, session.state().wait_for(|s| *s == SessionState::Lost)).await.unwrap();
    let owner_knew = Instant::now();
    within("others see it", SOON, watcher.wait(&ctx(), &Seen::Exists(place.key.clone()))).await.unwrap();
    assert!(Instant::now() > owner_knew, "others were first");
    let took = last_renewal_before.elapsed();
    // A renewal is due every third of the ttl: the last one was accepted at most so long before.
    assert!(took >= Duration::from_millis(2_000 - 700), "{took:?}");
    assert!(took < Duration::from_millis(2_000 + 1_500), "{took:?}");
}
}

on_all! {
async fn a_lost_reply_is_ambiguous_and_a_join_finds_itself_again(which: Which) {
    let server = plain(which).await;
    let proxy = server.proxied().await.unwrap();
    let backend = connect(&format!("{}/test", proxy.url())).await.unwrap();
    let (_session, mine) = session(&backend, 20_000).await;
    proxy.set(Link::LoseReplies);
    let joined = backend.create_ordered(&mine, place(1)).await.unwrap_err();
    assert_eq!((joined.outcome(), joined.retry()), (Outcome::Unknown, Retry::Ambiguous), "{joined}");
    let read = backend.get(&ctx(), &key("/a")).await.unwrap_err();
    assert_eq!(read.outcome(), Outcome::NotApplied, "{read}");
    proxy.set(Link::Up);
    let again = until("the join works again", SOON, || async { backend.create_ordered(&mine, place(1)).await.ok() });
    let again = again.await;
    let listing = backend.list(&ctx(), &dir("/line")).await.unwrap();
    assert_eq!(listing.children.len(), 1, "one place for one nonce");
    assert_eq!(listing.position(&again.key), Some(0));
}
}

on_all! {
async fn a_deadline_is_kept_and_says_what_may_have_happened(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    // So that the server knows the script: what it does not know it cannot carry out later.
    put(&backend, "/known", "1").await.unwrap();
    server.pause().await.unwrap();
    let began = Instant::now();
    let soon = ctx().with_deadline(began + Duration::from_millis(300));
    let write = backend.commit(&soon, Txn::new().put(key("/a"), "1")).await.unwrap_err();
    let read = backend.get(&ctx().with_deadline(began + Duration::from_millis(600)), &key("/a")).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    assert_eq!((write.kind(), write.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
    assert_eq!((read.kind(), read.outcome()), (ErrorKind::Timeout, Outcome::NotApplied));
    let over = ctx().with_deadline(began);
    let late = backend.commit(&over, Txn::new().put(key("/b"), "1")).await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (ErrorKind::Timeout, Outcome::NotApplied));
    server.resume().await.unwrap();
    // What was sent was applied, though nobody waited for it any more.
    until("the write shows", SOON, || async { backend.get(&ctx(), &key("/a")).await.ok().flatten() }).await;
    assert_eq!(backend.get(&ctx(), &key("/b")).await.unwrap(), None);
}
}

on_all! {
async fn a_dropped_call_is_carried_out_whole(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let mut conn = raw(&server).await;
    // Three steps instead of one: the server has to be told the script first.
    tell(&mut conn, &["SCRIPT", "FLUSH"]).await.unwrap();
    let ctx = ctx();
    let mut call = backend.commit(&ctx, Txn::new().put(key("/a"), "1"));
    assert!(futures::poll!(&mut call).is_pending());
    drop(call);
    let find = || async { backend.get(&OpContext::default(), &key("/a")).await.unwrap() };
    until("the write shows", SOON, find).await;
}
}

on_all! {
async fn a_server_that_forgets_its_scripts_is_told_them_again(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let (session, mine) = session(&backend, 1_000).await;
    let place = backend.create_ordered(&mine, place(1)).await.unwrap();
    let mut conn = raw(&server).await;
    let until = Instant::now() + Duration::from_millis(2_500);
    while Instant::now() < until {
        tell(&mut conn, &["SCRIPT", "FLUSH"]).await.unwrap();
        put(&backend, "/a", "1").await.unwrap();
        assert!(backend.get(&ctx(), &place.key).await.unwrap().is_some());
    }
    assert_ne!(*session.state().borrow(), SessionState::Lost);
}
}

on_all! {
async fn a_watcher_that_was_cut_off_longer_than_the_log_gets_a_snapshot(which: Which) {
    let server = plain(which).await;
    let proxy = server.proxied().await.unwrap();
    let cut = connect(&format!("{}/test?log_max=100", proxy.url())).await.unwrap();
    let writer = connect(&format!("{}/test?log_max=100", server.url())).await.unwrap();
    let mut watch = cut.watch(&ctx(), &dir("/w"), Start::Snapshot).await.unwrap();
    assert!(matches!(news(&mut watch).await, WatchEvent::Snapshot { .. }));
    // A short cut: everything that happened is told one by one.
    proxy.set(Link::Reset);
    for i in 0..20 {
        put(&writer, "/w/a", &i.to_string()).await.unwrap();
    }
    proxy.set(Link::Up);
    for i in 0..20 {
        let event = news(&mut watch).await;
        assert!(matches!(&event, WatchEvent::Put(entry) if entry.value == i.to_string()), "{i}: {event:?}");
    }
    proxy.set(Link::Reset);
    for i in 0..500 {
        put(&writer, "/w/a", &format!("{i} again")).await.unwrap();
    }
    let last = put(&writer, "/w/b", "").await.unwrap();
    proxy.set(Link::Up);
    // What got through before the cut, in order, and then everything at once.
    let mut through = 0;
    loop {
        match news(&mut watch).await {
            WatchEvent::Put(entry) => {
                assert_eq!(entry.value, format!("{through} again"));
                through += 1;
            }
            WatchEvent::Snapshot { entries, revision } => {
                break assert_eq!((entries.len(), revision), (2, last));
            }
            event => panic!("{event:?}"),
        }
    }
}
}

on_all! {
async fn a_failover_that_loses_acknowledged_writes_is_seen_by_watchers_and_tokens_still_grow(which: Which) {
    let primary = start(which, ServerOptions::new().extra("repl-diskless-sync-delay", "0")).await;
    let mut conn = raw(&primary).await;
    let replica = plain(which).await;
    let mut other = raw(&replica).await;
    let (ip, port) = (primary.addr().ip().to_string(), primary.addr().port().to_string());
    tell(&mut other, &["REPLICAOF", &ip, &port]).await.unwrap();
    let url = format!("redis://{},{}/test", primary.addr(), replica.addr());
    let backend = connect(&url).await.unwrap();
    put(&backend, "/a/kept", "1").await.unwrap();
    // WAIT looks at the writes of its own connection.
    tell(&mut conn, &["SET", "marker", "1"]).await.unwrap();
    let attached = || async {
        let have: i64 = redis::cmd("WAIT").arg(1).arg(1000).query_async(&mut conn.clone()).await.unwrap();
        (have == 1).then_some(())
    };
    until("the replica has it", SOON, attached).await;
    // G13: said as soon as it is known.
    let seen = connect(&url).await.unwrap().info();
    assert!(seen.guarantees.can_lose_acknowledged_writes && seen.warnings.iter().any(|warning| warning.contains("replicas")), "{seen:?}");
    // A replica cannot be used.
    let e = connect(&format!("{}/test", replica.url())).await.unwrap_err();
    assert!(e.kind() == ErrorKind::Unavailable && e.to_string().contains("replica"), "{e}");

    // It is promoted while the old primary still serves: what that one accepts from here on is lost.
    tell(&mut other, &["REPLICAOF", "NO", "ONE"]).await.unwrap();
    let mut watch = backend.watch(&ctx(), &dir("/a"), Start::Snapshot).await.unwrap();
    assert!(matches!(news(&mut watch).await, WatchEvent::Snapshot { .. }));
    let mut lost = Revision::ZERO;
    for i in 0..20 {
        lost = put(&backend, &format!("/a/lost{i}"), "1").await.unwrap();
    }
    // With `replicas` the caller is told.
    let careful = connect(&format!("redis://{}/test?replicas=1", primary.addr())).await.unwrap();
    let e = put(&careful, "/a/careful", "1").await.unwrap_err();
    assert!(e.retry() == Retry::Ambiguous && e.to_string().contains("replicas"), "{e}");

    let mut primary = primary;
    primary.kill().await.unwrap();
    let after = put_in_the_end(&backend, "/a/new", "1").await;
    assert!(after > lost, "a fencing token went back");
    assert_eq!(backend.get(&ctx(), &key("/a/lost0")).await.unwrap(), None, "this failover lost nothing: no test");
    loop {
        if let WatchEvent::Snapshot { entries, .. } = news(&mut watch).await {
            let names: Vec<_> = entries.iter().map(|entry| entry.key.name()).collect();
            assert!(names.contains(&"kept") && !names.contains(&"lost0"), "{names:?}");
            break;
        }
    }
}
}

#[tokio::test]
async fn many_renewals_and_calls_do_not_need_the_callers_runtime() {
    let server = plain(Which::Redis8).await;
    let backend = open(&server).await;
    let (session, mine) = session(&backend, 1_000).await;
    let place = backend.create_ordered(&mine, place(1)).await.unwrap();
    // A caller that blocks its only thread for twice the ttl.
    let (sleeper, wake) = std::sync::mpsc::channel::<()>();
    assert!(wake.recv_timeout(Duration::from_millis(2_200)).is_err());
    drop(sleeper);
    assert_eq!(*session.state().borrow(), SessionState::Live);
    let outcome = backend.commit(&mine, Txn::new().update(place.key, "still mine")).await.unwrap();
    assert!(matches!(outcome, TxnOutcome::Committed(_)));
}
