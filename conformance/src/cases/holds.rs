//! What is promised of every way to hold something, while everything works.

use std::{sync::Arc, time::Duration};

use coord_api::{ErrorKind, Key, Txn};
use tokio::time::Instant;

use super::family::{Held, Kind};
use crate::{CaseResult, Cx, sweep::drop_after, within};

cases!("holds", needs Store:
    tries_and_time_outs_leave_nothing_behind,
    zero_and_huge_time_outs_mean_what_they_say,
    dropping_at_any_await_point_leaves_nothing_behind,
    a_dropped_guard_releases_also_without_a_runtime,
    tokens_grow_from_grant_to_grant,
    a_waiter_whose_session_ends_is_told,
    a_holder_whose_session_ends_is_told,
    a_deleted_entry_is_a_loss_and_a_stale_guard_changes_nothing,
    releasing_after_the_loss_harms_nobody,
    the_acquiring_task_may_end_before_its_guard,
    names_that_cannot_be_are_refused,
);

/// An acquire that was not polled for this long waits for its turn.
const PARKED: Duration = Duration::from_secs(1);

/// Promise: who gives up is gone from the line. BB-064, BB-067, BB-073, BB-077, BB-095, BB-310.
async fn tries_and_time_outs_leave_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    for kind in Kind::ALL {
        let held = kind.rival().door(&a).await?.acquire().await?;
        let door = kind.door(&b).await?;
        for _ in 0..20 {
            assert!(door.try_acquire().await?.is_none(), "{kind:?}");
        }
        assert_eq!(kind.entries(a.coord()).await?, kind.width(), "{kind:?}: a try reports when it has left");
        for ms in [1, 30] {
            assert!(door.acquire_timeout(Duration::from_millis(ms)).await?.is_none(), "{kind:?}");
        }
        kind.stand(a.coord(), kind.width()).await?;
        held.release().await?;
        door.try_acquire().await?.expect("free").release().await?;
        kind.stand(a.coord(), 0).await?;
    }
    Ok(())
}

/// Promise: zero is one try, sub-second is sub-second, the largest is for ever.
async fn zero_and_huge_time_outs_mean_what_they_say(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    for kind in Kind::ALL {
        let door = kind.door(&b).await?;
        door.acquire_timeout(Duration::ZERO).await?.expect("free").release().await?;
        let held = kind.rival().door(&a).await?.acquire().await?;
        assert!(door.acquire_timeout(Duration::ZERO).await?.is_none(), "{kind:?}");
        let began = Instant::now();
        assert!(door.acquire_timeout(Duration::from_millis(200)).await?.is_none(), "{kind:?}");
        assert!(began.elapsed() >= Duration::from_millis(200), "{kind:?}");
        // What timed out leaves in the background.
        kind.stand(a.coord(), kind.width()).await?;
        let forever = tokio::spawn(async move { door.acquire_timeout(Duration::MAX).await });
        kind.stand(a.coord(), kind.width() + 1).await?;
        held.release().await?;
        within("the patient waiter", forever).await?.expect("no panic")?.expect("for ever").release().await?;
    }
    Ok(())
}

/// Promise: an acquire that is dropped at any await point leaves nothing behind (G9). BB-070, BB-290.
async fn dropping_at_any_await_point_leaves_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    for kind in Kind::ALL {
        let rival = kind.rival().door(&a).await?;
        let door = kind.door(&b).await?;
        for contended in [false, true] {
            let holder = if contended { Some(rival.acquire().await?) } else { None };
            let stands = if contended { kind.width() } else { 0 };
            for polls in 1.. {
                let ended = match tokio::time::timeout(PARKED, drop_after(door.acquire(), polls)).await {
                    Ok(Some(ended)) => Some(ended?),
                    Ok(None) => {
                        kind.stand(a.coord(), stands).await?;
                        continue;
                    }
                    Err(_) => None, // it only waits from here on: no await point is left
                };
                if let Some(held) = ended {
                    held.release().await?;
                }
                break;
            }
            if let Some(holder) = holder {
                assert!(holder.hold().is_valid(), "{kind:?}");
                holder.release().await?;
            }
        }
        kind.stand(a.coord(), 0).await?;
        rival.try_acquire().await?.expect("free").release().await?;
    }
    Ok(())
}

/// Promise: dropping a guard releases it, from a thread without a runtime too. BB-074.
async fn a_dropped_guard_releases_also_without_a_runtime(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    for kind in Kind::ALL {
        let (held, waiter) = kind.contend(&a, &b).await?;
        std::thread::spawn(move || drop(held)).join().expect("dropping does not panic");
        within(&format!("{kind:?}: the waiter"), waiter).await?.expect("no panic")?.release().await?;
        kind.stand(a.coord(), 0).await?;
    }
    Ok(())
}

/// Promise: every grant has a larger token than the one before, across sessions and empty lines (G1).
async fn tokens_grow_from_grant_to_grant(cx: Arc<Cx>) -> CaseResult {
    for kind in Kind::ALL {
        let mut last = None;
        for _ in 0..3 {
            let session = cx.session().await?;
            let held = kind.door(&session).await?.acquire().await?;
            assert!(Some(held.hold().token()) > last, "{kind:?}: {} after {last:?}", held.hold().token());
            last = Some(held.hold().token());
            held.release().await?;
            session.close().await?;
        }
    }
    Ok(())
}

