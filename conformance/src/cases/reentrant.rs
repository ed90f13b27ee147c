//! The re-entrant lock.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, ErrorKind, Session};
use coord_recipes::{Lock, Owner, ReentrantGuard, ReentrantLock};
use tokio::task::JoinHandle;

use super::lock::entries;
use crate::{CaseResult, Cx, Failure, eventually, within};

cases!("reentrant", needs Store:
    the_lock_is_free_after_the_last_release,
    taken_again_after_all_were_released_it_is_still_held_later,
    owners_wait_for_each_other_in_order,
    an_owner_is_a_value_and_not_a_task,
    what_each_owner_holds_can_be_asked,
    a_cancelled_acquire_loses_nothing_of_the_same_owner,
    acquires_of_one_owner_share_one_entry,
    a_full_release_frees_at_once_and_leaves_empty_guards,
    releasing_what_is_not_held_is_refused,
    an_owner_whose_entry_was_deleted_may_begin_anew,
    it_excludes_the_ordinary_lock_of_the_name,
);

const DIR: &str = "/reentrant/x";

async fn stand(coord: &Coord, count: usize) -> CaseResult {
    eventually("the entries stand", || async { Ok(entries(coord, DIR).await? == count) }).await
}

fn start(lock: &ReentrantLock, owner: &Owner) -> JoinHandle<coord_api::Result<ReentrantGuard>> {
    let (lock, owner) = (lock.clone(), owner.clone());
    tokio::spawn(async move { lock.acquire(&owner).await })
}

async fn granted(
    what: &str,
    task: JoinHandle<coord_api::Result<ReentrantGuard>>,
) -> Result<ReentrantGuard, Failure> {
    Ok(within(what, task).await?.expect("no panic")?)
}

fn pair(session: &Session) -> Result<(ReentrantLock, Owner, Owner), Failure> {
    Ok((ReentrantLock::new(session, DIR)?, Owner::unique(), Owner::unique()))
}

/// BB-305 (kazoo 291, 315). Promise: each release gives up one hold; others get in after the last, and not before.
async fn the_lock_is_free_after_the_last_release(cx: Arc<Cx>) -> CaseResult {
    let (lock, me, _) = pair(&cx.session().await?)?;
    let (other, you, _) = pair(&cx.session().await?)?;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(within("the owner gets in", lock.acquire(&me)).await??);
    }
    assert!(held.windows(2).all(|pair| pair[0].token() == pair[1].token()), "one grant, one token");
    // Any order will do: the first one that was taken goes first.
    while held.len() > 1 {
        held.remove(0).release().await?;
        assert!(other.try_acquire(&you).await?.is_none(), "{} left", held.len());
        assert!(held[0].is_valid());
    }
    held.remove(0).release().await?;
    other.try_acquire(&you).await?.expect("free").release().await?;
    Ok(())
}

/// BB-025 (redisson 6144). Promise: after twice in and twice out, the next hold lives as long as its session.
async fn taken_again_after_all_were_released_it_is_still_held_later(cx: Arc<Cx>) -> CaseResult {
    let session = cx.coord().await?.session(Cx::SHORT).await?;
    let (lock, me, _) = pair(&session)?;
    let (other, you, _) = pair(&cx.session().await?)?;
    let (one, two) = (lock.acquire(&me).await?, lock.acquire(&me).await?);
    one.release().await?;
    two.release().await?;
    let again = lock.acquire(&me).await?;
    assert!(other.acquire_timeout(&you, session.ttl() * 2).await?.is_none());
    assert!(again.is_valid());
    again.check().await?;
    again.release().await?;
    Ok(())
}

/// Promise: owners are served in the order in which they came, also those of one process.
async fn owners_wait_for_each_other_in_order(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let (lock, me, _) = pair(&session)?;
    let mut held = lock.acquire(&me).await?;
    let owners: Vec<_> = (0..4).map(|at| Owner::named(format!("owner {at}"))).collect();
    let mut waiters = Vec::new();
    for (at, owner) in owners.iter().enumerate() {
        waiters.push(start(&lock, owner));
        stand(session.coord(), at + 2).await?;
    }
    for (waiter, owner) in waiters.into_iter().zip(&owners) {
        assert!(!waiter.is_finished());
        let last = held.token();
        held.release().await?;
        held = granted("the next owner", waiter).await?;
        assert!(held.token() > last && held.owner() == owner);
    }
    held.release().await?;
    Ok(())
}

/// Promise: whoever brings the owner's value is the owner, in any task and thread.
async fn an_owner_is_a_value_and_not_a_task(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let (lock, _, stranger) = pair(&session)?;
    let request = Owner::named("request 7");
    let first = granted("the first", start(&lock, &request)).await?;
    let second = granted("the same name", start(&lock, &Owner::named("request 7"))).await?;
    assert!(lock.try_acquire(&stranger).await?.is_none(), "this task is not the owner");
    std::thread::spawn(move || drop(first)).join().expect("no panic");
    assert!(lock.holds(&request));
    second.release().await?;
    assert_ne!(Owner::unique(), Owner::unique());
    stand(session.coord(), 0).await
}

