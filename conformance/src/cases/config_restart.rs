//! The config centre: publishing while the server stops, dies and comes back.

use std::sync::Arc;

use coord_api::{Durability, Outcome};
use coord_config_centre::{Edited, ReleaseVersion};

use super::config::{ann, billing, publish_rate, rate, told};
use crate::{CaseResult, Cx, eventually, within};

cases!("config_restart", needs Server:
    what_was_published_is_there_after_a_restart,
    a_publish_into_a_frozen_server_is_made_once,
);

/// Promise: releases, history and drafts that were acknowledged are there after a restart, if the store says that it
/// keeps what it acknowledged; the chain holds, and publishing goes on.
async fn what_was_published_is_there_after_a_restart(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let namespace = billing(&a.coord)?;
    for number in 1..=5 {
        publish_rate(&namespace, &number.to_string()).await?;
    }
    namespace.rollback(ReleaseVersion::new(2), &ann()).await?.done()?;
    let draft = namespace.save_draft(rate("draft"), None, &ann()).await?.done()?;
    let guarantees = a.coord.info().guarantees;
    rig.kill().await?;
    rig.restart().await?;
    eventually("the store answers", || async { Ok(a.coord.get("/other").await.is_ok()) }).await?;
    if guarantees.durability == Durability::Process || guarantees.can_lose_acknowledged_writes {
        // What is left, if anything, must fit: nothing is half there.
        assert_eq!(namespace.verify().await?.broken, None);
        return Ok(());
    }
    assert_eq!(namespace.get("rate").await?.as_deref(), Some("2"));
    assert_eq!(namespace.draft().await?, Some(draft));
    let head = within("published", namespace.publish(rate("6"), &ann())).await??.done()?;
    assert_eq!((head.generation.get(), head.main.version.get()), (7, 6));
    assert_eq!(told(&namespace).await?.len(), 7);
    assert_eq!(namespace.verify().await?.broken, None);
    Ok(())
}

/// Promise: a publish that meets a server which stands still is made once or not at all, and says what is known.
async fn a_publish_into_a_frozen_server_is_made_once(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let namespace = billing(&a.coord)?;
    let first = publish_rate(&namespace, "1").await?;
    rig.pause().await?;
    let publishing = {
        let namespace = namespace.clone();
        tokio::spawn(async move { namespace.publish(rate("2"), &ann()).await })
    };
    tokio::task::yield_now().await;
    rig.resume().await?;
    let published = within("ends", publishing).await?.expect("no panic");
    let next = within("published", publish_rate(&namespace, "3")).await??;
    match published {
        Ok(Edited::Done(head)) => assert_eq!((head.generation, next), (first.next(), first.next().next())),
        Ok(other) => panic!("{other:?}"),
        Err(error) if error.outcome() == Outcome::NotApplied => assert_eq!(next, first.next()),
        Err(_) => assert!(next <= first.next().next()),
    }
    assert_eq!(told(&namespace).await?.len() as u64, next.get());
    assert_eq!(namespace.verify().await?.broken, None);
    Ok(())
}
