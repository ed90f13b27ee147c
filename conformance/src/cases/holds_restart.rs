//! What is promised of every way to hold something, while the server dies and comes back.

use std::sync::Arc;

use coord_api::Durability;

use super::family::Kind;
use crate::{CaseResult, Cx, eventually, within};

cases!("holds_restart", needs Server:
    holds_and_places_survive_a_restart_of_the_server,
    an_outage_longer_than_the_ttl_ends_a_hold_and_frees_it,
);

/// Promise: a restart that is shorter than the ttl changes nothing for holders and waiters.
async fn holds_and_places_survive_a_restart_of_the_server(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) =
        (a.coord.session(Cx::OVER_A_RESTART).await?, b.coord.session(Cx::OVER_A_RESTART).await?);
    let mut pairs = Vec::new();
    for kind in Kind::ALL {
        if kind == Kind::Write {
            continue; // its line is the reader's
        }
        let (held, waiter) = kind.contend(&session_a, &session_b).await?;
        pairs.push((kind, held, waiter));
    }
    rig.kill().await?;
    rig.restart().await?;
    eventually("the store answers", || async { Ok(a.coord.get("/other").await.is_ok()) }).await?;
    let forgets = a.coord.info().guarantees.durability == Durability::Process;
    for (kind, held, waiter) in pairs {
        if forgets {
            // It says so: then both are told.
            within(&format!("{kind:?}: the holder is told"), held.hold().lost()).await?;
            drop(within(&format!("{kind:?}: the waiter ends"), waiter).await?);
            continue;
        }
        assert!(held.hold().is_valid() && !waiter.is_finished(), "{kind:?}");
        within(&format!("{kind:?}: the release"), held.release()).await??;
        within(&format!("{kind:?}: the waiter"), waiter).await?.expect("no panic")?.release().await?;
    }
    Ok(())
}

/// BB-092 (CURATOR-595). Promise: the old holder is told while the server is away; when it is back, others get in.
async fn an_outage_longer_than_the_ttl_ends_a_hold_and_frees_it(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let short = a.coord.session(Cx::SHORT).await?;
    let mut held = Vec::new();
    for kind in Kind::ALL {
        if kind == Kind::Write {
            continue; // its line is the reader's
        }
        held.push((kind, kind.rival().door(&short).await?.acquire().await?));
    }
    rig.kill().await?;
    for (kind, held) in &held {
        within(&format!("{kind:?}: the holder is told"), held.hold().lost()).await?;
        assert!(!held.hold().is_valid(), "{kind:?}");
    }
    rig.restart().await?;
    eventually("the store answers", || async { Ok(b.coord.get("/other").await.is_ok()) }).await?;
    let other = b.coord.session(Cx::LONG).await?;
    for (kind, old) in held {
        let door = within("it opens", kind.door(&other)).await??;
        let next = within(&format!("{kind:?}: the next"), door.acquire()).await??;
        if b.coord.info().guarantees.durability != Durability::Process {
            assert!(next.hold().token() > old.hold().token(), "{kind:?}");
        }
        next.release().await?;
    }
    Ok(())
}
