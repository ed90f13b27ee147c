//! Waiting until what was seen is no longer true.

use std::sync::Arc;

use coord_api::{Key, Lifetime, Revision, Seen};
use futures::FutureExt;

use crate::{CaseResult, Cx, within};

cases!("wait", needs Store:
    what_is_not_true_returns_at_once,
    a_change_ends_the_wait,
    a_change_by_another_client_ends_the_wait,
    what_did_not_change_keeps_waiting,
    no_wake_up_is_lost_in_a_race,
    the_end_of_a_session_ends_the_wait,
    children_wake_by_names_alone,
    an_absent_directory_can_be_waited_for,
    many_waiters_wake_for_their_own_key,
);

fn key(path: &str) -> Key {
    Key::parse(path).expect("a literal")
}

/// Promise: level-triggered. What is not true when the wait begins returns at once.
async fn what_is_not_true_returns_at_once(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let old = coord.put("/d/there", "1").await?;
    let empty = coord.list("/e").await?.revision;
    coord.put("/d/there", "2").await?;
    coord.put("/e/new", "").await?;
    for seen in [
        Seen::Absent(key("/d/there")),
        Seen::Exists(key("/d/absent")),
        Seen::Value(key("/d/there"), old.revision),
        Seen::Value(key("/d/absent"), old.revision),
        Seen::Children(coord_api::Dir::parse("/e")?, empty),
    ] {
        within(&format!("{seen:?}"), coord.wait(&seen)).await??;
    }
    Ok(())
}

/// Promise: each kind of wait ends by the change that it waits for.
async fn a_change_ends_the_wait(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    ends_by_changes_of(&coord, &coord).await
}

/// Promise: the same, for changes that other clients make.
async fn a_change_by_another_client_ends_the_wait(cx: Arc<Cx>) -> CaseResult {
    let (waiter, writer) = (cx.coord().await?, cx.coord().await?);
    ends_by_changes_of(&waiter, &writer).await
}

async fn ends_by_changes_of(waiter: &coord_api::Coord, writer: &coord_api::Coord) -> CaseResult {
    let waiter = waiter.clone().with_freshness(coord_api::Freshness::Latest);
    let wait = |seen: Seen| {
        let waiter = waiter.clone();
        async move { within(&format!("{seen:?}"), waiter.wait(&seen)).await }
    };
    let (created, ()) =
        tokio::join!(wait(Seen::Absent(key("/d/a"))), async { drop(writer.put("/d/a", "1").await) });
    created??;
    let modified = waiter.get("/d/a").await?.expect("there").meta.modified;
    let (changed, ()) =
        tokio::join!(wait(Seen::Value(key("/d/a"), modified)), async { drop(writer.put("/d/a", "2").await) });
    changed??;
    let names = waiter.list("/d").await?.revision;
    let (listed, ()) = tokio::join!(wait(Seen::Children(coord_api::Dir::parse("/d")?, names)), async {
        drop(writer.put("/d/b", "1").await)
    });
    listed??;
    let (deleted, ()) =
        tokio::join!(wait(Seen::Exists(key("/d/a"))), async { drop(writer.delete("/d/a").await) });
    deleted??;
    Ok(())
}

/// Promise: other keys do not end the wait for good: it may return early, but then nothing has changed.
async fn what_did_not_change_keeps_waiting(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/d/still", "1").await?;
    let seen = Seen::Exists(key("/d/still"));
    let mut early = 0;
    for i in 0..20 {
        let wait = coord.wait(&seen);
        tokio::pin!(wait);
        coord.put(format!("/d/other{i}"), "").await?;
        early += usize::from(wait.now_or_never().is_some());
    }
    assert!(early < 5, "{early} of 20 waits ended for nothing");
    Ok(())
}

/// Promise: a change between looking and waiting is not missed, whenever it comes.
async fn no_wake_up_is_lost_in_a_race(cx: Arc<Cx>) -> CaseResult {
    let (waiter, writer) = (cx.coord().await?, cx.coord().await?);
    for round in 0..100 {
        let path = format!("/race/{round}");
        waiter.put(&path, "").await?;
        let seen = Seen::Exists(key(&path));
        let (deleting, writer) = (path.clone(), writer.clone());
        let delete = tokio::spawn(async move { writer.delete(deleting).await });
        // The loop that every user of `wait` writes.
        within("the deletion was missed", async {
            while waiter.get(&path).await?.is_some() {
                waiter.wait(&seen).await?;
            }
            Ok::<_, coord_api::Error>(())
        })
        .await??;
        delete.await.expect("no panic")?;
    }
    Ok(())
}

/// Promise: keys that vanish with their session end waits like any deletion.
async fn the_end_of_a_session_ends_the_wait(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    session.coord().create("/d/eph", "", Lifetime::Session).await?.expect("new");
    let coord = cx.coord().await?;
    let seen = Seen::Exists(key("/d/eph"));
    let (waited, closed) = tokio::join!(within("the key is gone", coord.wait(&seen)), session.close());
    waited??;
    closed?;
    Ok(())
}

/// Promise: a wait for names ends by creations and deletions, and the listing then shows them.
async fn children_wake_by_names_alone(cx: Arc<Cx>) -> CaseResult {
    let (coord, writer) = (cx.coord().await?, cx.coord().await?);
    let dir = coord_api::Dir::parse("/d")?;
    for i in 0..10 {
        let before = coord.list(&dir).await?;
        let seen = Seen::Children(dir.clone(), before.revision);
        let name = format!("/d/{i}");
        let write = writer.put(&name, "");
        let (waited, written) = tokio::join!(
            within("names changed", async {
                // It may return early: look again, as callers do.
                loop {
                    coord.wait(&seen).await?;
                    let now = coord.list(&dir).await?;
                    if now.children.len() > before.children.len() {
                        return Ok::<_, coord_api::Error>(());
                    }
                    tokio::task::yield_now().await;
                }
            }),
            write
        );
        waited??;
        written?;
    }
    Ok(())
}

/// Promise: nothing needs to exist to be waited for.
async fn an_absent_directory_can_be_waited_for(cx: Arc<Cx>) -> CaseResult {
    let (coord, writer) = (cx.coord().await?, cx.coord().await?);
    let names = coord.list("/not/yet").await?.revision;
    assert!(names <= Revision::new(u64::MAX));
    let (absent, children) =
        (Seen::Absent(key("/not/yet/key")), Seen::Children(coord_api::Dir::parse("/not/yet")?, names));
    let both = async { tokio::try_join!(coord.wait(&absent), coord.wait(&children)) };
    let (waited, written) = tokio::join!(within("the key came", both), writer.put("/not/yet/key", ""));
    waited??;
    written?;
    Ok(())
}

/// Promise: many may wait in one directory, and each is woken by its own key.
async fn many_waiters_wake_for_their_own_key(cx: Arc<Cx>) -> CaseResult {
    const WAITERS: usize = 50;
    let coord = cx.coord().await?;
    let mut waiters = Vec::new();
    for i in 0..WAITERS {
        coord.put(format!("/d/{i}"), "").await?;
    }
    for i in 0..WAITERS {
        let coord = coord.clone();
        waiters.push(tokio::spawn(async move {
            let path = format!("/d/{i}");
            while coord.get(&path).await?.is_some() {
                coord.wait(&Seen::Exists(key(&path))).await?;
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    for (i, waiter) in waiters.into_iter().enumerate() {
        coord.delete(format!("/d/{i}")).await?;
        within(&format!("waiter {i}"), waiter).await?.expect("no panic")?;
    }
    Ok(())
}
