//! Recipes that outlive their sessions, while the server stops, dies and comes back.

use std::{sync::Arc, time::Duration};

use coord_api::{Durability, SessionOptions};
use coord_recipes::{Candidate, PersistentEphemeral, SessionKeeper};

use super::{
    election::{DIR, stand},
    persistent::has,
};
use crate::{CaseResult, Cx, eventually, within};

cases!("recipes_restart", needs Server:
    an_election_survives_a_restart_of_the_server,
    an_election_survives_a_frozen_server,
    a_registration_survives_a_restart_of_the_server,
    a_registration_survives_a_server_frozen_past_the_ttl,
);

const KEY: &str = "/services/billing/a";

/// Promise: after a restart there is one leader, the same one or a new one with a larger epoch.
///
/// BB-121 (docker leadership PR 2): sessions were restored, and nobody led.
async fn an_election_survives_a_restart_of_the_server(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keep = |coord| SessionKeeper::new(coord, SessionOptions::new(Cx::OVER_A_RESTART));
    let one = Candidate::new(&keep(&a.coord), DIR, "one")?;
    let two = Candidate::new(&keep(&b.coord), DIR, "two")?;
    let leadership = one.leadership().await?;
    let waiting = stand(&b.coord, &two, 1).await?;
    rig.kill().await?;
    rig.restart().await?;
    eventually("the store answers", || async { Ok(a.coord.get("/other").await.is_ok()) }).await?;
    if a.coord.info().guarantees.durability == Durability::Process {
        // It says that a restart forgets: then the old leader must be told, and somebody must lead.
        within("the leader is told", leadership.lost()).await?;
        assert!(!one.is_leader());
        let next = within("the next", waiting).await?.expect("no panic")?;
        assert!(next.is_valid());
        return Ok(());
    }
    assert!(one.is_leader() && !waiting.is_finished());
    within("resigned", leadership.resign()).await??;
    let next = within("the next", waiting).await?.expect("no panic")?;
    assert!(two.is_leader());
    next.resign().await?;
    Ok(())
}

/// Promise: while the server stands still for longer than the ttl, the leader stops believing; after that one leads.
async fn an_election_survives_a_frozen_server(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Duration::from_secs(4)));
    let one = Candidate::new(&keeper, DIR, "one")?;
    let leadership = one.leadership().await?;
    rig.pause().await?;
    within("lost by the clock", leadership.lost()).await?;
    assert!(!one.is_leader());
    rig.resume().await?;
    let old = leadership.epoch();
    drop(leadership);
    let again = within("leads again", one.leadership()).await??;
    assert!(again.epoch() > old);
    Ok(())
}

/// Promise: a registration is there again after a restart, whatever the server kept.
///
/// BB-214 (go-zero#1926): not registered again after a restart of the store.
async fn a_registration_survives_a_restart_of_the_server(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Cx::OVER_A_RESTART));
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    rig.kill().await?;
    let set = tokio::spawn({
        let one = one.clone();
        async move { one.set("2").await }
    });
    rig.restart().await?;
    eventually("the store answers", || async { Ok(a.coord.get("/other").await.is_ok()) }).await?;
    within("written", set).await?.expect("no panic")?;
    has(&a.coord, &keeper, KEY, "2").await?;
    one.close().await?;
    Ok(())
}

/// Promise: the same after a server that stood still.
async fn a_registration_survives_a_server_frozen_past_the_ttl(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Duration::from_secs(4)));
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    let session = keeper.session().await?;
    rig.pause().await?;
    within("lost by the clock", session.lost()).await?;
    assert!(!one.is_registered());
    rig.resume().await?;
    has(&a.coord, &keeper, KEY, "1").await?;
    within("registered", one.registered()).await??;
    one.close().await?;
    Ok(())
}
