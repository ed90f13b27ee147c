//! Sessions: their lease, their deadline, their end.

use std::{sync::Arc, time::Duration};

use coord_api::{ErrorKind, Lifetime, SessionDriver, SessionState, Txn};
use coord_testbed::{Link, ServerOptions};
use tokio::time::Instant;

use crate::support::*;

/// The shortest that the test servers grant.
const SHORT: Duration = Duration::from_secs(2);

async fn ephemeral(store: &Arc<dyn coord_api::Backend>, session: &Arc<dyn SessionDriver>, path: &str) {
    let txn = Txn::new().create(key(path), "", Lifetime::Session);
    assert!(store.commit(&owned_by(session), txn).await.expect("a create").is_committed());
}

#[tokio::test]
async fn a_session_lives_as_long_as_it_is_renewed_and_ends_when_it_is_closed() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, Duration::from_millis(1500)).await;
    assert_eq!(session.ttl(), SHORT, "whole seconds, rounded up");
    ephemeral(&store, &session, "/e").await;
    let first = session.valid_until();
    assert!(first <= Instant::now() + SHORT);
    until("renewals move the deadline", async || session.valid_until() > first + 2 * SHORT).await;
    assert_eq!(*session.state().borrow(), SessionState::Live);
    assert!(get(&store, "/e").await.is_some());
    session.close().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(*session.state().borrow(), SessionState::Lost);
    assert!(session.valid_until() <= Instant::now());
    assert!(get(&store, "/e").await.is_none());
    let txn = Txn::new().create(key("/e"), "", Lifetime::Session);
    let error = store.commit(&owned_by(&session), txn).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost);
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_abandoned_session_and_a_dropped_one_end_in_the_background() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let other = open(&server.url()).await.unwrap();
    for (n, how) in ["abandon", "drop", "drop the store"].into_iter().enumerate() {
        let path = format!("/e/{n}");
        let session = session(if n == 2 { &other } else { &store }, Duration::from_secs(600)).await;
        ephemeral(if n == 2 { &other } else { &store }, &session, &path).await;
        match n {
            0 => session.abandon(),
            1 => drop(session),
            _ => break,
        }
        until(how, async || get(&store, &path).await.is_none()).await;
    }
    drop(other);
    until("the dropped store's session ends", async || get(&store, "/e/2").await.is_none()).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_session_of_another_handle_owns_nothing_here() {
    let server = server!();
    let (store, other) = (open(&server.url()).await.unwrap(), open(&server.url()).await.unwrap());
    let session = session(&other, SHORT).await;
    let txn = Txn::new().create(key("/e"), "", Lifetime::Session);
    let error = store.commit(&owned_by(&session), txn).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost);
    let error = store
        .create_ordered(&owned_by(&session), request(&store, "/l", Lifetime::Session))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost);
    store.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_others_revoke_is_lost_at_the_next_renewal() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, SHORT).await;
    let lease = i64::from_str_radix(session.id().as_str(), 16).unwrap();
    raw(&server).await.lease_revoke(lease).await.unwrap();
    state(&session, SessionState::Lost).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_session_survives_a_server_that_is_killed_and_comes_back() {
    let mut server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, Duration::from_secs(10)).await;
    ephemeral(&store, &session, "/e").await;
    server.kill().await.unwrap();
    state(&session, SessionState::Suspended).await;
    server.restart().await.unwrap();
    state(&session, SessionState::Live).await;
    assert_eq!(get(&store, "/e").await.unwrap().meta.owner.as_ref(), Some(session.id()));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_pause_shorter_than_the_ttl_suspends_and_a_longer_one_loses_before_the_server_frees() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, Duration::from_secs(5)).await;
    ephemeral(&store, &session, "/e").await;
    server.pause().await.unwrap();
    state(&session, SessionState::Suspended).await;
    server.resume().await.unwrap();
    state(&session, SessionState::Live).await;
    assert!(get(&store, "/e").await.is_some());

    server.pause().await.unwrap();
    let until_when = session.valid_until();
    state(&session, SessionState::Lost).await;
    assert!(Instant::now() >= until_when && Instant::now() < until_when + Duration::from_secs(1));
    server.resume().await.unwrap();
    // Lost for ever, although the server may still have had the lease; and the server is told.
    until("the key goes", async || {
        assert_eq!(*session.state().borrow(), SessionState::Lost);
        matches!(store.get(&nobody(), &key("/e")).await, Ok(None))
    })
    .await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn cut_off_owners_know_before_others_can_take_over() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let store = open(&proxy.url()).await.unwrap();
    let others = open(&server.url()).await.unwrap();
    let session = session(&store, SHORT).await;
    ephemeral(&store, &session, "/e").await;
    proxy.set(Link::BlackHole);
    let lost = {
        let session = Arc::clone(&session);
        tokio::spawn(async move {
            state(&session, SessionState::Lost).await;
            Instant::now()
        })
    };
    soon("the key is free", others.wait(&nobody(), &coord_api::Seen::Exists(key("/e")))).await.unwrap();
    let free = Instant::now();
    assert!(lost.is_finished(), "the owner knows first");
    assert!(lost.await.unwrap() < free);
    proxy.set(Link::Up);
    store.close().await.unwrap();
    others.close().await.unwrap();
}

#[tokio::test]
async fn a_blocked_runtime_does_not_lose_its_session() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, SHORT).await;
    // The test's own runtime has one thread, and it is gone for twice the ttl.
    let (_keep, never) = std::sync::mpsc::channel::<()>();
    assert!(never.recv_timeout(2 * SHORT + SHORT / 2).is_err());
    assert_eq!(*session.state().borrow(), SessionState::Live);
    assert!(session.valid_until() > Instant::now());
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_server_grants_no_less_than_its_own_minimum() {
    let server = server!(ServerOptions::new().election(Duration::from_secs(2)));
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, Duration::from_secs(1)).await;
    assert_eq!(session.ttl(), Duration::from_secs(3), "half as much again as the election time-out");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_quiet_session_is_not_taken_for_an_attack() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let store = open(&proxy.url()).await.unwrap();
    // One renewal in 20 s; etcd ends connections that it thinks are pinged too often within 10 s.
    let session = session(&store, Duration::from_secs(60)).await;
    let first = session.valid_until();
    until("a renewal", async || {
        assert_eq!(*session.state().borrow(), SessionState::Live);
        session.valid_until() > first
    })
    .await;
    assert_eq!(proxy.connections(), 1);
    store.close().await.unwrap();
}
