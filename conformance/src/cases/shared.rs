//! The lock for which many tasks of a process share an entry; and the fence, by which resources refuse the past.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use coord_api::{Coord, ErrorKind};
use coord_recipes::{Fence, Lock, SharedGuard, SharedLock};
use tokio::task::JoinHandle;

use super::lock::{entries, queue_up};
use crate::{CaseResult, Cx, Failure, eventually, within};

cases!("shared", needs Store:
    many_tasks_stand_in_line_with_one_entry,
    tasks_are_served_in_their_order_with_one_token,
    others_wait_for_a_bounded_number_of_tasks,
    a_task_that_gives_up_leaves_the_others_their_place,
    the_entry_goes_with_the_last_task,
    a_loss_is_told_and_the_next_task_begins_anew,
    a_fence_refuses_the_holder_of_the_past,
);

const DIR: &str = "/shared/x";

async fn stand(coord: &Coord, count: usize) -> CaseResult {
    eventually("the entries stand", || async { Ok(entries(coord, DIR).await? == count) }).await
}

/// Starts to acquire in a task, and returns once it stands in the queue of the process.
async fn queue_here(lock: &SharedLock) -> Result<JoinHandle<coord_api::Result<SharedGuard>>, Failure> {
    let lock = lock.clone();
    let (queued, is_queued) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut acquire = Box::pin(lock.acquire());
        assert!(futures::poll!(&mut acquire).is_pending());
        queued.send(()).expect("somebody listens");
        acquire.await
    });
    within("it stands in the queue", is_queued).await?.expect("no panic");
    Ok(task)
}

/// Promise: one holds at a time, and the line has one entry, however many tasks want the lock.
async fn many_tasks_stand_in_line_with_one_entry(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let lock = SharedLock::new(&session, DIR)?;
    let holders = Arc::new(AtomicUsize::new(0));
    let held = lock.acquire().await?;
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let (lock, holders) = (lock.clone(), Arc::clone(&holders));
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await?;
            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
            guard.check().await?;
            holders.fetch_sub(1, Ordering::SeqCst);
            guard.release().await
        }));
    }
    assert_eq!(entries(session.coord(), DIR).await?, 1);
    held.release().await?;
    for task in tasks {
        within("the tasks", task).await?.expect("no panic")?;
    }
    stand(session.coord(), 0).await
}

/// Promise: tasks of a process are served in their order; they share the token, and the turn tells them apart.
async fn tasks_are_served_in_their_order_with_one_token(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let lock = SharedLock::new(&session, DIR)?;
    let first = lock.acquire().await?;
    let mut last = (first.token(), first.turn());
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(queue_here(&lock).await?);
    }
    let mut held = first;
    for task in tasks {
        assert!(!task.is_finished());
        held.release().await?;
        held = within("the next task", task).await?.expect("no panic")?;
        assert_eq!(held.token(), last.0, "the entry's token");
        assert!((held.token(), held.turn()) > last, "the pair grows");
        last = (held.token(), held.turn());
    }
    held.release().await?;
    let next = lock.acquire().await?;
    assert!(next.token() > last.0, "a new entry has a new token");
    next.release().await?;
    Ok(())
}

/// Promise: after so many tasks in a row, whoever waits elsewhere is served.
async fn others_wait_for_a_bounded_number_of_tasks(cx: Arc<Cx>) -> CaseResult {
    const TURNS: u32 = 3;
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lock = SharedLock::new(&a, DIR)?.with_turns(NonZeroU32::new(TURNS).expect("three"));
    let held = lock.acquire().await?;
    let other = queue_up(&b, DIR, 1).await?;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(queue_here(&lock).await?);
    }
    let mut tasks = tasks.into_iter();
    let mut held = held;
    for turn in 2..=TURNS {
        held.release().await?;
        held = within("the next task", tasks.next().expect("four")).await?.expect("no panic")?;
        assert_eq!(held.turn(), turn);
    }
    assert!(!other.is_finished());
    held.release().await?;
    let theirs = within("the other", other).await?.expect("no panic")?;
    let next = tasks.next().expect("four");
    assert!(!next.is_finished());
    theirs.release().await?;
    let next = within("the task after it", next).await?.expect("no panic")?;
    assert_eq!(next.turn(), 1, "with an entry of its own");
    next.release().await?;
    within("the last task", tasks.next().expect("four")).await?.expect("no panic")?.release().await?;
    stand(a.coord(), 0).await
}

/// Promise: a task that gives up costs the others of its process nothing.
async fn a_task_that_gives_up_leaves_the_others_their_place(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lock = SharedLock::new(&a, DIR)?;
    let held = Lock::new(&b, DIR)?.acquire().await?;
    let start = || {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await })
    };
    let (gives_up, stays) = (start(), start());
    stand(a.coord(), 2).await?;
    let behind = queue_up(&b, DIR, 2).await?;
    gives_up.abort();
    assert!(within("it is gone", gives_up).await?.is_err());
    held.release().await?;
    let ours = within("the one that stays", stays).await?.expect("no panic")?;
    assert!(!behind.is_finished(), "it kept the place");
    ours.release().await?;
    within("the one behind", behind).await?.expect("no panic")?.release().await?;
    Ok(())
}

/// Promise: when no task of the process waits or holds, nothing is left in the line.
async fn the_entry_goes_with_the_last_task(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lock = SharedLock::new(&a, DIR)?;
    let held = lock.acquire().await?;
    assert!(lock.try_acquire().await?.is_none());
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    waiting.abort();
    assert!(within("it is gone", waiting).await?.is_err());
    held.release().await?;
    assert_eq!(entries(a.coord(), DIR).await?, 0, "the release reports when it is free");
    Lock::new(&b, DIR)?.try_acquire().await?.expect("free").release().await?;
    Ok(())
}

/// Promise: when the entry is deleted, the holder is told, and the next task joins anew.
async fn a_loss_is_told_and_the_next_task_begins_anew(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lock = SharedLock::new(&a, DIR)?;
    let lost = lock.acquire().await?;
    let next = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    b.coord().delete(lost.key()).await?;
    within("it is told", lost.lost()).await?;
    let token = lost.token();
    let _ = lost.release().await;
    let next = within("the next", next).await?.expect("no panic")?;
    assert!(next.token() > token && next.is_valid());
    next.release().await?;
    stand(a.coord(), 0).await
}

/// BB-047. Promise: a resource that keeps a fence takes nothing from a holder of the past, whatever that one believes.
async fn a_fence_refuses_the_holder_of_the_past(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let fence = Fence::new();
    let mut stock = Vec::new();
    let old = Lock::new(&a, "/locks/x")?.acquire().await?;
    fence.admit(old.token(), || stock.push("old"))?;
    // It does not know yet.
    b.coord().delete(old.key()).await?;
    let new = Lock::new(&b, "/locks/x")?.acquire().await?;
    fence.admit(new.token(), || stock.push("new"))?;
    let error = fence.admit(old.token(), || stock.push("from the past")).expect_err("it is stale");
    assert_eq!(error.kind(), ErrorKind::StaleToken, "{error}");
    fence.admit(new.token(), || stock.push("new again"))?;
    assert_eq!(stock, ["old", "new", "new again"]);
    let raised = a.coord().clone().with_fence_epoch(1).fencing_token(coord_api::Revision::new(1));
    fence.admit(raised, || ())?;
    assert!(fence.admit(new.token(), || ()).is_err(), "a larger epoch outranks all revisions");
    new.release().await?;
    Ok(())
}
