//! The fair lock while links and servers fail.

use std::{sync::Arc, time::Duration};

use coord_api::{ErrorKind, Key, Lifetime, Txn};
use coord_recipes::Lock;
use tokio::time::Instant;

use super::lock::{entries, queue_up};
use crate::{CaseResult, Cx, cut_briefly, eventually, within};

cases!("lock_faults", needs Link:
    a_cut_off_holder_knows_before_the_next_is_granted,
    a_holder_behind_a_cut_that_heals_in_time_keeps_the_lock,
    a_cut_off_waiter_loses_its_place_and_is_told,
    any_lost_reply_leaves_one_entry_or_none,
    a_broken_connection_loses_neither_place_nor_lock,
    a_release_while_cut_off_frees_the_lock_in_the_end,
    an_acquire_with_a_time_out_ends_also_when_nobody_answers,
);

/// Promise: the old guard says lost before the new one is granted, its token is smaller, its writes are refused
/// (G1, G2).
async fn a_cut_off_holder_knows_before_the_next_is_granted(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) = (a.coord.session(Cx::SHORT).await?, b.coord.session(Cx::LONG).await?);
    let old = Arc::new(Lock::new(&session_a, "/locks/x")?.acquire().await?);
    let lock_b = Lock::new(&session_b, "/locks/x")?;
    // The clock decides and not the signal, which a loaded machine may deliver late.
    let next = tokio::spawn({
        let old = Arc::clone(&old);
        async move { lock_b.acquire().await.map(|next| (next, old.is_valid())) }
    });
    eventually("the next is in the line", || async { Ok(entries(&b.coord, "/locks/x").await? == 2) }).await?;
    a.link.blackhole().await;

    within("the holder is told", old.lost()).await?;
    assert!(!old.is_valid());
    let (next, believed) = within("the next", next).await?.expect("no panic")?;
    assert!(!believed, "granted while the old holder believed");
    assert!(next.token() > old.token());

    a.link.heal().await;
    let key = Key::parse("/data/x")?;
    next.commit(Txn::new().put(key.clone(), "next")).await?.committed().expect("it holds");
    let error = old.commit(Txn::new().put(key.clone(), "old")).await.expect_err("it is lost");
    assert!(matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::LockLost), "{error}");
    assert_eq!(b.coord.get(&key).await?.expect("written").value, "next");
    next.release().await?;
    Ok(())
}

/// Promise: a short outage costs the holder nothing.
async fn a_holder_behind_a_cut_that_heals_in_time_keeps_the_lock(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let session = a.coord.session(Duration::from_secs(10)).await?;
    let guard = Lock::new(&session, "/locks/x")?.acquire().await?;
    cut_briefly(&*a.link, &session).await?;
    assert!(guard.is_valid());
    eventually("the store confirms it", || async {
        match guard.check().await {
            Ok(()) => Ok(true),
            Err(error) => {
                assert!(!matches!(error.kind(), ErrorKind::LockLost | ErrorKind::SessionLost), "{error}");
                Ok(false)
            }
        }
    })
    .await?;
    let other = b.coord.session(Cx::LONG).await?;
    assert!(Lock::new(&other, "/locks/x")?.try_acquire().await?.is_none());
    guard.release().await?;
    Ok(())
}

/// Promise: a waiter that is cut off for too long is told, and stands in nobody's way after.
async fn a_cut_off_waiter_loses_its_place_and_is_told(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (holder, waiting) = (b.coord.session(Cx::LONG).await?, a.coord.session(Cx::SHORT).await?);
    let guard = Lock::new(&holder, "/locks/x")?.acquire().await?;
    let waiter = queue_up(&waiting, "/locks/x", 1).await?;
    a.link.blackhole().await;
    let error =
        within("the waiter is told", waiter).await?.expect("no panic").expect_err("its session is lost");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    eventually("its entry is gone", || async { Ok(entries(&b.coord, "/locks/x").await? == 1) }).await?;
    a.link.heal().await;
    guard.release().await?;
    Ok(())
}

/// Promise: whichever reply is lost, the acquire succeeds with one entry, and the release leaves none (G4).
async fn any_lost_reply_leaves_one_entry_or_none(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let session = a.coord.session(Cx::LONG).await?;
    let lock = Lock::new(&session, "/locks/x")?;
    for nth in 1..=5 {
        a.link.lose_reply(nth).await?;
        let guard = within(&format!("acquire with reply {nth} lost"), lock.acquire()).await??;
        assert_eq!(entries(&b.coord, "/locks/x").await?, 1, "reply {nth} lost");
        within(&format!("release with reply {nth} lost"), guard.release()).await??;
        eventually("the line is empty", || async { Ok(entries(&b.coord, "/locks/x").await? == 0) }).await?;
    }
    assert!(session.is_valid());
    Ok(())
}

/// Promise: connections may break at any time; the line stays as it is.
async fn a_broken_connection_loses_neither_place_nor_lock(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) = (a.coord.session(Cx::LONG).await?, b.coord.session(Cx::LONG).await?);
    let guard = Lock::new(&session_a, "/locks/x")?.acquire().await?;
    let waiter = queue_up(&session_b, "/locks/x", 1).await?;
    for _ in 0..3 {
        a.link.reset().await?;
        b.link.reset().await?;
        eventually("both links work", || async {
            Ok(a.coord.get("/other").await.is_ok() && b.coord.get("/other").await.is_ok())
        })
        .await?;
    }
    assert!(guard.is_valid() && !waiter.is_finished());
    within("the release", guard.release()).await??;
    within("the waiter", waiter).await?.expect("no panic")?.release().await?;
    Ok(())
}

/// Promise: a release that cannot reach the store keeps trying; the lock is free when the link heals, or at the ttl.
async fn a_release_while_cut_off_frees_the_lock_in_the_end(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) =
        (a.coord.session(Duration::from_secs(6)).await?, b.coord.session(Cx::LONG).await?);
    let guard = Lock::new(&session_a, "/locks/x")?.acquire().await?;
    a.link.blackhole().await;
    drop(guard);
    a.link.heal().await;
    let next = within("the lock is free", Lock::new(&session_b, "/locks/x")?.acquire()).await??;
    next.release().await?;
    Ok(())
}

/// Promise: a time-out is kept, whatever the network does (G10).
async fn an_acquire_with_a_time_out_ends_also_when_nobody_answers(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let session = a.coord.session(Cx::LONG).await?;
    session.coord().create("/eph", "", Lifetime::Session).await?.expect("new");
    let lock = Lock::new(&session, "/locks/x")?;
    a.link.blackhole().await;
    for timeout in [Duration::from_millis(50), Duration::from_millis(500)] {
        let began = Instant::now();
        // Not acquired in time, or a typed error, as on a store that tells at once that it cannot be reached.
        let acquired = lock.acquire_timeout(timeout).await;
        assert!(!matches!(acquired, Ok(Some(_))), "nobody answered");
        let took = began.elapsed();
        assert!(took < timeout + Cx::SLACK, "{took:?} instead of {timeout:?}");
    }
    a.link.heal().await;
    within("the lock is free", lock.acquire()).await??.release().await?;
    eventually("the line is empty", || async { Ok(entries(session.coord(), "/locks/x").await? == 0) }).await
}
