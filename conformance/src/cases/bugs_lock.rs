//! Bugs that users of other locks met, while everything works.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use coord_api::{Error, Key, Txn};
use coord_recipes::Lock;
use tokio::time::Instant;

use super::lock::{entries, queue_up};
use crate::{CaseResult, Cx, eventually, sweep::drop_after, within};

cases!("bugs_lock", needs Store:
    a_lock_that_was_lost_can_be_taken_again_by_the_same_object,
    a_winner_that_waited_long_has_all_of_its_time,
    a_guard_outlives_the_task_that_acquired_it,
    a_release_of_the_past_misses_a_line_that_was_made_anew,
    a_release_that_is_dropped_goes_on,
    many_handles_of_a_held_lock_change_nothing,
    the_next_comes_in_when_a_holder_releases_and_is_gone_at_once,
    tries_of_others_do_not_disturb_a_release,
    the_store_can_be_called_from_where_a_loss_is_told,
    a_hundred_clients_come_and_go,
);

const DIR: &str = "/locks/x";

/// Promise: a loss leaves nothing in the process that says "already held".
///
/// BB-008 (<https://github.com/hashicorp/consul/issues/4902>), BB-007
/// (<https://github.com/openconfig/gnmi-gateway/issues/7>): after a loss the same object could never lock again.
async fn a_lock_that_was_lost_can_be_taken_again_by_the_same_object(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let lock = Lock::new(&session, DIR)?;
    let old = lock.acquire().await?;
    session.coord().commit(Txn::new().delete(old.key().clone())).await?.committed().expect("it was there");
    within("the loss is told", old.lost()).await?;
    let new = within("the second acquire", lock.acquire()).await??;
    assert!(new.token() > old.token() && new.is_valid() && !old.is_valid());
    Ok(())
}

/// Promise: the deadline of a guard is that of the session's last renewal, however long the acquire took.
///
/// BB-022 (<https://github.com/mike-marcacci/node-redlock/issues/296>): after a long wait the lock that was won had
/// ended already.
async fn a_winner_that_waited_long_has_all_of_its_time(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.coord().await?.session(Cx::SHORT).await?);
    let guard = Lock::new(&a, DIR)?.acquire().await?;
    let waiter = queue_up(&b, DIR, 1).await?;
    // Longer than the ttl of the one who waits.
    tokio::time::sleep(Cx::SHORT + Duration::from_secs(1)).await;
    guard.release().await?;
    let won = within("the waiter", waiter).await?.expect("no panic")?;
    assert!(won.is_valid() && won.valid_until() > Instant::now());
    Ok(())
}

/// Promise: a guard lives by its session, and not by the task or the time-out in which it was acquired.
///
/// BB-038 (<https://github.com/vitessio/vitess/pull/11794>): renewals ended with the request that had acquired the lock.
async fn a_guard_outlives_the_task_that_acquired_it(cx: Arc<Cx>) -> CaseResult {
    let session = cx.coord().await?.session(Cx::SHORT).await?;
    let lock = Lock::new(&session, DIR)?;
    let task = tokio::spawn(async move { within("the acquire", lock.acquire()).await });
    let guard = task.await.expect("no panic")??;
    tokio::time::sleep(Cx::SHORT * 2).await;
    assert!(guard.is_valid());
    guard.check().await?;
    assert!(Lock::new(&cx.session().await?, DIR)?.try_acquire().await?.is_none(), "it is held");
    Ok(())
}

/// Promise: an entry's name is its own for ever, also when the directory was deleted and counts from the start again.
///
/// BB-032 (<https://github.com/zk-ruby/zk/issues/34>): a client that released late deleted the entry of another.
async fn a_release_of_the_past_misses_a_line_that_was_made_anew(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let old = Lock::new(&a, DIR)?.acquire().await?;
    let old_key = old.key().clone();
    b.coord().commit(Txn::new().delete(old_key.clone())).await?.committed().expect("it was there");
    let new = within("the next", Lock::new(&b, DIR)?.acquire()).await??;
    assert_ne!(*new.key(), old_key);
    // What the late one is told is its own business; the next must not feel it.
    let _late = within("the late release", old.release()).await?;
    new.check().await?;
    assert_eq!(entries(b.coord(), DIR).await?, 1);
    Ok(())
}

/// Promise: whoever stops waiting for a release does not stop the release.
///
/// BB-085 (<https://github.com/spring-projects/spring-integration/pull/11049>), BB-055
/// (<https://issues.apache.org/jira/browse/CURATOR-205>): an interrupt during the release left the entry.
async fn a_release_that_is_dropped_goes_on(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let (mine, other) = (Lock::new(&a, DIR)?, Lock::new(&b, DIR)?);
    for polls in 0..20 {
        let guard = within("the acquire", mine.acquire()).await??;
        let ended = drop_after(guard.release(), polls).await;
        within(&format!("the next after {polls} polls"), other.acquire()).await??.release().await?;
        if let Some(released) = ended {
            return Ok(released?);
        }
    }
    Ok(())
}

