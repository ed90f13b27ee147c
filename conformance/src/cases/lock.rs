//! The fair lock, while everything works.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use coord_api::{Coord, ErrorKind, Freshness, Key, Session, Txn};
use coord_recipes::{Lock, LockGuard};
use tokio::time::Instant;

use crate::{CaseResult, Cx, Failure, eventually, look_counter::LookCounter, sweep::drop_after, within};

cases!("lock", needs Store:
    one_holds_at_a_time_and_tokens_grow,
    waiters_are_served_in_the_order_of_the_store,
    tries_and_time_outs_leave_nothing_behind,
    zero_and_huge_time_outs_mean_what_they_say,
    a_cancelled_waiter_does_not_block_those_behind,
    dropping_at_any_await_point_leaves_nothing_behind,
    a_dropped_guard_releases_also_without_a_runtime,
    tokens_grow_across_sessions_and_empty_lines,
    a_waiter_whose_session_ends_is_told_at_once,
    a_holder_whose_session_ends_is_told,
    an_entry_deleted_by_hand_is_a_lost_lock,
    a_guarded_write_applies_while_the_guard_holds,
    a_stale_guard_changes_nothing,
    releasing_after_the_loss_is_an_error_and_harms_nobody,
    the_lock_can_be_taken_again_after_a_loss,
    keys_of_others_beside_the_line_do_no_harm,
    many_sessions_take_turns,
    a_release_wakes_one_waiter,
);

/// An acquire that was not polled for this long waits for the one ahead.
const PARKED: Duration = Duration::from_secs(1);

/// How many entries are in the line, by a latest read.
pub(crate) async fn entries(coord: &Coord, dir: &str) -> Result<usize, Failure> {
    Ok(coord.clone().with_freshness(Freshness::Latest).list(dir).await?.children.len())
}

/// Starts to acquire in a task, and returns once the entry stands in the line behind `ahead` others.
pub(super) async fn queue_up(
    session: &Session,
    dir: &'static str,
    ahead: usize,
) -> Result<tokio::task::JoinHandle<coord_api::Result<LockGuard>>, Failure> {
    let lock = Lock::new(session, dir)?;
    let waiter = tokio::spawn(async move { lock.acquire().await });
    let coord = session.coord().clone();
    eventually("the waiter is in the line", || async { Ok(entries(&coord, dir).await? > ahead) }).await?;
    Ok(waiter)
}

