//! Asking the holder of a lock to give it back.

use std::{sync::Arc, time::Duration};

use coord_api::ErrorKind;
use coord_recipes::Lock;

use super::lock::queue_up;
use crate::{CaseResult, Cx, within};

cases!("revocable", needs Store:
    the_holder_is_asked_and_decides,
    a_request_that_came_before_is_seen,
    nobody_is_asked_where_nobody_holds,
    the_next_holder_is_not_asked,
    asking_wakes_no_waiter_and_takes_nothing,
    a_holder_that_loses_the_lock_while_it_listens_is_told,
    other_values_are_no_request,
);

/// Promise: the holder hears of it, keeps the lock until it releases, and the one who asked gets it then.
async fn the_holder_is_asked_and_decides(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let held = Lock::new(&a, "/locks/x")?.acquire().await?;
    let quiet = tokio::time::timeout(Duration::from_millis(200), held.revocation_requested()).await;
    assert!(quiet.is_err(), "nobody has asked");
    let asking = Lock::new(&b, "/locks/x")?;
    let waiter = queue_up(&b, "/locks/x", 1).await?;
    assert!(asking.request_release().await?);
    within("the holder hears of it", held.revocation_requested()).await??;
    held.check().await?;
    assert!(!waiter.is_finished(), "nothing is taken over");
    held.release().await?;
    within("the one who waits", waiter).await?.expect("no panic")?.release().await?;
    Ok(())
}

/// Promise: a request stands until the release, however often and late the holder looks.
async fn a_request_that_came_before_is_seen(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let held = Lock::new(&a, "/locks/x")?.acquire().await?;
    for _ in 0..2 {
        assert!(Lock::new(&b, "/locks/x")?.request_release().await?, "asking twice is asking once");
    }
    for _ in 0..3 {
        within("it is seen", held.revocation_requested()).await??;
    }
    held.release().await?;
    Ok(())
}

/// Promise: without a holder there is nobody to ask, and nothing is written.
async fn nobody_is_asked_where_nobody_holds(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let lock = Lock::new(&session, "/locks/x")?;
    assert!(!lock.request_release().await?);
    lock.acquire().await?.release().await?;
    assert!(!lock.request_release().await?);
    assert_eq!(session.coord().list("/locks/x").await?.children.len(), 0);
    Ok(())
}

/// Promise: a request concerns who has the lock when it is made, and not who comes next.
async fn the_next_holder_is_not_asked(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lock = Lock::new(&a, "/locks/x")?;
    let held = lock.acquire().await?;
    let waiter = queue_up(&b, "/locks/x", 1).await?;
    assert!(lock.request_release().await?);
    held.release().await?;
    let next = within("the next", waiter).await?.expect("no panic")?;
    let quiet = tokio::time::timeout(Duration::from_millis(300), next.revocation_requested()).await;
    assert!(quiet.is_err(), "it was not asked");
    next.release().await?;
    Ok(())
}

/// Promise: the request changes nothing for those who wait, and the hold is what it was.
async fn asking_wakes_no_waiter_and_takes_nothing(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lock = Lock::new(&a, "/locks/x")?;
    let held = lock.acquire().await?;
    let token = held.token();
    let waiter = queue_up(&b, "/locks/x", 1).await?;
    assert!(lock.request_release().await?);
    held.check().await?;
    let written = held.commit(coord_api::Txn::new().put("/data/x", "1")).await?;
    assert!(written.is_committed() && held.is_valid() && held.token() == token);
    assert!(!waiter.is_finished());
    held.release().await?;
    within("the waiter", waiter).await?.expect("no panic")?.release().await?;
    Ok(())
}

/// Promise: listening ends with a typed error when the lock is lost.
async fn a_holder_that_loses_the_lock_while_it_listens_is_told(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let held = Arc::new(Lock::new(&a, "/locks/x")?.acquire().await?);
    let listen =
        |held: Arc<coord_recipes::LockGuard>| tokio::spawn(async move { held.revocation_requested().await });
    let listening = listen(Arc::clone(&held));
    b.coord().delete(held.key()).await?;
    let error = within("it is told", listening).await?.expect("no panic").expect_err("it is lost");
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    let held = Arc::new(Lock::new(&a, "/locks/x")?.acquire().await?);
    let listening = listen(Arc::clone(&held));
    a.close().await?;
    let error = within("it is told", listening).await?.expect("no panic").expect_err("it is lost");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    Ok(())
}

/// Promise: what others write into the entry is no request.
async fn other_values_are_no_request(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let held = Lock::new(&a, "/locks/x")?.acquire().await?;
    for value in ["", "__REVOKE", "10.0.0.7"] {
        b.coord().put(held.key(), value).await?;
    }
    let quiet = tokio::time::timeout(Duration::from_millis(200), held.revocation_requested()).await;
    assert!(quiet.is_err());
    // As Curator's revoker does.
    b.coord().put(held.key(), "__REVOKE__").await?;
    within("it is seen", held.revocation_requested()).await??;
    held.release().await?;
    Ok(())
}