/// Promise: a lock object is a name and no state: making and dropping many of them touches no guard.
///
/// BB-088 (<https://github.com/spring-projects/spring-integration/pull/11044>): a held lock fell out of a cache of
/// objects, and a second object for it could be locked.
async fn many_handles_of_a_held_lock_change_nothing(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let guard = Lock::new(&session, DIR)?.acquire().await?;
    for at in 0..10_000 {
        drop(Lock::new(&session, format!("/locks/{at}").as_str())?);
    }
    assert!(Lock::new(&session, DIR)?.try_acquire().await?.is_none());
    assert!(guard.is_valid());
    guard.check().await?;
    Ok(())
}

/// Promise: a release that was acknowledged wakes the next, whatever becomes of who released.
///
/// BB-065 (<https://github.com/python-zk/kazoo/issues/412>): waiters hung when the holder released and crashed.
async fn the_next_comes_in_when_a_holder_releases_and_is_gone_at_once(cx: Arc<Cx>) -> CaseResult {
    let waiting = cx.session().await?;
    for round in 0..10 {
        let coord = cx.coord().await?;
        let session = coord.session(Cx::LONG).await?;
        let guard = Lock::new(&session, DIR)?.acquire().await?;
        let waiter = queue_up(&waiting, DIR, 1).await?;
        guard.release().await?;
        coord.close().await?;
        let next = within(&format!("the waiter of round {round}"), waiter).await?.expect("no panic")?;
        next.release().await?;
    }
    Ok(())
}

/// Promise: those who try in vain have no part in the holder's release.
///
/// BB-319 (<https://github.com/microsoft/garnet/issues/1369>): a failed try of others broke the holder's check.
async fn tries_of_others_do_not_disturb_a_release(cx: Arc<Cx>) -> CaseResult {
    let (holder, other) = (cx.session().await?, cx.session().await?);
    let tries = Lock::new(&other, DIR)?;
    let stop = Arc::new(AtomicBool::new(false));
    let trying = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            while !stop.load(Ordering::Relaxed) {
                if let Some(guard) = tries.try_acquire().await? {
                    guard.release().await?;
                }
            }
            Ok::<_, Error>(())
        }
    });
    let lock = Lock::new(&holder, DIR)?;
    for round in 0..30 {
        let guard = within(&format!("the acquire of round {round}"), lock.acquire()).await??;
        guard.check().await?;
        guard.release().await?;
    }
    stop.store(true, Ordering::Relaxed);
    within("those who tried", trying).await?.expect("no panic")?;
    eventually("the line is empty", || async { Ok(entries(holder.coord(), DIR).await? == 0) }).await
}

/// Promise: whoever is told of a loss may call the store and the lock from right there.
///
/// BB-112 (<https://issues.apache.org/jira/browse/KAFKA-8532>), BB-113 (<https://issues.apache.org/jira/browse/KAFKA-4360>):
/// the thread that told of the end of the session was the one that had to open the next.
async fn the_store_can_be_called_from_where_a_loss_is_told(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let session = coord.session(Cx::LONG).await?;
    let guard = Lock::new(&session, DIR)?.acquire().await?;
    let told = tokio::spawn(async move {
        guard.lost().await;
        let token = guard.token();
        // Late, and refused; it must not wait for anything.
        let _late = guard.release().await;
        let session = coord.session(Cx::LONG).await?;
        let next = Lock::new(&session, DIR)?.acquire().await?;
        coord.put(Key::parse("/data/x")?, "").await?;
        Ok::<_, Error>(next.token() > token)
    });
    session.close().await?;
    assert!(within("the one that is told", told).await?.expect("no panic")?);
    Ok(())
}

/// Promise: clients that come and go leave nothing that slows down or blocks the next (G14).
///
/// BB-317 (<https://issues.apache.org/jira/browse/CURATOR-710>): threads and watches were left of every client.
async fn a_hundred_clients_come_and_go(cx: Arc<Cx>) -> CaseResult {
    let stays = cx.session().await?;
    for round in 0..100 {
        let coord = within(&format!("client {round}"), cx.coord()).await??;
        let session = coord.session(Cx::LONG).await?;
        // Some close, some are just dropped.
        let guard =
            within(&format!("the lock of client {round}"), Lock::new(&session, DIR)?.acquire()).await??;
        if round % 2 == 0 {
            coord.close().await?;
        }
        drop(guard);
    }
    within("the last", Lock::new(&stays, DIR)?.acquire()).await??.release().await?;
    eventually("the line is empty", || async { Ok(entries(stays.coord(), DIR).await? == 0) }).await
}
