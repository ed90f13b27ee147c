//! Consumers of the config centre, while links fail.

use std::{path::Path, sync::Arc, time::Duration};

use coord_api::{ErrorKind, SessionOptions};
use coord_config_centre::{Consumer, ConsumerOptions, Generation, Namespace};
use coord_recipes::SessionKeeper;
use futures::StreamExt;

use super::consumer::{billing, follow_until, me, publish, rate};
use crate::{CaseResult, Cx, Failure, eventually, within};

cases!("consumer_faults", needs Link:
    behind_a_cut_the_last_good_one_stays_and_the_newest_follows,
    broken_connections_tell_nothing_twice_and_nothing_backwards,
    a_start_without_the_store_takes_the_snapshot_and_then_the_newest,
    a_snapshot_that_the_store_confirms_is_told_once,
    a_damaged_snapshot_is_ignored_and_told,
    a_report_is_back_after_a_lost_session_with_the_latest,
);

/// Promise: who is cut off runs what it has, and nothing older; when the link is back, the newest comes.
async fn behind_a_cut_the_last_good_one_stays_and_the_newest_follows(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let publisher = billing(&b.coord)?;
    publish(&publisher, rate(1)).await?;
    let consumer = Consumer::open(&billing(&a.coord)?, me())?;
    let mut changes = consumer.changes();
    within("the first", changes.next()).await?.expect("open");
    a.link.blackhole().await;
    for i in 2..=4 {
        publish(&publisher, rate(i)).await?;
    }
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("1"));
    a.link.heal().await;
    let mut before = Generation::FIRST;
    within("the newest", async {
        loop {
            let now = changes.next().await.expect("open");
            let generation = now.generation().expect("published");
            assert!(generation > before, "{before} and then {generation}");
            before = generation;
            if now.item("rate") == Some("4") {
                break;
            }
        }
    })
    .await
}

/// BB-236 (<https://github.com/alibaba/nacos/issues/11880>): reconnecting told the same change twice. BB-235
/// (<https://github.com/alibaba/nacos/issues/13482>): and some were not told at all.
async fn broken_connections_tell_nothing_twice_and_nothing_backwards(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let publisher = billing(&b.coord)?;
    publish(&publisher, rate(0)).await?;
    let consumer = Consumer::open(&billing(&a.coord)?, me())?;
    let mut changes = consumer.changes();
    within("the first", changes.next()).await?.expect("open");
    for i in 1..=8 {
        publish(&publisher, rate(i)).await?;
        a.link.reset().await?;
        let told = within("the next", changes.next()).await?.expect("open");
        let expected = (Some(i.to_string()), Some(Generation::new(i + 1)));
        assert_eq!((told.item("rate").map(str::to_owned), told.generation()), expected);
    }
    let more = tokio::time::timeout(Duration::from_secs(6), changes.next()).await;
    assert!(more.is_err(), "told once more: {more:?}");
    Ok(())
}

/// The first life of a program, which runs the first release and leaves it in this file.
async fn leave_snapshot(billing: &Namespace, options: ConsumerOptions, file: &Path) -> CaseResult {
    let first_life = Consumer::open(billing, options)?;
    follow_until(&first_life, 1).await?;
    eventually("the file", || async { Ok(file.exists()) }).await
}

/// Promise: a program starts with the last good configuration while the store is away, and goes on with the newest.
async fn a_start_without_the_store_takes_the_snapshot_and_then_the_newest(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let dir = tempfile::tempdir().expect("a directory");
    let options =
        || me().with_snapshot(dir.path().join("snapshot")).with_patience(Duration::from_millis(500));
    let publisher = billing(&b.coord)?;
    publish(&publisher, rate(1)).await?;
    leave_snapshot(&publisher, options(), &dir.path().join("snapshot")).await?;

    a.link.blackhole().await;
    let consumer = Consumer::open(&billing(&a.coord)?, options())?;
    let now = within("the snapshot", consumer.ready()).await??;
    assert_eq!(now.item("rate"), Some("1"));
    assert!(consumer.status().from_file);
    publish(&publisher, rate(2)).await?;
    a.link.heal().await;
    let told = follow_until(&consumer, 2).await?;
    assert!(told.len() <= 2, "{told:?}");
    assert!(!consumer.status().from_file);

    // Without a file there is nothing to begin with, and no wrong answer either.
    let c = cx.client(&rig).await?;
    c.link.blackhole().await;
    let bare = Consumer::open(&billing(&c.coord)?, me().with_patience(Duration::from_millis(100)))?;
    let early = tokio::time::timeout(Duration::from_millis(500), bare.ready()).await;
    assert!(early.is_err(), "{early:?}");
    c.link.heal().await;
    follow_until(&bare, 2).await.map(drop)
}

