//! The semaphore.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use coord_api::{Coord, ErrorKind, Session};
use coord_recipes::{Permit, Semaphore};
use tokio::task::JoinHandle;

use super::lock::entries;
use crate::{CaseResult, Cx, Failure, eventually, look_counter::LookCounter, within};

cases!("semaphore", needs Store:
    no_more_hold_than_there_are_permits,
    waiters_are_served_in_the_order_of_the_store,
    several_permits_are_taken_all_or_none,
    a_large_request_is_not_overtaken,
    the_number_is_agreed_once,
    impossible_numbers_are_refused_and_change_nothing,
    a_foreign_value_where_the_number_should_be_is_malformed,
    a_larger_number_wakes_those_who_wait,
    a_smaller_number_takes_from_nobody_and_holds_for_all_who_come,
    cancelled_waiters_give_back_nothing,
    a_waiter_for_more_than_there_are_now_is_told,
    foreign_entries_count_as_one,
    a_release_in_order_wakes_one_waiter,
);

const DIR: &str = "/sem/x";
const AGREED: &str = "/sem/x.meta/permits";

async fn open(session: &Session, permits: u32) -> coord_api::Result<Semaphore> {
    Semaphore::open(session, DIR, permits).await
}

async fn stand(coord: &Coord, count: usize) -> CaseResult {
    eventually("the entries stand", || async { Ok(entries(coord, DIR).await? == count) }).await
}

/// Starts to acquire in a task, and returns once the entry stands behind `ahead` others.
async fn queue_up(
    semaphore: &Semaphore,
    count: u32,
    coord: &Coord,
    ahead: usize,
) -> Result<JoinHandle<coord_api::Result<Permit>>, Failure> {
    let semaphore = semaphore.clone();
    let task = tokio::spawn(async move { semaphore.acquire_many(count).await });
    stand(coord, ahead + 1).await?;
    Ok(task)
}

async fn granted(what: &str, task: JoinHandle<coord_api::Result<Permit>>) -> Result<Permit, Failure> {
    Ok(within(what, task).await?.expect("no panic")?)
}

