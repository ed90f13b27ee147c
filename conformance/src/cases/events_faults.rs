//! Events while links fail.

use std::{sync::Arc, time::Duration};

use coord_api::{
    Freshness, SessionState,
    events::{Event, Events},
};
use coord_config_centre::Consumer;
use coord_recipes::Lock;

use super::{
    consumer::{billing, me, publish, rate},
    events::next,
    events_views::{configured, instances},
    registry::{register, view},
};
use crate::{CaseResult, Cx, Failure, eventually, within};

cases!("events_faults", needs Link:
    a_late_session_is_told_with_its_connection_and_so_is_its_return,
    a_lost_session_is_told_with_its_locks_before_another_can_hold_them,
    calls_without_an_answer_are_told_once_and_so_is_the_next_answer,
    what_changed_during_an_outage_is_told_after_it,
);

/// The next events up to the one that is called `last`.
async fn until(events: &mut Events, last: &str) -> Result<Vec<&'static str>, Failure> {
    let mut names = Vec::new();
    while names.last() != Some(&last) {
        names.push(next(events).await?.name());
    }
    Ok(names)
}

/// Promise: a cut that the session survives is told with its end, for the session and for the connection.
async fn a_late_session_is_told_with_its_connection_and_so_is_its_return(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let client = cx.client(&rig).await?;
    let session = client.coord.session(Duration::from_secs(10)).await?;
    let mut events = client.coord.events();
    client.link.blackhole().await;
    assert_eq!(
        until(&mut events, "connection.suspended").await?,
        ["session.suspended", "connection.suspended"]
    );
    client.link.heal().await;
    assert_eq!(
        until(&mut events, "connection.reconnected").await?,
        ["session.resumed", "connection.reconnected"]
    );
    assert!(session.is_valid());
    Ok(())
}

/// Promise: the session is told as lost, not as closed, then the lock; nobody else holds it before (G2).
async fn a_lost_session_is_told_with_its_locks_before_another_can_hold_them(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (cut, other) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let session = cut.coord.session(Cx::SHORT).await?;
    let guard = Lock::new(&session, "/locks/told")?.acquire().await?;
    let mut events = cut.coord.events();
    cut.link.blackhole().await;
    let told = until(&mut events, "turn.lost").await?;
    assert!(told.ends_with(&["session.lost", "turn.lost"]), "{told:?}");
    assert!(!told.contains(&"connection.reconnected"), "the end of a session is no answer: {told:?}");
    assert!(!guard.is_valid() && session.state() == SessionState::Lost);
    let theirs = other.coord.session(Cx::LONG).await?;
    let theirs = within("theirs", Lock::new(&theirs, "/locks/told")?.acquire()).await??;
    assert!(theirs.token() > guard.token());
    Ok(())
}

/// Promise: without any session, calls alone tell that the store does not answer, and that it does again.
async fn calls_without_an_answer_are_told_once_and_so_is_the_next_answer(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let client = cx.client(&rig).await?;
    let reader = client.coord.clone().with_freshness(Freshness::Latest);
    reader.get("/x").await?;
    let mut events = client.coord.events();
    client.link.blackhole().await;
    let (one, other) = tokio::join!(reader.get("/x"), reader.get("/y"));
    assert!(one.is_err() && other.is_err(), "nothing passes");
    client.link.heal().await;
    eventually("answered", || async { Ok(reader.get("/x").await.is_ok()) }).await?;
    client.coord.put("/x", "").await?;
    client.coord.close().await?;
    let told = until(&mut events, "connection.closed").await?;
    assert_eq!(told, ["connection.suspended", "connection.reconnected", "connection.closed"]);
    Ok(())
}

/// Promise: who hears of configuration and of instances by events alone misses neither, also where the change fell into
/// an outage.
async fn what_changed_during_an_outage_is_told_after_it(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (cut, other) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let mut events = cut.coord.events();
    let theirs = billing(&other.coord)?;
    publish(&theirs, rate(1)).await?;
    let _consumer = Consumer::open(&billing(&cut.coord)?, me())?;
    let _view = view(&cut.coord).await?;
    let mut heard = async |mut wanted: Vec<Event>| {
        while !wanted.is_empty() {
            let event = next(&mut events).await?;
            wanted.retain(|wanted| *wanted != event);
        }
        CaseResult::Ok(())
    };
    heard(vec![configured("billing", 1), instances(0)]).await?;
    cut.link.blackhole().await;
    publish(&theirs, rate(2)).await?;
    let _a = register(&other.coord, "a").await?;
    cut.link.heal().await;
    heard(vec![configured("billing", 2), instances(1)]).await
}