/// Promise: never two holders, and every token is larger than the one before.
async fn one_holds_at_a_time_and_tokens_grow(cx: Arc<Cx>) -> CaseResult {
    let (holders, grants) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
    let mut workers = Vec::new();
    for _ in 0..4 {
        let lock = Lock::new(&cx.session().await?, "/locks/x")?;
        let (holders, grants) = (Arc::clone(&holders), Arc::clone(&grants));
        workers.push(tokio::spawn(async move {
            for _ in 0..8 {
                let guard = lock.acquire().await?;
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
                grants.lock().expect("no panic").push(guard.token());
                tokio::task::yield_now().await;
                holders.fetch_sub(1, Ordering::SeqCst);
                guard.release().await?;
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    for worker in workers {
        within("the workers", worker).await?.expect("no panic")?;
    }
    let grants = grants.lock().expect("no panic").clone();
    assert_eq!(grants.len(), 32);
    assert!(grants.windows(2).all(|pair| pair[0] < pair[1]), "{grants:?}");
    Ok(())
}

/// Promise: first come, first served.
async fn waiters_are_served_in_the_order_of_the_store(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let first = Lock::new(&a, "/locks/x")?.acquire().await?;
    let mut waiters = Vec::new();
    for i in 0..6 {
        waiters.push(queue_up(if i % 2 == 0 { &b } else { &a }, "/locks/x", i + 1).await?);
    }
    let mut held = first;
    for (i, waiter) in waiters.into_iter().enumerate() {
        assert!(!waiter.is_finished(), "waiter {i} did not wait");
        held.release().await?;
        held = within(&format!("waiter {i}"), waiter).await?.expect("no panic")?;
    }
    held.release().await?;
    assert_eq!(entries(a.coord(), "/locks/x").await?, 0);
    Ok(())
}

/// Promise: who gives up is gone from the line.
async fn tries_and_time_outs_leave_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let guard = Lock::new(&a, "/locks/x")?.acquire().await?;
    let lock = Lock::new(&b, "/locks/x")?;
    for _ in 0..10 {
        assert!(lock.try_acquire().await?.is_none());
    }
    assert_eq!(entries(a.coord(), "/locks/x").await?, 1);
    for ms in [1, 20, 100] {
        assert!(lock.acquire_timeout(Duration::from_millis(ms)).await?.is_none());
    }
    eventually("only the holder is left", || async { Ok(entries(a.coord(), "/locks/x").await? == 1) })
        .await?;
    guard.release().await?;
    lock.try_acquire().await?.expect("free").release().await?;
    Ok(())
}

/// Promise: zero is one try, sub-second is sub-second, the largest is for ever.
async fn zero_and_huge_time_outs_mean_what_they_say(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lock = Lock::new(&b, "/locks/x")?;
    lock.acquire_timeout(Duration::ZERO).await?.expect("free").release().await?;
    let guard = Lock::new(&a, "/locks/x")?.acquire().await?;
    assert!(lock.acquire_timeout(Duration::ZERO).await?.is_none());
    let began = Instant::now();
    assert!(lock.acquire_timeout(Duration::from_millis(300)).await?.is_none());
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(3), "{took:?}");
    let forever = tokio::spawn(async move { lock.acquire_timeout(Duration::MAX).await });
    eventually("the waiter is in the line", || async { Ok(entries(a.coord(), "/locks/x").await? == 2) })
        .await?;
    guard.release().await?;
    within("the patient waiter", forever)
        .await?
        .expect("no panic")?
        .expect("it waits for ever")
        .release()
        .await?;
    Ok(())
}

/// Promise: a waiter that gives up lets those behind it pass.
async fn a_cancelled_waiter_does_not_block_those_behind(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let guard = Lock::new(&session, "/locks/x")?.acquire().await?;
    let second = queue_up(&session, "/locks/x", 1).await?;
    let third = queue_up(&session, "/locks/x", 2).await?;
    second.abort();
    eventually("the second has left", || async { Ok(entries(session.coord(), "/locks/x").await? == 2) })
        .await?;
    assert!(!third.is_finished());
    guard.release().await?;
    within("the third", third).await?.expect("no panic")?.release().await?;
    Ok(())
}

/// Promise: an acquire that is dropped at any await point leaves nothing behind (G9).
async fn dropping_at_any_await_point_leaves_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let lock = Lock::new(&session, "/locks/x")?;
    for contended in [false, true] {
        let holder = if contended { Some(lock.acquire().await?) } else { None };
        let mut polls = 1;
        loop {
            let Ok(ended) = tokio::time::timeout(PARKED, drop_after(lock.acquire(), polls)).await else {
                break; // it only waits from here on: no await point is left
            };
            let stands = usize::from(contended);
            if let Some(guard) = ended {
                guard?.release().await?;
                break;
            }
            eventually("the dropped acquire has left", || async {
                Ok(entries(session.coord(), "/locks/x").await? == stands)
            })
            .await?;
            polls += 1;
        }
        if let Some(holder) = holder {
            assert!(holder.is_valid());
            holder.release().await?;
        }
    }
    // The last one that was dropped leaves in the background, too.
    eventually("the line is empty", || async { Ok(entries(session.coord(), "/locks/x").await? == 0) })
        .await?;
    lock.try_acquire().await?.expect("free").release().await?;
    Ok(())
}

/// Promise: dropping a guard releases it, from a thread without a runtime too.
async fn a_dropped_guard_releases_also_without_a_runtime(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let lock = Lock::new(&session, "/locks/x")?;
    let guard = lock.acquire().await?;
    let waiter = queue_up(&session, "/locks/x", 1).await?;
    std::thread::spawn(move || drop(guard)).join().expect("dropping does not panic");
    within("the waiter", waiter).await?.expect("no panic")?.release().await?;
    eventually("the line is empty", || async { Ok(entries(session.coord(), "/locks/x").await? == 0) }).await
}

/// Promise: tokens grow for ever, whatever happens to the sessions and to the directory (G1).
async fn tokens_grow_across_sessions_and_empty_lines(cx: Arc<Cx>) -> CaseResult {
    let mut last = None;
    for _ in 0..4 {
        let session = cx.session().await?;
        let guard = Lock::new(&session, "/locks/x")?.acquire().await?;
        assert!(Some(guard.token()) > last, "{} after {last:?}", guard.token());
        last = Some(guard.token());
        guard.release().await?;
        session.close().await?;
        // Lets a store that collects empty directories do so.
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let session = cx.session().await?;
    let raised = session.coord().clone().with_fence_epoch(1);
    assert!(
        raised.fencing_token(coord_api::Revision::new(1)) > last.expect("granted"),
        "an epoch outranks all before"
    );
    Ok(())
}

/// Promise: a waiter learns that its session is over while others still hold the lock.
async fn a_waiter_whose_session_ends_is_told_at_once(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let guard = Lock::new(&a, "/locks/x")?.acquire().await?;
    let waiter = queue_up(&b, "/locks/x", 1).await?;
    b.close().await?;
    let error =
        within("the waiter is told", waiter).await?.expect("no panic").expect_err("its session is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(guard.is_valid());
    assert_eq!(entries(a.coord(), "/locks/x").await?, 1);
    guard.release().await?;
    Ok(())
}

/// Promise: a holder learns that its session is over.
async fn a_holder_whose_session_ends_is_told(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let guard = Lock::new(&session, "/locks/x")?.acquire().await?;
    assert!(guard.is_valid() && guard.valid_until() > Instant::now());
    guard.check().await?;
    session.close().await?;
    within("lost resolves", guard.lost()).await?;
    assert!(!guard.is_valid() && guard.valid_until() <= Instant::now());
    assert_eq!(guard.check().await.expect_err("lost").kind(), ErrorKind::SessionLost);
    Ok(())
}

/// Promise: whoever deletes the entry of a holder or waiter ends that holder or waiter, and nobody else.
async fn an_entry_deleted_by_hand_is_a_lost_lock(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let guard = Lock::new(&a, "/locks/x")?.acquire().await?;
    let second = queue_up(&b, "/locks/x", 1).await?;
    let third = queue_up(&a, "/locks/x", 2).await?;
    let line = b.coord().clone().with_freshness(Freshness::Latest).list("/locks/x").await?;
    b.coord().delete(&line.children[1].key).await?;
    let error =
        within("the second is told", second).await?.expect("no panic").expect_err("its entry is gone");
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    assert!(!third.is_finished());
    b.coord().delete(guard.key()).await?;
    within("the holder is told", guard.lost()).await?;
    assert!(!guard.is_valid());
    assert_eq!(guard.check().await.expect_err("gone").kind(), ErrorKind::LockLost);
    within("the third", third).await?.expect("no panic")?.release().await?;
    Ok(())
}

/// Promise: while the guard holds, a guarded transaction is an ordinary one.
async fn a_guarded_write_applies_while_the_guard_holds(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let guard = Lock::new(&session, "/locks/x")?.acquire().await?;
    let key = Key::parse("/data/x")?;
    assert!(guard.commit(Txn::new().put(key.clone(), "1")).await?.is_committed());
    let refused = guard.commit(Txn::new().check_absent(key.clone()).put(key.clone(), "2")).await?;
    assert!(!refused.is_committed(), "its own condition refuses it, not the guard");
    assert!(guard.is_valid());
    assert_eq!(session.coord().get(&key).await?.expect("written").value, "1");
    guard.release().await?;
    Ok(())
}

/// Promise: a guard that is lost changes nothing in the store, even if it does not know yet.
async fn a_stale_guard_changes_nothing(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let stale = Lock::new(&a, "/locks/x")?.acquire().await?;
    // Somebody else ends the claim; the guard has not looked since.
    b.coord().delete(stale.key()).await?;
    let next = Lock::new(&b, "/locks/x")?.acquire().await?;
    assert!(next.token() > stale.token());
    let key = Key::parse("/data/x")?;
    next.commit(Txn::new().put(key.clone(), "next")).await?.committed().expect("it holds");
    let error = stale.commit(Txn::new().put(key.clone(), "stale")).await.expect_err("it is stale");
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    assert_eq!(b.coord().get(&key).await?.expect("written").value, "next");
    assert!(!stale.is_valid());
    next.release().await?;
    Ok(())
}

/// Promise: a late release frees nobody else's lock.
async fn releasing_after_the_loss_is_an_error_and_harms_nobody(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lost = Lock::new(&a, "/locks/x")?.acquire().await?;
    a.close().await?;
    let held = within("the next", Lock::new(&b, "/locks/x")?.acquire()).await??;
    // It may report that there was nothing to release; it may not hang.
    let _ = within("the late release ends", lost.release()).await?;
    held.check().await?;
    assert!(held.is_valid());
    held.release().await?;
    Ok(())
}

/// Promise: after a loss a new session takes the lock anew, with a larger token.
async fn the_lock_can_be_taken_again_after_a_loss(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let first = coord.session(Cx::LONG).await?;
    let lost = Lock::new(&first, "/locks/x")?.acquire().await?;
    first.close().await?;
    let second = coord.session(Cx::LONG).await?;
    let guard = within("the lock is free", Lock::new(&second, "/locks/x")?.acquire()).await??;
    assert!(guard.token() > lost.token());
    assert!(!lost.is_valid(), "lost is final");
    guard.release().await?;
    Ok(())
}

/// Promise: keys that no lock made neither break the line nor give the lock to two.
async fn keys_of_others_beside_the_line_do_no_harm(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let lock = Lock::new(&session, "/locks/x")?;
    let guard = lock.acquire().await?;
    for name in ["readme", "a-b-c", "__lock__", "lock-", "_c_", "%", "rlock__x"] {
        session.coord().put(format!("/locks/x/{name}"), "").await?;
    }
    assert!(lock.try_acquire().await?.is_none(), "still held");
    guard.release().await?;
    for name in ["readme", "a-b-c", "__lock__", "lock-", "_c_", "%", "rlock__x"] {
        session.coord().delete(format!("/locks/x/{name}")).await?;
    }
    lock.try_acquire().await?.expect("free").release().await?;
    Ok(())
}

/// Promise: many contend, and each gets its turn.
async fn many_sessions_take_turns(cx: Arc<Cx>) -> CaseResult {
    const SESSIONS: usize = 24;
    let coord = cx.coord().await?;
    let mut workers = Vec::new();
    for _ in 0..SESSIONS {
        let lock = Lock::new(&coord.session(Cx::LONG).await?, "/locks/x")?;
        workers.push(tokio::spawn(async move {
            for _ in 0..3 {
                lock.acquire().await?.release().await?;
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    for worker in workers {
        within("the workers", worker).await?.expect("no panic")?;
    }
    assert_eq!(entries(&coord, "/locks/x").await?, 0);
    Ok(())
}

/// Promise: a release wakes the next in line and nobody else (G5): one look at the line a grant, however many wait.
async fn a_release_wakes_one_waiter(cx: Arc<Cx>) -> CaseResult {
    const WAITERS: usize = 16;
    let looks = LookCounter::default();
    let coord = cx.coord().await?.layer(&looks);
    let session = coord.session(Cx::LONG).await?;
    let mut held = Lock::new(&session, "/locks/x")?.acquire().await?;
    let mut waiters = Vec::new();
    for i in 0..WAITERS {
        waiters.push(queue_up(&session, "/locks/x", i + 1).await?);
    }
    let before = looks.count();
    for waiter in waiters {
        held.release().await?;
        held = within("the next", waiter).await?.expect("no panic")?;
    }
    held.release().await?;
    let each = looks.count() - before;
    // One each, and a few for waits that returned early while their watch was starting.
    assert!(each <= WAITERS + WAITERS / 2, "{each} looks at the line for {WAITERS} grants");
    Ok(())
}