/// Promise: a waiter learns that its session is over while others still hold. BB-103.
async fn a_waiter_whose_session_ends_is_told(cx: Arc<Cx>) -> CaseResult {
    let a = cx.session().await?;
    for kind in Kind::ALL {
        let b = cx.session().await?;
        let (held, waiter) = kind.contend(&a, &b).await?;
        b.close().await?;
        let error =
            within("the waiter is told", waiter).await?.expect("no panic").expect_err("its session is over");
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{kind:?}: {error}");
        assert!(held.hold().is_valid(), "{kind:?}");
        kind.stand(a.coord(), kind.width()).await?;
        held.release().await?;
    }
    Ok(())
}

/// Promise: a holder learns that its session is over, and a new session gets in. BB-005, BB-007, BB-008, BB-284.
async fn a_holder_whose_session_ends_is_told(cx: Arc<Cx>) -> CaseResult {
    let b = cx.session().await?;
    for kind in Kind::ALL {
        let a = cx.session().await?;
        let door = kind.door(&a).await?;
        let held = door.acquire().await?;
        assert!(held.hold().is_valid() && held.hold().valid_until() > Instant::now(), "{kind:?}");
        held.hold().check().await?;
        a.close().await?;
        within(&format!("{kind:?}: lost resolves"), lost(&held)).await?;
        assert!(!held.hold().is_valid(), "{kind:?}");
        let error = door.acquire().await.expect_err("its session is over");
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{kind:?}: {error}");
        let next = within(&format!("{kind:?}: the next"), kind.rival().door(&b).await?.acquire()).await??;
        assert!(next.hold().token() > held.hold().token(), "{kind:?}");
        next.release().await?;
    }
    Ok(())
}

async fn lost(held: &Held) {
    match held {
        Held::Multi(guard) => guard.lost().await,
        other => other.hold().lost().await,
    }
}

/// Promise: who deletes the entry of a holder ends it: it is told, and its guarded writes change nothing. BB-019,
/// BB-050.
async fn a_deleted_entry_is_a_loss_and_a_stale_guard_changes_nothing(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    for kind in Kind::ALL {
        let held = kind.door(&a).await?.acquire().await?;
        let key = Key::parse(&format!("/data/{kind:?}"))?;
        assert!(commit(&held, Txn::new().put(key.clone(), "held")).await?.is_committed(), "{kind:?}");
        let refused = commit(&held, Txn::new().check_absent(key.clone()).put(key.clone(), "no")).await?;
        assert!(!refused.is_committed() && held.hold().is_valid(), "{kind:?}: its own condition refuses it");
        b.coord().delete(held.hold().key()).await?;
        let error = commit(&held, Txn::new().put(key.clone(), "stale")).await.expect_err("it is stale");
        assert_eq!(error.kind(), ErrorKind::LockLost, "{kind:?}: {error}");
        assert_eq!(b.coord().get(&key).await?.expect("written").value, "held", "{kind:?}");
        within(&format!("{kind:?}: the holder is told"), lost(&held)).await?;
        assert!(!held.hold().is_valid(), "{kind:?}");
        let _ = held.release().await;
        kind.stand(a.coord(), 0).await?;
    }
    Ok(())
}

async fn commit(held: &Held, txn: Txn) -> coord_api::Result<coord_api::TxnOutcome> {
    match held {
        Held::Multi(guard) => guard.commit(txn).await,
        other => other.hold().commit(txn).await,
    }
}

/// Promise: a late release frees nobody else's hold, and ends. BB-031, BB-062, BB-086.
async fn releasing_after_the_loss_harms_nobody(cx: Arc<Cx>) -> CaseResult {
    let b = cx.session().await?;
    for kind in Kind::ALL {
        let a = cx.session().await?;
        let lost = kind.door(&a).await?.acquire().await?;
        a.close().await?;
        let held = within("the next", kind.rival().door(&b).await?.acquire()).await??;
        // It may report that there was nothing to release; it may not hang.
        let _ = within("the late release ends", lost.release()).await?;
        held.hold().check().await?;
        held.release().await?;
    }
    Ok(())
}

/// Promise: a guard belongs to whoever has it, not to the task that acquired it. BB-038.
async fn the_acquiring_task_may_end_before_its_guard(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    for kind in Kind::ALL {
        let door = kind.door(&a).await?;
        let held = tokio::spawn(async move { door.acquire_timeout(Duration::from_secs(5)).await });
        let held = within("the task", held).await?.expect("no panic")?.expect("free");
        held.hold().check().await?;
        assert!(kind.rival().door(&b).await?.try_acquire().await?.is_none(), "{kind:?}");
        held.release().await?;
    }
    Ok(())
}

/// Promise: a name that is no directory is refused before anything is sent, with what is wrong.
async fn names_that_cannot_be_are_refused(cx: Arc<Cx>) -> CaseResult {
    use coord_recipes::{Lock, MultiLock, ReentrantLock, RwLock, Semaphore, SharedLock};
    let session = cx.session().await?;
    for name in ["/", "", "//", "/a//b", "/a/../b", "/a/\u{0}"] {
        let refused = [
            Lock::new(&session, name).map(drop),
            RwLock::new(&session, name).map(drop),
            ReentrantLock::new(&session, name).map(drop),
            SharedLock::new(&session, name).map(drop),
            MultiLock::new(&session, ["/fine", name]).map(drop),
            Semaphore::open(&session, name, 1).await.map(drop),
        ];
        for (which, refused) in refused.into_iter().enumerate() {
            let kind = refused.expect_err("it is no directory of its own").kind();
            assert_eq!(kind, ErrorKind::InvalidArgument, "{name:?}, recipe {which}");
        }
    }
    let nothing = MultiLock::new(&session, Vec::<String>::new());
    assert_eq!(nothing.expect_err("no name").kind(), ErrorKind::InvalidArgument);
    Ok(())
}
