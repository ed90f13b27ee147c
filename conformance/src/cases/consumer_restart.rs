//! Consumers of the config centre, while the store itself stops and comes back.

use std::sync::Arc;

use coord_api::Durability;
use coord_config_centre::{Consumer, Namespace};

use super::consumer::{billing, follow_until, me, publish, rate};
use crate::{CaseResult, Client, Cx, Failure, Rig, eventually};

cases!("consumer_restart", needs Server:
    a_restart_of_the_store_takes_nothing_back_and_hides_nothing,
    a_frozen_store_that_thaws_tells_the_newest,
);

/// A store, and a consumer that runs the first release.
async fn running(cx: &Cx) -> Result<(Arc<dyn Rig>, Client, Namespace, Consumer), Failure> {
    let rig = cx.rig().await?;
    let client = cx.client(&rig).await?;
    let billing = billing(&client.coord)?;
    publish(&billing, rate(1)).await?;
    let consumer = Consumer::open(&billing, me())?;
    follow_until(&consumer, 1).await?;
    Ok((rig, client, billing, consumer))
}

/// Promise: over a restart of the store the last good configuration stays, and what is published then is applied.
async fn a_restart_of_the_store_takes_nothing_back_and_hides_nothing(cx: Arc<Cx>) -> CaseResult {
    let (rig, client, billing, consumer) = running(&cx).await?;
    rig.kill().await?;
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("1"));
    rig.restart().await?;
    if client.coord.info().guarantees.durability == Durability::Process {
        return Ok(()); // it says that a restart forgets; nothing to hold it to
    }
    eventually("the store takes a release", || async { Ok(publish(&billing, rate(2)).await.is_ok()) })
        .await?;
    follow_until(&consumer, 2).await?;
    publish(&billing, rate(3)).await?;
    follow_until(&consumer, 3).await.map(drop)
}

/// Promise: a store that stood still for a while, with all connections open, delays a release and loses none.
async fn a_frozen_store_that_thaws_tells_the_newest(cx: Arc<Cx>) -> CaseResult {
    let (rig, _client, billing, consumer) = running(&cx).await?;
    rig.pause().await?;
    let published = tokio::spawn({
        let billing = billing.clone();
        async move { publish(&billing, rate(2)).await }
    });
    // While nobody answers, the consumer runs what it has: for longer than a call may take.
    tokio::time::sleep(Cx::SHORT).await;
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("1"));
    rig.resume().await?;
    if published.await.expect("no panic").is_err() {
        eventually("the store takes a release", || async { Ok(publish(&billing, rate(2)).await.is_ok()) })
            .await?;
    }
    follow_until(&consumer, 2).await.map(drop)
}
