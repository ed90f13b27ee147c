use std::time::Duration;

use coord_api::{Config, Coord, Outcome, Registry, Retry};
use coord_backend_memory::MemoryFactory;

use super::*;

async fn chaotic(plan: &ChaosPlan) -> Coord {
    let config = Config::from_url("memory:").unwrap();
    let coord = Registry::new().with(MemoryFactory).connect(&config).await.unwrap();
    coord.layer(&ChaosLayer::new(plan.clone()))
}

#[tokio::test(start_paused = true)]
async fn the_nth_call_fails_before_it_is_sent_and_only_that_one() {
    let plan = ChaosPlan::new();
    let coord = chaotic(&plan).await;
    plan.fail_before(Method::Commit, 2);
    coord.put("/a", "1").await.unwrap();
    let error = coord.put("/a", "2").await.unwrap_err();
    assert_eq!((error.retry(), error.outcome()), (Retry::Safe, Outcome::NotApplied));
    assert_eq!(coord.get("/a").await.unwrap().unwrap().value, "1");
    coord.put("/a", "3").await.unwrap();
    assert_eq!((plan.calls(Method::Commit), plan.calls(Method::Get), plan.total_calls()), (3, 1, 4));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_a_read_is_safe() {
    let plan = ChaosPlan::new();
    let coord = chaotic(&plan).await;
    plan.lose_reply(Method::Get, 1);
    assert_eq!(coord.get("/a").await.unwrap_err().retry(), Retry::Safe);
}

#[tokio::test(start_paused = true)]
async fn a_held_reply_has_landed_and_waits_for_the_gate() {
    let plan = ChaosPlan::new();
    let coord = chaotic(&plan).await;
    let gate = plan.hold_reply(Method::Commit, 1);
    let writer = tokio::spawn({
        let coord = coord.clone();
        async move { coord.put("/a", "1").await }
    });
    assert!(gate.landed().await);
    assert!(coord.get("/a").await.unwrap().is_some());
    assert!(!writer.is_finished());
    gate.open();
    writer.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_it_landed_is_told_to_the_gate() {
    let plan = ChaosPlan::new();
    let coord = chaotic(&plan).await;
    let gate = plan.hold_reply(Method::Commit, 1);
    drop(coord);
    drop(plan);
    assert!(!gate.landed().await);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_call_is_sent_later() {
    let plan = ChaosPlan::new();
    let coord = chaotic(&plan).await;
    plan.delay(Method::Commit, 1, Duration::from_secs(3));
    let began = tokio::time::Instant::now();
    coord.put("/a", "1").await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_reply_is_lost_does_not_live_on() {
    let plan = ChaosPlan::new();
    let coord = chaotic(&plan).await;
    plan.lose_reply(Method::OpenSession, 1);
    let error = coord.session(Duration::from_secs(10)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(coord.session(Duration::from_secs(10)).await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_faults() {
    let odds = Odds { fail_before: 0.3, lose_reply: 0.3, delay: 0.2, max_delay: Duration::from_millis(10) };
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let plan = ChaosPlan::seeded(seed, odds);
        let coord = chaotic(&plan).await;
        let mut run = Vec::new();
        for _ in 0..40 {
            run.push(coord.put("/a", "1").await.err().map(|e| e.retry()));
        }
        runs.push(run);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    for seen in [None, Some(Retry::Safe), Some(Retry::Ambiguous)] {
        assert!(runs[0].contains(&seen), "{seen:?} never happened");
    }
}