/// BB-233 (<https://github.com/alibaba/nacos/issues/2004>): where the first value of the server was that of the snapshot,
/// nobody was called at all. It is told once.
async fn a_snapshot_that_the_store_confirms_is_told_once(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let dir = tempfile::tempdir().expect("a directory");
    let options =
        || me().with_snapshot(dir.path().join("snapshot")).with_patience(Duration::from_millis(200));
    publish(&billing(&b.coord)?, rate(1)).await?;
    leave_snapshot(&billing(&b.coord)?, options(), &dir.path().join("snapshot")).await?;
    a.link.blackhole().await;
    let consumer = Consumer::open(&billing(&a.coord)?, options())?;
    let mut changes = consumer.changes();
    assert_eq!(within("the snapshot", changes.next()).await?.expect("open").item("rate"), Some("1"));
    a.link.heal().await;
    let mut statuses = consumer.statuses();
    within("confirmed", statuses.wait_for(|status| !status.from_file)).await?.expect("open");
    let more = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
    assert!(more.is_err(), "told once more: {more:?}");
    Ok(())
}

/// Promise: a snapshot that is not whole helps nobody and harms nobody, and the status says what is wrong with it.
async fn a_damaged_snapshot_is_ignored_and_told(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("snapshot");
    publish(&billing(&b.coord)?, rate(1)).await?;
    std::fs::write(&file, "coord-config-snapshot 1 sha256=00\n{}").expect("a file");
    a.link.blackhole().await;
    let options = me().with_snapshot(&file).with_patience(Duration::from_millis(100));
    let consumer = Consumer::open(&billing(&a.coord)?, options)?;
    let mut statuses = consumer.statuses();
    let told = |status: &coord_config_centre::Status| status.file_error.is_some();
    let error = within("the warning", statuses.wait_for(told)).await?.expect("open").file_error.clone();
    let error = error.ok_or_else(|| Failure("no error".to_owned()))?;
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("snapshot"), "{error}");
    assert!(consumer.effective().is_none());
    a.link.heal().await;
    follow_until(&consumer, 1).await?;
    within("a good one is written", statuses.wait_for(|status| status.file_error.is_none()))
        .await?
        .expect("open");
    Ok(())
}

/// Promise: an instance that lost its session reports again, with what it runs now, whatever it ran in between.
async fn a_report_is_back_after_a_lost_session_with_the_latest(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let publisher = billing(&b.coord)?;
    publish(&publisher, rate(1)).await?;
    // The session goes over one link, what is published over the other.
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Cx::SHORT));
    let consumer = Consumer::open(&publisher, me().with_report(&keeper))?;
    let reported = async |generation: Option<u64>| {
        eventually("the report", || async {
            let mut reports = publisher.instances().await?.reports.into_iter();
            let running = reports.next().map(|report| report.generation);
            Ok(running == generation.map(|generation| Some(Generation::new(generation))))
        })
        .await
    };
    reported(Some(1)).await?;
    a.link.blackhole().await;
    reported(None).await?;
    for i in 2..=4 {
        publish(&publisher, rate(i)).await?;
        follow_until(&consumer, i).await?;
    }
    a.link.heal().await;
    reported(Some(4)).await?;
    within("closed", consumer.close()).await??;
    reported(None).await
}