/// Promise: at no time are more permits out than there are, and none is lost. BB-289.
async fn no_more_hold_than_there_are_permits(cx: Arc<Cx>) -> CaseResult {
    const PERMITS: u32 = 3;
    let out = Arc::new(AtomicU32::new(0));
    let mut workers = Vec::new();
    for worker in 0..8_u32 {
        let semaphore = open(&cx.session().await?, PERMITS).await?;
        let out = Arc::clone(&out);
        workers.push(tokio::spawn(async move {
            for round in 0..6 {
                let count = 1 + (worker + round) % 2;
                let permit = semaphore.acquire_many(count).await?;
                assert!(out.fetch_add(count, Ordering::SeqCst) + count <= PERMITS, "too many hold");
                tokio::task::yield_now().await;
                assert!(permit.is_valid());
                out.fetch_sub(count, Ordering::SeqCst);
                permit.release().await?;
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    for worker in workers {
        within("the workers", worker).await?.expect("no panic")?;
    }
    let all = open(&cx.session().await?, PERMITS).await?;
    all.try_acquire_many(PERMITS).await?.expect("at rest all permits are there").release().await?;
    Ok(())
}

/// Promise: first come, first served (G5); the larger token is the later's.
async fn waiters_are_served_in_the_order_of_the_store(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let semaphore = open(&session, 2).await?;
    let mut held = vec![semaphore.acquire().await?, semaphore.acquire().await?];
    let mut waiters = Vec::new();
    for ahead in 2..6 {
        waiters.push(queue_up(&semaphore, 1, session.coord(), ahead).await?);
    }
    for (at, waiter) in waiters.into_iter().enumerate() {
        assert!(!waiter.is_finished(), "waiter {at} did not wait");
        held.remove(at % 2).release().await?;
        let next = granted(&format!("waiter {at}"), waiter).await?;
        assert!(held.iter().all(|earlier| earlier.token() < next.token()));
        held.push(next);
    }
    Ok(())
}

/// BB-286 (redisson 6343). Promise: several permits are one thing: acquired, refused and given back together.
async fn several_permits_are_taken_all_or_none(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let semaphore = open(&session, 3).await?;
    let two = semaphore.acquire_many(2).await?;
    assert!(semaphore.try_acquire_many(2).await?.is_none(), "only one is left");
    let one = semaphore.try_acquire().await?.expect("the refused try took nothing");
    assert!(semaphore.try_acquire().await?.is_none());
    two.release().await?;
    assert!(semaphore.try_acquire_many(3).await?.is_none());
    let two = semaphore.try_acquire_many(2).await?.expect("both are back");
    one.release().await?;
    two.release().await?;
    assert_eq!(entries(session.coord(), DIR).await?, 0);
    Ok(())
}

/// Promise: who wants many does not starve behind those who want few.
async fn a_large_request_is_not_overtaken(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let semaphore = open(&session, 3).await?;
    let one = semaphore.acquire().await?;
    let large = queue_up(&semaphore, 3, session.coord(), 1).await?;
    let small = queue_up(&semaphore, 1, session.coord(), 2).await?;
    assert!(semaphore.try_acquire().await?.is_none(), "two are free, but somebody waits for three");
    assert!(!large.is_finished() && !small.is_finished());
    one.release().await?;
    let large = granted("the large one", large).await?;
    assert!(!small.is_finished());
    large.release().await?;
    granted("the small one", small).await?.release().await?;
    Ok(())
}

/// Promise: whoever is first sets the number; others must agree, and see what was agreed.
async fn the_number_is_agreed_once(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let mut first = Vec::new();
    for permits in [2, 3, 4, 5] {
        let session = if permits % 2 == 0 { a.clone() } else { b.clone() };
        first.push(tokio::spawn(async move { open(&session, permits).await }));
    }
    let mut agreed = Vec::new();
    for task in first {
        match within("it opens", task).await?.expect("no panic") {
            Ok(semaphore) => agreed.push(semaphore.permits().await?),
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}"),
        }
    }
    assert_eq!(agreed.len(), 1, "one was first");
    let error = open(&a, 9).await.expect_err("another number");
    assert!(error.to_string().contains(&format!("agreed={}", agreed[0])), "{error}");
    assert_eq!(open(&b, agreed[0]).await?.permits().await?, agreed[0]);
    Ok(())
}

/// Promise: zero, and more than there are, are typed errors; nothing is changed for others.
async fn impossible_numbers_are_refused_and_change_nothing(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    assert_eq!(open(&session, 0).await.expect_err("zero").kind(), ErrorKind::InvalidArgument);
    assert!(session.coord().get(AGREED).await?.is_none(), "nothing was agreed");
    let semaphore = open(&session, 2).await?;
    for error in [
        semaphore.acquire_many(0).await.map(drop),
        semaphore.try_acquire_many(0).await.map(drop),
        semaphore.resize(0).await,
        open(&session, 3).await.map(drop),
        open(&session, u32::MAX).await.map(drop),
    ] {
        assert_eq!(error.expect_err("impossible").kind(), ErrorKind::InvalidArgument);
    }
    for count in [3, u32::MAX] {
        let error = semaphore.acquire_many(count).await.expect_err("more than there are");
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        let error = semaphore.acquire_many_timeout(count, Duration::MAX).await.expect_err("the same");
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
    assert_eq!((semaphore.permits().await?, entries(session.coord(), DIR).await?), (2, 0));
    let huge = Semaphore::open(&session, "/sem/huge", u32::MAX).await?;
    huge.acquire_many(u32::MAX).await?.release().await?;
    Ok(())
}

/// Promise: what cannot be understood is an error that says where it is, and stays as it is.
async fn a_foreign_value_where_the_number_should_be_is_malformed(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    for value in ["", "many", "-1", "0", "4294967296", "1 "] {
        session.coord().put(AGREED, value).await?;
        let error = open(&session, 1).await.expect_err("no number");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{value:?}: {error}");
        assert!(error.to_string().contains(AGREED), "{error}");
        assert_eq!(session.coord().get(AGREED).await?.expect("untouched").value, value);
    }
    session.coord().put(AGREED, "1").await?;
    let semaphore = open(&session, 1).await?;
    session.coord().delete(AGREED).await?;
    assert_eq!(semaphore.permits().await.expect_err("gone").kind(), ErrorKind::Malformed);
    assert_eq!(semaphore.resize(2).await.expect_err("gone").kind(), ErrorKind::Malformed);
    Ok(())
}

/// BB-287 (redisson 3225, CURATOR-75). Promise: a larger number wakes as many as it lets in.
async fn a_larger_number_wakes_those_who_wait(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let (mine, theirs) = (open(&a, 1).await?, open(&b, 1).await?);
    let held = mine.acquire().await?;
    let second = queue_up(&theirs, 1, a.coord(), 1).await?;
    let third = queue_up(&mine, 1, a.coord(), 2).await?;
    let fourth = queue_up(&theirs, 1, a.coord(), 3).await?;
    mine.resize(3).await?;
    let (second, third) = (granted("the second", second).await?, granted("the third", third).await?);
    assert!(!fourth.is_finished(), "three hold");
    assert_eq!((theirs.permits().await?, held.is_valid()), (3, true));
    held.release().await?;
    granted("the fourth", fourth).await?.release().await?;
    second.release().await?;
    third.release().await?;
    Ok(())
}

/// Promise: with fewer permits nobody loses one, and who joins after the change gets only what is left of the new
/// number, whatever it knew before.
async fn a_smaller_number_takes_from_nobody_and_holds_for_all_who_come(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let (mine, theirs) = (open(&a, 4).await?, open(&b, 4).await?);
    for round in 0..3 {
        let held = [mine.acquire().await?, theirs.acquire().await?];
        mine.resize(2).await?;
        assert!(theirs.try_acquire().await?.is_none(), "round {round}: it knew four");
        for permit in &held {
            permit.check().await?;
        }
        let [one, other] = held;
        one.release().await?;
        let third = theirs.try_acquire().await?.expect("one of two is free");
        assert!(mine.try_acquire().await?.is_none());
        theirs.resize(4).await?;
        let more = [mine.try_acquire().await?.expect("four"), theirs.try_acquire().await?.expect("four")];
        assert!(mine.try_acquire().await?.is_none());
        for permit in more.into_iter().chain([other, third]) {
            permit.release().await?;
        }
    }
    // One mark stays in the line, by which later changes are known.
    stand(a.coord(), 1).await
}

/// BB-290 (redisson). Promise: at rest there are as many permits as agreed, however many waiters gave up.
async fn cancelled_waiters_give_back_nothing(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let semaphore = open(&session, 2).await?;
    let held = semaphore.acquire_many(2).await?;
    for round in 0..10 {
        let waiter = queue_up(&semaphore, 1 + round % 2, session.coord(), 1).await?;
        waiter.abort();
        stand(session.coord(), 1).await?;
        assert!(semaphore.try_acquire().await?.is_none(), "round {round}");
    }
    held.release().await?;
    let both = semaphore.try_acquire_many(2).await?.expect("both are there");
    assert!(semaphore.try_acquire().await?.is_none(), "and no third");
    both.release().await?;
    Ok(())
}

/// Promise: who waits for more permits than there are from now on is told, and holds up nobody.
async fn a_waiter_for_more_than_there_are_now_is_told(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let semaphore = open(&session, 3).await?;
    let held = semaphore.acquire().await?;
    let large = queue_up(&semaphore, 3, session.coord(), 1).await?;
    let small = queue_up(&semaphore, 1, session.coord(), 2).await?;
    semaphore.resize(2).await?;
    let error = within("the large one", large).await?.expect("no panic").expect_err("never again");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    granted("the small one", small).await?.release().await?;
    held.release().await?;
    Ok(())
}

/// Promise: what others put into the line takes one permit.
async fn foreign_entries_count_as_one(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let semaphore = open(&session, 2).await?;
    let foreign = coord_recipes::Lock::new(&session, DIR)?.acquire().await?;
    let permit = semaphore.try_acquire().await?.expect("one is left");
    assert!(semaphore.try_acquire().await?.is_none());
    foreign.release().await?;
    semaphore.try_acquire().await?.expect("free").release().await?;
    permit.release().await?;
    Ok(())
}

/// Promise: releases in the order of the grants wake one waiter each (G5).
async fn a_release_in_order_wakes_one_waiter(cx: Arc<Cx>) -> CaseResult {
    const WAITERS: usize = 12;
    let looks = LookCounter::default();
    let coord = cx.coord().await?.layer(&looks);
    let session = coord.session(Cx::LONG).await?;
    let semaphore = open(&session, 3).await?;
    let mut held = std::collections::VecDeque::new();
    for _ in 0..3 {
        held.push_back(semaphore.acquire().await?);
    }
    let mut waiters = Vec::new();
    for waiter in 0..WAITERS {
        waiters.push(queue_up(&semaphore, 1, session.coord(), waiter + 3).await?);
    }
    // Lets watches that are starting wake their waiters first.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = looks.count();
    for waiter in waiters {
        held.pop_front().expect("three are out").release().await?;
        held.push_back(granted("the next", waiter).await?);
    }
    let each = looks.count() - before;
    assert!(each <= WAITERS + WAITERS / 2, "{each} looks at the line for {WAITERS} grants");
    Ok(())
}
