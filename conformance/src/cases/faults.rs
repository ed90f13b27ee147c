//! Sessions, watches and writes while links and servers fail.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use coord_api::{ErrorKind, Freshness, Lifetime, Outcome, SessionState};
use tokio::time::Instant;

use super::watch::Follower;
use crate::{CaseResult, Cx, cut_briefly, eventually, within};

cases!("faults", needs Link:
    a_cut_off_session_is_suspended_then_lost_before_its_keys_go,
    keys_of_a_dead_client_go_within_the_bound,
    a_session_survives_a_cut_shorter_than_its_ttl,
    a_lost_session_stays_lost_after_the_heal,
    a_watch_goes_on_after_its_connection_broke,
    a_watch_misses_nothing_that_happened_while_it_was_cut_off,
    a_wait_goes_on_after_its_connection_broke,
    a_lost_reply_is_never_called_not_applied,
    closing_while_cut_off_is_quick_and_promises_nothing,
);

/// Promise: `Suspended` when renewals fail, `Lost` by the local clock before the store gives the keys up (G2, G6).
async fn a_cut_off_session_is_suspended_then_lost_before_its_keys_go(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (cut, other) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let reader = other.coord.with_freshness(Freshness::Latest);
    let session = cut.coord.session(Duration::from_secs(3)).await?;
    session.coord().create("/eph", "", Lifetime::Session).await?.expect("new");
    let mut states = session.states();
    let began = Instant::now();
    cut.link.blackhole().await;

    let suspended = within("suspended", states.wait_for(|state| *state != SessionState::Live)).await?;
    assert_eq!(suspended.map(|state| *state).ok(), Some(SessionState::Suspended));
    // The clock decides and not the signal, which a loaded machine may deliver late: whoever sees that the keys are
    // gone must find that the owner no longer believes.
    eventually("the key is gone", || async {
        let gone = reader.get("/eph").await?.is_none();
        assert!(!gone || !session.is_valid(), "the keys went while the owner believed");
        Ok(gone)
    })
    .await?;
    within("lost", session.lost()).await?;
    assert_eq!(session.state(), SessionState::Lost);
    // Published bound: the ttl, and what the stores take to look, with room for a loaded machine.
    assert!(began.elapsed() < session.ttl() * 2 + Duration::from_secs(4), "{:?}", began.elapsed());
    Ok(())
}

/// Promise: never before the ttl since the last accepted renewal, and within the bound after it (G6).
async fn keys_of_a_dead_client_go_within_the_bound(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (dead, other) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let reader = other.coord.with_freshness(Freshness::Latest);
    let session = dead.coord.session(Cx::SHORT).await?;
    session.coord().create("/eph", "", Lifetime::Session).await?.expect("new");
    dead.link.blackhole().await;
    // What the owner may still believe is the strictest lower bound that can be seen from outside.
    let believed = session.valid_until();
    eventually("the key is gone", || async { Ok(reader.get("/eph").await?.is_none()) }).await?;
    let gone = Instant::now();
    assert!(gone >= believed, "gone {:?} before the owner's deadline", believed - gone);
    assert!(gone < believed + session.ttl() + Duration::from_secs(4), "{:?} too late", gone - believed);
    Ok(())
}

/// Promise: a short outage is survived, with the same keys and without a moment of `Lost`.
async fn a_session_survives_a_cut_shorter_than_its_ttl(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let client = cx.client(&rig).await?;
    let session = client.coord.session(Duration::from_secs(10)).await?;
    session.coord().create("/eph", "", Lifetime::Session).await?.expect("new");
    cut_briefly(&*client.link, &session).await?;
    assert!(session.is_valid());
    eventually("the key is still there", || async {
        match session.coord().get("/eph").await {
            Ok(entry) => Ok(entry.expect("it never went").meta.owner.as_ref() == Some(session.id())),
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::SessionLost, "{error}");
                Ok(false)
            }
        }
    })
    .await
}

/// Promise: lost is final, also when the store comes back and might still know the session (G3).
async fn a_lost_session_stays_lost_after_the_heal(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let client = cx.client(&rig).await?;
    let session = client.coord.session(Cx::SHORT).await?;
    session.coord().create("/eph", "old", Lifetime::Session).await?.expect("new");
    client.link.blackhole().await;
    within("lost", session.lost()).await?;
    client.link.heal().await;
    eventually("the handle works again", || async { Ok(client.coord.get("/other").await.is_ok()) }).await?;
    assert_eq!(session.state(), SessionState::Lost);
    let error = session.coord().create("/eph2", "", Lifetime::Session).await.expect_err("it is lost");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    let reader = client.coord.clone().with_freshness(Freshness::Latest);
    eventually("the old key is gone", || async { Ok(reader.get("/eph").await?.is_none()) }).await?;

    let fresh = client.coord.session(Cx::LONG).await?;
    fresh.coord().create("/eph", "new", Lifetime::Session).await?.expect("free");
    assert!(fresh.is_valid());
    Ok(())
}

