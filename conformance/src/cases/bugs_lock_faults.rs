//! Bugs that users of other locks met when a link failed.

use std::{sync::Arc, time::Duration};

use coord_recipes::Lock;
use tokio::time::Instant;

use super::lock::{entries, queue_up};
use crate::{CaseResult, Cx, eventually, within};

cases!("bugs_lock_faults", needs Link:
    a_try_that_lost_any_reply_leaves_nothing_behind,
    a_release_whose_reply_was_lost_has_freed_the_lock,
    tries_on_a_store_that_is_away_end_each_in_its_own_time,
    a_guard_asked_right_after_a_freeze_knows_by_the_clock,
);

const DIR: &str = "/locks/x";

/// Promise: who does not get the lock is out of the line, whichever reply its try missed.
///
/// BB-064 (<https://github.com/python-zk/kazoo/issues/732>): a failed try whose cleanup met a suspended session stayed in
/// the line.
async fn a_try_that_lost_any_reply_leaves_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) = (a.coord.session(Cx::LONG).await?, b.coord.session(Cx::LONG).await?);
    let guard = Lock::new(&session_b, DIR)?.acquire().await?;
    let lock = Lock::new(&session_a, DIR)?;
    for nth in 1..=4 {
        a.link.lose_reply(nth).await?;
        let tried = within(&format!("the try with reply {nth} lost"), lock.try_acquire()).await?;
        assert!(!matches!(tried, Ok(Some(_))), "it is held");
        eventually("the holder is alone", || async { Ok(entries(&b.coord, DIR).await? == 1) }).await?;
    }
    assert!(guard.is_valid() && session_a.is_valid());
    guard.release().await?;
    within("the lock is free", lock.acquire()).await??.release().await?;
    Ok(())
}

/// Promise: a release that was applied counts, also if nobody heard so.
///
/// BB-062 (<https://issues.apache.org/jira/browse/CURATOR-678>), BB-091 (<https://github.com/zalando/nakadi/issues/1257>),
/// BB-080 (<https://github.com/redisson/redisson/issues/1626>): after a failed release nobody could acquire.
async fn a_release_whose_reply_was_lost_has_freed_the_lock(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) = (a.coord.session(Cx::LONG).await?, b.coord.session(Cx::LONG).await?);
    for round in 0..3 {
        let guard = within("the acquire", Lock::new(&session_a, DIR)?.acquire()).await??;
        let waiter = queue_up(&session_b, DIR, 1).await?;
        a.link.lose_reply(1).await?;
        // Not awaited: the next must not depend on what its releaser learns.
        drop(guard);
        within(&format!("the next of round {round}"), waiter).await?.expect("no panic")?.release().await?;
    }
    Ok(())
}

/// Promise: a try that is given up holds up no other: there is no worker that only one can use.
///
/// BB-128 (<https://github.com/spring-projects/spring-integration/pull/11244>): an abandoned try kept the only worker.
/// BB-110 (<https://github.com/redisson/redisson/issues/2790>): acquiring hung when the store died.
async fn tries_on_a_store_that_is_away_end_each_in_its_own_time(cx: Arc<Cx>) -> CaseResult {
    const TIMEOUT: Duration = Duration::from_millis(200);
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let session = a.coord.session(Cx::LONG).await?;
    let lock = Lock::new(&session, DIR)?;
    // One that everything is open for.
    within("the first", lock.acquire()).await??.release().await?;
    a.link.blackhole().await;
    for round in 0..10 {
        let began = Instant::now();
        let tried = lock.acquire_timeout(TIMEOUT).await;
        assert!(!matches!(tried, Ok(Some(_))), "nobody answered");
        let took = began.elapsed();
        // Room for a busy machine, and well below the 5 s that the store's own time limit would take.
        assert!(took < TIMEOUT + Cx::SLACK, "round {round}: {took:?}");
    }
    a.link.heal().await;
    within("the lock is free", lock.acquire()).await??.release().await?;
    eventually("the line is empty", || async { Ok(entries(session.coord(), DIR).await? == 0) }).await
}

/// Promise: whoever was away for longer than its lease knows from the first look at its guard, and asks nobody for it.
///
/// BB-020 (<https://github.com/lukas-krecan/ShedLock/issues/132>), BB-041
/// (<https://github.com/swarthy/redis-semaphore/issues/24>): after a sleep of the machine the job ran on.
async fn a_guard_asked_right_after_a_freeze_knows_by_the_clock(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let session = a.coord.session(Cx::SHORT).await?;
    let guard = Lock::new(&session, DIR)?.acquire().await?;
    a.link.blackhole().await;
    // This thread does not run, as when the process is stopped; what it asks first is the guard.
    let until = Instant::now() + Cx::SHORT;
    while Instant::now() < until {
        std::thread::park_timeout(until - Instant::now());
    }
    assert!(!guard.is_valid(), "the first look says that it is over");
    within("the loss is told", guard.lost()).await?;
    a.link.heal().await;
    assert!(!guard.is_valid(), "lost is final");
    Ok(())
}
