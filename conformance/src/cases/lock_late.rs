//! The fair lock, when a request to join arrives after its caller has gone on.

use std::sync::Arc;

use coord_recipes::Lock;

use super::lock::entries;
use crate::{CaseResult, Cx, eventually, late_joins::LateJoins, within};

cases!("lock_late", needs Store:
    a_join_that_arrives_after_the_release_does_not_block_the_lock,
    a_join_that_arrives_after_its_caller_left_does_not_block_the_lock,
);

/// Promise: one entry an acquire, also if a lost request to join arrives when the lock was released long ago (G4).
async fn a_join_that_arrives_after_the_release_does_not_block_the_lock(cx: Arc<Cx>) -> CaseResult {
    let late = LateJoins::default();
    let session = cx.coord().await?.layer(&late).session(Cx::LONG).await?;
    let lock = Lock::new(&session, "/locks/x")?;
    within("the second try", lock.acquire()).await??.release().await?;
    assert_eq!(entries(session.coord(), "/locks/x").await?, 0);
    free_after(&cx, &late).await?;
    assert!(session.is_valid(), "the entry has to go while its session lives");
    Ok(())
}

/// Promise: the same if the caller did not wait for a second try.
async fn a_join_that_arrives_after_its_caller_left_does_not_block_the_lock(cx: Arc<Cx>) -> CaseResult {
    let late = LateJoins::default();
    let session = cx.coord().await?.layer(&late).session(Cx::LONG).await?;
    let lock = Lock::new(&session, "/locks/x")?;
    let acquired = crate::sweep::drop_after(lock.acquire(), 1).await;
    assert!(acquired.is_none(), "its first request is on its way");
    eventually("its entry is looked for", || async { Ok(late.was_looked_for()) }).await?;
    free_after(&cx, &late).await?;
    assert!(session.is_valid(), "the entry has to go while its session lives");
    Ok(())
}

/// The late request arrives; somebody else gets the lock all the same.
async fn free_after(cx: &Cx, late: &LateJoins) -> CaseResult {
    assert!(late.deliver().await?, "a request was on its way");
    let other = cx.session().await?;
    within("the lock is free", Lock::new(&other, "/locks/x")?.acquire()).await??.release().await?;
    eventually("the line is empty", || async { Ok(entries(other.coord(), "/locks/x").await? == 0) }).await
}
