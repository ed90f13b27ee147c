use std::time::Duration;

use coord_api::{Config, Coord, Registry, SessionId};
use coord_backend_memory::MemoryFactory;
use tokio::time::Instant;

use super::*;
use crate::{ChaosLayer, ChaosPlan, Method};

const SECOND: Duration = Duration::from_secs(1);

/// A store behind chaos and a time-out of two seconds.
async fn timed() -> (Coord, ChaosPlan) {
    let config = Config::from_url("memory:").unwrap();
    let plan = ChaosPlan::new();
    let coord = Registry::new().with(MemoryFactory).connect(&config).await.unwrap();
    (coord.layer(&ChaosLayer::new(plan.clone())).layer(&TimeoutLayer::new(2 * SECOND)), plan)
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_ends_and_may_be_sent_again() {
    let (coord, plan) = timed().await;
    plan.delay(Method::Get, 1, 60 * SECOND);
    let began = Instant::now();
    let error = coord.get("/a").await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Timeout, Retry::Safe));
    assert_eq!(began.elapsed(), 2 * SECOND);
    assert!(error.to_string().starts_with("get: ") && error.to_string().contains("key=/a"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_is_ambiguous_and_was_applied_here() {
    let (coord, plan) = timed().await;
    let gate = plan.hold_reply(Method::Commit, 1);
    let error = coord.put("/a", "1").await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Timeout, Retry::Ambiguous));
    assert!(gate.landed().await);
    assert_eq!(coord.get("/a").await.unwrap().unwrap().value, "1");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_of_checks_only_is_a_read() {
    let (coord, plan) = timed().await;
    plan.delay(Method::Commit, 1, 60 * SECOND);
    let txn = Txn::new().check_absent(Key::parse("/a").unwrap());
    assert_eq!(coord.commit(txn).await.unwrap_err().retry(), Retry::Safe);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_the_caller_goes_before_the_layers() {
    let (coord, plan) = timed().await;
    for (own, expected) in [(SECOND, SECOND), (10 * SECOND, 10 * SECOND)] {
        plan.delay(Method::Get, 1, 60 * SECOND);
        let began = Instant::now();
        let ctx = OpContext::default().with_deadline(began + own);
        let error = coord.backend().get(&ctx, &Key::parse("/a").unwrap()).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::Timeout, expected));
    }
}

#[tokio::test(start_paused = true)]
async fn opening_a_session_is_bounded_and_ambiguous() {
    let (coord, plan) = timed().await;
    plan.delay(Method::OpenSession, 1, 60 * SECOND);
    let error = coord.session(10 * SECOND).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Timeout, Retry::Ambiguous));
}

#[tokio::test(start_paused = true)]
async fn waiting_is_exempt() {
    let (coord, _) = timed().await;
    let began = Instant::now();
    let waiter = tokio::spawn({
        let coord = coord.clone();
        async move { coord.wait(&Seen::Absent(Key::parse("/a").unwrap())).await }
    });
    tokio::time::sleep(3600 * SECOND).await;
    assert!(!waiter.is_finished());
    coord.put("/a", "1").await.unwrap();
    waiter.await.unwrap().unwrap();
    assert!(began.elapsed() >= 3600 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_backend_inside_is_told_the_deadline_and_the_rest_of_the_context() {
    let ctx = OpContext::for_session(SessionId::new("s"));
    let (inside, deadline) = bounded(&ctx, SECOND);
    assert_eq!(inside.deadline, Some(deadline));
    assert_eq!((inside.session, deadline - Instant::now()), (ctx.session, SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_longest_duration_there_is_does_not_overflow_the_clock() {
    let config = Config::from_url("memory:").unwrap();
    let coord = Registry::new().with(MemoryFactory).connect(&config).await.unwrap();
    let coord = coord.layer(&TimeoutLayer::new(Duration::MAX));
    assert!(coord.get("/a").await.unwrap().is_none());
}