/// Promise: a broken connection is a new snapshot at most, never the end of a watch and never a step back (G7).
async fn a_watch_goes_on_after_its_connection_broke(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (client, writer) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let mut stream = client.coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower.follow(&mut stream, "the snapshot", |_| true).await?;
    for round in 0..4 {
        let value = format!("{round}");
        client.link.reset().await?;
        writer.coord.put("/d/n", value.clone()).await?;
        let key = coord_api::Key::parse("/d/n")?;
        follower
            .follow(&mut stream, "the change", |state| state.get(&key).is_some_and(|v| *v == value))
            .await?;
    }
    Ok(())
}

/// Promise: what happened while the watcher was cut off is in what it gets after.
async fn a_watch_misses_nothing_that_happened_while_it_was_cut_off(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (client, writer) = (cx.client(&rig).await?, cx.client(&rig).await?);
    for name in ["stays", "goes", "replaced"] {
        writer.coord.put(format!("/d/{name}"), "old").await?;
    }
    let mut stream = client.coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower.follow(&mut stream, "the snapshot", |state| state.len() == 3).await?;

    client.link.blackhole().await;
    writer.coord.delete("/d/goes").await?;
    writer.coord.delete("/d/replaced").await?;
    writer.coord.put("/d/replaced", "new").await?;
    writer.coord.put("/d/comes", "new").await?;
    writer.coord.put("/d/flash", "never seen").await?;
    writer.coord.delete("/d/flash").await?;
    client.link.heal().await;

    let wanted: BTreeMap<_, bytes::Bytes> = [("stays", "old"), ("replaced", "new"), ("comes", "new")]
        .into_iter()
        .map(|(name, value)| (coord_api::Key::parse(&format!("/d/{name}")).expect("a literal"), value.into()))
        .collect();
    follower.follow(&mut stream, "the truth", |state| *state == wanted).await
}

/// Promise: a wait survives a broken connection.
async fn a_wait_goes_on_after_its_connection_broke(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (client, writer) = (cx.client(&rig).await?, cx.client(&rig).await?);
    writer.coord.put("/d/a", "").await?;
    let seen = coord_api::Seen::Exists(coord_api::Key::parse("/d/a")?);
    let waiter = {
        let coord = client.coord.clone().with_freshness(Freshness::Latest);
        tokio::spawn(async move {
            loop {
                match coord.get("/d/a").await {
                    Ok(None) => return Ok(()),
                    Ok(Some(_)) => coord.wait(&seen).await?,
                    Err(error) if error.retry() != coord_api::Retry::Never => tokio::task::yield_now().await,
                    Err(error) => return Err(error),
                }
            }
        })
    };
    client.link.reset().await?;
    writer.coord.delete("/d/a").await?;
    within("the waiter", waiter).await?.expect("no panic")?;
    Ok(())
}

/// Promise: a write that was applied is not called `NotApplied` (G8).
async fn a_lost_reply_is_never_called_not_applied(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (client, reader) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let reader = reader.coord.with_freshness(Freshness::Latest);
    let mut lost = 0;
    for i in 0..4 {
        let path = format!("/a/{i}");
        eventually("the handle works", || async { Ok(client.coord.get("/other").await.is_ok()) }).await?;
        client.link.lose_reply(1).await?;
        if let Err(error) = client.coord.create(&path, "", Lifetime::Persistent).await {
            lost += 1;
            if reader.get(&path).await?.is_some() {
                assert_eq!(error.outcome(), Outcome::Unknown, "it was applied: {error:?}");
            }
        }
    }
    assert!(lost > 0, "the fault never hit a write");
    Ok(())
}

/// Promise: closing waits for no store that does not answer, and says `Ok` only if the keys are gone (G8, G10).
async fn closing_while_cut_off_is_quick_and_promises_nothing(cx: Arc<Cx>) -> CaseResult {
    // Documented: about two seconds; with room for a loaded machine.
    const BOUND: Duration = Duration::from_secs(4);
    let rig = cx.rig().await?;
    let (cut, other) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let reader = other.coord.with_freshness(Freshness::Latest);
    let (one, two) = (cut.coord.session(Cx::LONG).await?, cut.coord.session(Cx::LONG).await?);
    for (session, path) in [(&one, "/eph/1"), (&two, "/eph/2")] {
        session.coord().create(path, "", Lifetime::Session).await?.expect("new");
    }
    cut.link.blackhole().await;
    for path in ["/eph/1", "/eph/2"] {
        let began = Instant::now();
        let closed = match path {
            "/eph/1" => within("closing a session", one.close()).await?,
            _ => within("closing the handle", cut.coord.close()).await?,
        };
        assert!(began.elapsed() < BOUND, "{path}: {:?}", began.elapsed());
        match closed {
            Ok(()) => assert!(reader.get(path).await?.is_none(), "{path} is still there"),
            Err(error) => assert_eq!(error.outcome(), Outcome::Unknown, "{path}: {error:?}"),
        }
    }
    assert_eq!((one.state(), two.state()), (SessionState::Lost, SessionState::Lost));
    let error = cut.coord.get("/other").await.expect_err("it was closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");

    // Without a session there is nothing that the store must hear.
    let idle = cx.client(&rig).await?;
    idle.link.blackhole().await;
    let began = Instant::now();
    within("closing an idle handle", idle.coord.close()).await??;
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    Ok(())
}
