//! The fair lock with a crowd, and a line that changes behind the back of a waiter.

use std::sync::{Arc, Mutex, PoisonError};

use coord_recipes::Lock;

use super::lock::{entries, queue_up};
use crate::{
    CaseResult, Cx, eventually,
    held_calls::{Held, HeldCalls},
    look_counter::LookCounter,
    within,
};

cases!("lock_crowd", needs Store:
    a_thousand_are_served_in_order_and_each_is_woken_once,
    an_entry_that_came_back_under_its_name_is_not_waited_for,
);

/// Promise: a thousand contenders are served in the order of the store, one look at the line a grant (G5).
async fn a_thousand_are_served_in_order_and_each_is_woken_once(cx: Arc<Cx>) -> CaseResult {
    const CROWD: usize = 1000;
    let looks = LookCounter::default();
    let session = cx.coord().await?.layer(&looks).session(Cx::LONG).await?;
    let lock = Lock::new(&session, "/locks/x")?;
    let held = lock.acquire().await?;
    let served = Arc::new(Mutex::new(Vec::new()));
    let contend = |_| {
        let (lock, served) = (lock.clone(), Arc::clone(&served));
        tokio::spawn(async move {
            let guard = lock.acquire().await?;
            served.lock().unwrap_or_else(PoisonError::into_inner).push(guard.token());
            guard.release().await
        })
    };
    let mut crowd = Vec::new();
    while crowd.len() < CROWD {
        // Not all at the same moment: it is the line that is tried, not how much a busy server takes.
        crowd.extend((0..CROWD / 10).map(contend));
        let here = crowd.len() + 1;
        eventually("all are in the line", || async {
            Ok(entries(session.coord(), "/locks/x").await.is_ok_and(|entries| entries == here))
        })
        .await?;
    }
    let before = looks.count();
    held.release().await?;
    for contender in crowd {
        within("its turn", contender).await?.expect("no panic")?;
    }
    let served = served.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(served.len(), CROWD);
    assert!(served.is_sorted(), "in the order of the store");
    let each = looks.count() - before;
    // One each, and a few for waits that end early because a connection was lost.
    assert!(each <= CROWD + CROWD / 10, "{each} looks at the line for {CROWD} grants");
    Ok(())
}

/// Promise: nobody waits for ever for an entry that was deleted by hand and made again, under its old name and behind
/// the waiter, by its owner whose first reply was lost. They would wait for each other.
async fn an_entry_that_came_back_under_its_name_is_not_waited_for(cx: Arc<Cx>) -> CaseResult {
    let (replies, waits) = (HeldCalls::new(Held::RepliesToJoins), HeldCalls::new(Held::Waits));
    // Long enough to live on a machine that a crowd keeps busy; the waiter looks again before twice that.
    let ttl = Cx::SHORT * 4;
    let first = cx.coord().await?.layer(&replies).session(ttl).await?;
    let second = cx.coord().await?.layer(&waits).session(ttl).await?;
    let deposed = queue_up(&first, "/locks/x", 0).await?;
    let waiter = queue_up(&second, "/locks/x", 1).await?;
    eventually("the second is about to wait for the first", || async { Ok(waits.holds()) }).await?;

    let operator = cx.coord().await?;
    let line = operator.list("/locks/x").await?.children;
    operator.delete(&line[0].key).await?;
    replies.let_go();
    eventually("the first stands behind the second", || async {
        Ok(entries(&operator, "/locks/x").await? == 2)
    })
    .await?;
    waits.let_go();
    within("the second", waiter).await?.expect("no panic")?.release().await?;
    within("the first", deposed).await?.expect("no panic")?.release().await?;
    Ok(())
}