/// BB-307 (redisson 4400). Promise: the queries tell who holds, in every mix.
async fn what_each_owner_holds_can_be_asked(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let (lock, me, you) = pair(&session)?;
    let asked = |lock: &ReentrantLock| (lock.count(&me), lock.holds(&me), lock.count(&you), lock.holds(&you));
    assert_eq!(asked(&lock), (0, false, 0, false));
    let one = lock.acquire(&me).await?;
    let two = lock.acquire(&me).await?;
    assert_eq!(asked(&lock), (2, true, 0, false));
    let waiting = start(&lock, &you);
    stand(session.coord(), 2).await?;
    assert_eq!(asked(&lock.clone()), (2, true, 0, false), "who waits does not hold; clones know the same");
    drop(one);
    assert_eq!(asked(&lock), (1, true, 0, false));
    two.release().await?;
    let theirs = granted("the other", waiting).await?;
    assert_eq!(asked(&lock), (0, false, 1, true));
    session.close().await?;
    within("it is lost", theirs.lost()).await?;
    assert_eq!(asked(&lock), (0, false, 0, false), "what is lost is not held");
    Ok(())
}

/// Promise: of two acquires of one owner that wait together, one may give up; the other gets in, in the same place.
async fn a_cancelled_acquire_loses_nothing_of_the_same_owner(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let (lock, me, you) = pair(&session)?;
    for cancelled in 0..2 {
        let held = lock.acquire(&you).await?;
        let mut mine = vec![start(&lock, &me), start(&lock, &me)];
        stand(session.coord(), 2).await?;
        let third = start(&lock, &Owner::unique());
        stand(session.coord(), 3).await?;
        mine.remove(cancelled).abort();
        held.release().await?;
        let held = granted("the one that stayed", mine.remove(0)).await?;
        assert!(!third.is_finished(), "it kept its place");
        assert_eq!((lock.count(&me), entries(session.coord(), DIR).await?), (1, 2));
        held.release().await?;
        granted("the third", third).await?.release().await?;
    }
    Ok(())
}

/// Promise: one entry an owner, however many of its tasks wait.
async fn acquires_of_one_owner_share_one_entry(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let (lock, me, you) = pair(&session)?;
    let held = lock.acquire(&you).await?;
    let mine: Vec<_> = (0..5).map(|_| start(&lock, &me)).collect();
    stand(session.coord(), 2).await?;
    assert!(lock.try_acquire(&me).await?.is_none(), "it waits");
    held.release().await?;
    let mut guards = Vec::new();
    for task in mine {
        guards.push(granted("one of five", task).await?);
    }
    assert_eq!((lock.count(&me), entries(session.coord(), DIR).await?), (5, 1));
    drop(guards);
    stand(session.coord(), 0).await
}

/// Promise: a full release frees the lock whatever the count; guards that are left hold nothing and free nothing.
async fn a_full_release_frees_at_once_and_leaves_empty_guards(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let (lock, me, you) = pair(&session)?;
    let (one, two) = (lock.acquire(&me).await?, lock.acquire(&me).await?);
    lock.release_all(&me).await?;
    assert!(!one.is_valid() && !lock.holds(&me));
    within("the guard is told", two.lost()).await?;
    let theirs = lock.try_acquire(&you).await?.expect("free");
    let error = one.release().await.expect_err("it holds nothing");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    drop(two);
    theirs.check().await?;
    theirs.release().await?;
    lock.try_acquire(&me).await?.expect("the owner may come again").release().await?;
    Ok(())
}

/// BB-028, BB-029, BB-031, BB-118. Promise: an owner gives up what is its own and nothing else.
async fn releasing_what_is_not_held_is_refused(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let (lock, me, you) = pair(&session)?;
    assert_eq!(lock.release_all(&me).await.expect_err("nobody holds").kind(), ErrorKind::NotHolder);
    let held = lock.acquire(&me).await?;
    let waiting = start(&lock, &you);
    stand(session.coord(), 2).await?;
    for stranger in [&you, &Owner::unique(), &Owner::named("me")] {
        let error = lock.release_all(stranger).await.expect_err("somebody else holds");
        assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    }
    held.check().await?;
    assert!(!waiting.is_finished());
    held.release().await?;
    assert_eq!(lock.release_all(&me).await.expect_err("released").kind(), ErrorKind::NotHolder);
    granted("the other", waiting).await?.release().await?;
    Ok(())
}

/// Promise: after a loss the owner acquires anew, with a larger token, and old guards free nothing of it.
async fn an_owner_whose_entry_was_deleted_may_begin_anew(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let (lock, me, _) = pair(&a)?;
    let old = lock.acquire(&me).await?;
    b.coord().delete(old.key()).await?;
    within("it is told", old.lost()).await?;
    assert!(!lock.holds(&me));
    let new = within("a new grant", lock.acquire(&me)).await??;
    assert!(new.token() > old.token() && !old.is_valid());
    assert_eq!(lock.count(&me), 1);
    drop(old);
    new.check().await?;
    assert!(Lock::new(&b, DIR)?.acquire_timeout(Duration::from_millis(100)).await?.is_none());
    new.release().await?;
    stand(b.coord(), 0).await
}

/// Promise: in the store it is an ordinary lock.
async fn it_excludes_the_ordinary_lock_of_the_name(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let (lock, me, _) = pair(&session)?;
    let plain = Lock::new(&session, DIR)?;
    let held = plain.acquire().await?;
    assert!(lock.try_acquire(&me).await?.is_none());
    held.release().await?;
    let held = lock.acquire(&me).await?;
    assert!(plain.try_acquire().await?.is_none());
    held.release().await?;
    Ok(())
}
