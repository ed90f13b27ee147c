//! Local copies while links fail.

use std::sync::Arc;

use coord_api::Key;
use coord_recipes::{Cache, CacheState, SharedValue};
use futures::StreamExt;

use super::cache::Told;
use crate::{CaseResult, Cx, eventually, within};

cases!("cache_faults", needs Link:
    a_cut_shows_and_heals_with_the_whole_difference,
    broken_connections_lose_no_change,
    a_cache_that_begins_cut_off_is_pending,
    a_cache_outlives_the_session_it_was_opened_with,
    a_value_is_told_again_only_if_it_changed,
);

/// BB-130 (kazoo#29), BB-152 (CURATOR-391), BB-155 (CURATOR-296): what happened behind a cut is told after it, also a
/// key that was made anew, and the state says when the copy can be believed.
async fn a_cut_shows_and_heals_with_the_whole_difference(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    for path in ["/c/anew", "/c/changed", "/c/gone"] {
        b.coord.put(path, "old").await?;
    }
    let cache = Cache::tree(&a.coord, "/c")?;
    let (mut listener, mut told, mut states) = (cache.listen(), Told::default(), cache.states());
    told.follow(&mut listener, "the contents", |state| state.len() == 3).await?;
    within("current", states.wait_for(|state| *state == CacheState::Current)).await?.expect("alive");

    a.link.blackhole().await;
    within("the cut shows", states.wait_for(|state| *state == CacheState::Stale)).await?.expect("alive");
    assert!(!cache.is_current() && cache.snapshot().iter().count() == 3, "what was true once is shown still");
    b.coord.delete("/c/anew").await?;
    b.coord.put("/c/anew", "new").await?;
    b.coord.put("/c/changed", "new").await?;
    b.coord.delete("/c/gone").await?;
    let before = cache.revision();
    a.link.heal().await;
    told.follow(&mut listener, "what happened behind the cut", |state| {
        state.len() == 2 && state.values().all(|entry| entry.value == "new")
    })
    .await?;
    assert!(cache.revision() >= before);
    within("current again", states.wait_for(|state| *state == CacheState::Current)).await?.expect("alive");
    Ok(())
}

/// BB-133, BB-140, BB-146: connections break while keys change; the copy ends where the store does, and nothing is told
/// that does not fit what was told before.
async fn broken_connections_lose_no_change(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let cache = Cache::tree(&a.coord, "/c")?;
    let (mut listener, mut told) = (cache.listen(), Told::default());
    told.follow(&mut listener, "nothing", |state| state.is_empty()).await?;
    for round in 0..5 {
        for i in 0..10 {
            b.coord.put(format!("/c/{i}"), format!("{round}")).await?;
            if i == 5 {
                a.link.reset().await?;
            }
        }
        b.coord.delete("/c/0").await?;
    }
    told.follow(&mut listener, "the last state", |state| {
        state.len() == 9 && state.values().all(|entry| entry.value == "4")
    })
    .await?;
    assert!(told.state.values().all(|entry| cache.get(&entry.key).as_ref() == Some(entry)));
    Ok(())
}

/// BB-115 (kazoo#207), BB-190 (CURATOR-110): opening a cache never blocks; cut off, it is pending, and it loads when the
/// store is back.
async fn a_cache_that_begins_cut_off_is_pending(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    b.coord.put("/c/a", "1").await?;
    a.link.blackhole().await;
    let cache = Cache::tree(&a.coord, "/c")?;
    let pending = tokio::time::timeout(std::time::Duration::from_millis(200), cache.ready()).await;
    assert!(pending.is_err(), "{pending:?}");
    assert_eq!(cache.state(), CacheState::Loading);
    assert_eq!(cache.snapshot().iter().count(), 0);
    a.link.heal().await;
    within("the contents", cache.ready()).await??;
    assert_eq!(cache.get(&Key::parse("/c/a")?).expect("there").value, "1");
    Ok(())
}

/// BB-136, BB-166 (linkerd#1830): the watch of a cache does not hang on a session.
async fn a_cache_outlives_the_session_it_was_opened_with(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let session = a.coord.session(Cx::SHORT).await?;
    let cache = Cache::tree(session.coord(), "/c")?;
    within("the contents", cache.ready()).await??;
    a.link.blackhole().await;
    within("the session is lost", session.lost()).await?;
    a.link.heal().await;
    b.coord.put("/c/a", "after").await?;
    let there = |snapshot: &coord_recipes::Snapshot| snapshot.iter().any(|entry| entry.value == "after");
    within("the change", cache.wait_until(there)).await??;
    Ok(())
}

/// BB-302 (CURATOR-311, CURATOR-344): after an outage a listener of a value is told if it changed, and only then.
async fn a_value_is_told_again_only_if_it_changed(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (here, there) = (SharedValue::new(&a.coord, "/v/x")?, SharedValue::new(&b.coord, "/v/x")?);
    there.set("1").await?;
    let mut changes = here.changes()?;
    let first = within("the first value", changes.next()).await?.expect("open").expect("set");
    assert_eq!(first.value, "1");
    for _ in 0..2 {
        a.link.reset().await?;
        eventually("the link works", || async { Ok(here.get().await.is_ok()) }).await?;
    }
    there.set("2").await?;
    let second = within("the change", changes.next()).await?.expect("open").expect("set");
    assert_eq!(second.value, "2", "the outages were no changes");
    a.link.blackhole().await;
    there.set("3").await?;
    a.link.heal().await;
    let third = within("the change behind the cut", changes.next()).await?.expect("open").expect("set");
    assert_eq!(third.value, "3");
    Ok(())
}
