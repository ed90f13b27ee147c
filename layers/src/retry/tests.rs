use std::time::Duration;

use bytes::Bytes;
use coord_api::{Config, Coord, Lifetime, Nonce, Registry, Tag};
use coord_backend_memory::MemoryFactory;
use tokio::time::Instant;

use super::*;
use crate::{ChaosLayer, ChaosPlan, Method, Odds, TimeoutLayer};

const SECOND: Duration = Duration::from_secs(1);

async fn chaotic(plan: ChaosPlan) -> Coord {
    let config = Config::from_url("memory:?seed=1").unwrap();
    let coord = Registry::new().with(MemoryFactory).connect(&config).await.unwrap();
    coord.layer(&ChaosLayer::new(plan))
}

/// A store behind chaos, time-out and retry, with five seconds a call.
async fn retried() -> (Coord, ChaosPlan) {
    let plan = ChaosPlan::new();
    let coord = chaotic(plan.clone()).await;
    (coord.layer(&TimeoutLayer::default()).layer(&RetryLayer::default()), plan)
}

fn join(nonce: u128) -> OrderedCreate {
    OrderedCreate {
        dir: Dir::parse("/line").unwrap(),
        tag: Tag::new("lock-").unwrap(),
        nonce: Nonce::new(nonce),
        value: Bytes::new(),
        lifetime: Lifetime::Session,
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_surely_not_applied_is_sent_again() {
    let (coord, plan) = retried().await;
    for method in [Method::Commit, Method::Get, Method::List, Method::OpenSession, Method::Watch] {
        plan.fail_before(method, 1);
        plan.fail_before(method, 2);
    }
    coord.put("/a", "1").await.unwrap();
    assert!(coord.get("/a").await.unwrap().is_some());
    assert_eq!(coord.list("/").await.unwrap().children.len(), 1);
    assert!(coord.session(10 * SECOND).await.unwrap().is_valid());
    assert!(coord.watch("/").await.is_ok());
    assert_eq!(plan.calls(Method::Commit), 3);
    assert_eq!(plan.calls(Method::OpenSession), 3);
}

#[tokio::test(start_paused = true)]
async fn an_ambiguous_commit_is_sent_once() {
    let (coord, plan) = retried().await;
    plan.lose_reply(Method::Commit, 1);
    assert_eq!(coord.put("/a", "1").await.unwrap_err().retry(), Retry::Ambiguous);
    assert_eq!(plan.calls(Method::Commit), 1);
}

#[tokio::test(start_paused = true)]
async fn an_ambiguous_join_is_sent_again_and_finds_itself() {
    let (coord, plan) = retried().await;
    let session = coord.session(10 * SECOND).await.unwrap();
    plan.lose_reply(Method::CreateOrdered, 1);
    let ctx = session.coord().context();
    coord.backend().create_ordered(ctx, join(1)).await.unwrap();
    assert_eq!(plan.calls(Method::CreateOrdered), 2);
    assert_eq!(coord.list("/line").await.unwrap().children.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_ambiguous_join_goes_back_to_those_who_ask_for_it() {
    let plan = ChaosPlan::new();
    let coord = chaotic(plan.clone()).await.layer(&RetryLayer::default().leave_ambiguous_joins());
    let session = coord.session(10 * SECOND).await.unwrap();
    plan.lose_reply(Method::CreateOrdered, 1);
    let ctx = session.coord().context();
    let error = coord.backend().create_ordered(ctx, join(1)).await.unwrap_err();
    assert_eq!((error.retry(), plan.calls(Method::CreateOrdered)), (Retry::Ambiguous, 1));
}

/// Promise G8: a later attempt that was surely not applied says nothing about an earlier one.
#[tokio::test(start_paused = true)]
async fn once_ambiguous_the_call_stays_ambiguous() {
    let (coord, plan) = retried().await;
    let session = coord.session(10 * SECOND).await.unwrap();
    plan.lose_reply(Method::CreateOrdered, 1);
    for nth in 2..100 {
        plan.fail_before(Method::CreateOrdered, nth);
    }
    let error = coord.backend().create_ordered(session.coord().context(), join(1)).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Ambiguous);
}

#[tokio::test(start_paused = true)]
async fn what_is_final_is_not_sent_again() {
    let (coord, plan) = retried().await;
    let error = coord.put("/a", vec![0; 2_000_000]).await.unwrap_err();
    assert_eq!((error.kind(), plan.calls(Method::Commit)), (ErrorKind::LimitExceeded, 1));
}

#[tokio::test(start_paused = true)]
async fn the_whole_call_ends_by_the_operation_timeout() {
    let plan = ChaosPlan::seeded(1, Odds { fail_before: 1.0, ..Odds::default() });
    let coord = chaotic(plan.clone()).await.layer(&TimeoutLayer::default()).layer(&RetryLayer::default());
    let began = Instant::now();
    let error = coord.get("/a").await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Safe));
    assert!(began.elapsed() <= 5 * SECOND, "{:?}", began.elapsed());
    assert!(began.elapsed() >= 3 * SECOND, "it gave up after {:?}", began.elapsed());
    assert!(error.to_string().contains("attempts="), "{error}");
}

/// A failed attempt and one that hangs share the deadline.
#[tokio::test(start_paused = true)]
async fn an_attempt_gets_what_is_left_of_the_deadline() {
    let (coord, plan) = retried().await;
    plan.fail_before(Method::Get, 1);
    plan.delay(Method::Get, 2, 60 * SECOND);
    let began = Instant::now();
    assert_eq!(coord.get("/a").await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(began.elapsed(), 5 * SECOND);
    plan.fail_before(Method::OpenSession, 1);
    plan.delay(Method::OpenSession, 2, 60 * SECOND);
    let began = Instant::now();
    assert_eq!(coord.session(10 * SECOND).await.unwrap_err().retry(), Retry::Ambiguous);
    assert_eq!(began.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn waiting_outlasts_trouble_however_long() {
    let (coord, plan) = retried().await;
    for nth in 1..=100 {
        plan.fail_before(Method::Wait, nth);
    }
    let began = Instant::now();
    let waiter = tokio::spawn({
        let coord = coord.clone();
        async move { coord.wait(&Seen::Absent(Key::parse("/a").unwrap())).await }
    });
    while plan.calls(Method::Wait) <= 100 {
        tokio::time::sleep(SECOND).await;
    }
    assert!(!waiter.is_finished() && began.elapsed() > 30 * SECOND);
    coord.put("/a", "1").await.unwrap();
    waiter.await.unwrap().unwrap();
}
