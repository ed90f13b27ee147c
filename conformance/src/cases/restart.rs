//! Everything while the server itself stops, dies and comes back.

use std::{sync::Arc, time::Duration};

use coord_api::{ErrorKind, Freshness, Lifetime, Outcome, SessionState};
use coord_recipes::Lock;
use tokio::time::Instant;

use super::lock::queue_up;
use crate::{CaseResult, Cx, eventually, within};

cases!("restart", needs Server:
    a_session_survives_a_restart_of_the_server,
    a_frozen_server_suspends_and_a_thawed_one_serves_again,
    a_server_that_is_down_is_a_typed_error,
    a_new_client_of_a_dead_server_fails_in_time,
    closing_without_a_server_is_quick_and_promises_nothing,
    the_lock_survives_a_restart_of_the_server,
);

/// Promise: a restart that is shorter than the ttl ends no session and loses no acknowledged write.
async fn a_session_survives_a_restart_of_the_server(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let client = cx.client(&rig).await?;
    let session = client.coord.session(Cx::OVER_A_RESTART).await?;
    session.coord().create("/eph", "", Lifetime::Session).await?.expect("new");
    let before = client.coord.put("/stays", "1").await?.revision;
    rig.kill().await?;
    rig.restart().await?;
    let reader = client.coord.clone().with_freshness(Freshness::Latest);
    eventually("the store answers", || async { Ok(reader.get("/stays").await.is_ok()) }).await?;
    if client.coord.info().guarantees.durability == coord_api::Durability::Process {
        return Ok(()); // it says that a restart forgets; nothing to hold it to
    }
    assert_eq!(reader.get("/stays").await?.expect("acknowledged").value, "1");
    let mut states = session.states();
    within("live again", states.wait_for(|state| *state != SessionState::Suspended)).await?.expect("alive");
    assert!(session.is_valid(), "{:?}", session.state());
    assert_eq!(reader.get("/eph").await?.expect("its session lives").meta.owner.as_ref(), Some(session.id()));
    assert!(client.coord.put("/stays", "2").await?.revision > before);
    Ok(())
}

/// Promise: a server that does not answer is noticed; when it answers again, so does the handle.
async fn a_frozen_server_suspends_and_a_thawed_one_serves_again(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let client = cx.client(&rig).await?;
    let session = client.coord.session(Duration::from_secs(12)).await?;
    let mut states = session.states();
    rig.pause().await?;
    within("suspended", states.wait_for(|state| *state != SessionState::Live)).await?.expect("alive");
    let began = Instant::now();
    let error = client.coord.put("/a", "").await.expect_err("nobody answers");
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "the deadline was not honoured: {:?}", began.elapsed());
    rig.resume().await?;
    if error.outcome() == Outcome::NotApplied {
        let reader = client.coord.clone().with_freshness(Freshness::Latest);
        eventually("a read is answered", || async { Ok(reader.get("/a").await.is_ok()) }).await?;
        assert!(reader.get("/a").await?.is_none(), "it was applied: {error:?}");
    }
    eventually("the handle works again", || async { Ok(client.coord.put("/a", "").await.is_ok()) }).await
}

/// Promise: while the server is down, calls fail in time and typed.
async fn a_server_that_is_down_is_a_typed_error(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let client = cx.client(&rig).await?;
    client.coord.put("/a", "").await?;
    rig.kill().await?;
    for _ in 0..3 {
        let began = Instant::now();
        let error = client.coord.get("/a").await.expect_err("it is down");
        assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    }
    rig.restart().await?;
    eventually("the handle works again", || async { Ok(client.coord.get("/a").await.is_ok()) }).await
}

/// Promise: opening a store that does not answer is an error within the connect time-out, never a hang.
async fn a_new_client_of_a_dead_server_fails_in_time(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let first = cx.client(&rig).await?;
    first.coord.put("/a", "").await?;
    rig.pause().await?;
    let began = Instant::now();
    let opened = cx.client(&rig).await;
    let took = began.elapsed();
    rig.resume().await?;
    assert!(opened.is_err(), "nobody answered");
    assert!(took < Duration::from_secs(8), "{took:?}");
    Ok(())
}

/// Promise: closing waits for no server that is down, and calls nothing confirmed that nobody heard (G8, G10).
async fn closing_without_a_server_is_quick_and_promises_nothing(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let client = cx.client(&rig).await?;
    let (one, two) = (client.coord.session(Cx::LONG).await?, client.coord.session(Cx::LONG).await?);
    rig.kill().await?;
    for what in ["a session", "the handle"] {
        let began = Instant::now();
        let closing =
            async { if what == "a session" { one.close().await } else { client.coord.close().await } };
        let error = within(what, closing).await?.expect_err("nobody heard of it");
        assert_eq!(error.outcome(), Outcome::Unknown, "{what}: {error:?}");
        // Documented: about two seconds; with room for a loaded machine.
        assert!(began.elapsed() < Duration::from_secs(4), "{what}: {:?}", began.elapsed());
    }
    assert_eq!(two.state(), SessionState::Lost);
    rig.restart().await?;
    Ok(())
}

/// Promise: a restart of the server keeps holder and line, on a store that keeps its data.
async fn the_lock_survives_a_restart_of_the_server(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) =
        (a.coord.session(Cx::OVER_A_RESTART).await?, b.coord.session(Cx::OVER_A_RESTART).await?);
    let guard = Lock::new(&session_a, "/locks/x")?.acquire().await?;
    let waiter = queue_up(&session_b, "/locks/x", 1).await?;
    rig.kill().await?;
    rig.restart().await?;
    eventually("the store answers", || async { Ok(a.coord.get("/other").await.is_ok()) }).await?;
    if a.coord.info().guarantees.durability == coord_api::Durability::Process {
        // It says that a restart forgets: then both must be told, and the lock must be there to take anew.
        within("the holder is told", guard.lost()).await?;
        drop(within("the waiter ends", waiter).await?);
        return Ok(());
    }
    assert!(guard.is_valid() && !waiter.is_finished());
    within("the release", guard.release()).await??;
    let next = within("the waiter", waiter).await?.expect("no panic")?;
    next.release().await?;
    Ok(())
}
