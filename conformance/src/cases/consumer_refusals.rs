//! What consumers of the config centre do not take, and what they do then.

use std::sync::Arc;

use coord_api::{ErrorKind, Secret};
use coord_config_centre::{
    Consumer, ConsumerOptions, Content, Edit, Generation, GrayContent, Identity, Keyring, Rule, Status, Typed,
};
use serde::Deserialize;

use super::{
    consumer::{billing, follow_until, me, publish, rate, refused},
    consumer_meddler::Meddler,
};
use crate::{CaseResult, Cx, eventually, within};

cases!("consumer_refusals", needs Store:
    what_the_check_refuses_changes_nothing_also_over_a_restart,
    a_check_that_panics_refuses,
    an_unreadable_rule_flips_nobody,
    a_damaged_release_is_refused_by_name,
    a_release_that_cannot_be_read_yet_is_not_taken_for_seen,
    a_store_that_went_back_in_time_does_not_take_consumers_along,
    a_snapshot_that_is_ahead_of_the_store_holds_over_a_restart,
    encrypted_values_open_with_the_right_key_only,
);

#[derive(Debug, Deserialize)]
pub(super) struct Rate {
    rate: u32,
}

pub(super) fn positive(rate: &Rate) -> Result<(), String> {
    if rate.rate == 0 { Err("nobody could pay".to_owned()) } else { Ok(()) }
}

/// BB-242 (<https://github.com/api7/aisix/pull/874>): an invalid new value made the setting vanish. The last good one
/// stays, the reason is told, also after a restart; and what is good again is applied.
async fn what_the_check_refuses_changes_nothing_also_over_a_restart(cx: Arc<Cx>) -> CaseResult {
    let billing = billing(&cx.coord().await?)?;
    let dir = tempfile::tempdir().expect("a directory");
    let options = || me().with_snapshot(dir.path().join("snapshot"));
    publish(&billing, rate(100)).await?;
    let limits = within("open", Typed::open(&billing, options(), positive)).await??;
    for (bad, told) in [(rate(0), "nobody could pay"), (rate("many"), "item=rate")] {
        publish(&billing, bad).await?;
        let refused =
            |status: &Status| status.error.as_ref().is_some_and(|error| error.to_string().contains(told));
        let mut statuses = limits.statuses();
        let status = within(told, statuses.wait_for(refused)).await?.expect("open").clone();
        assert_eq!(status.error.expect("waited for").kind(), ErrorKind::Malformed);
        assert_eq!(limits.current().rate, 100);
        assert_eq!(status.layers[0].generation, Some(Generation::FIRST), "the status says what runs");
    }
    drop(limits);
    let restarted = within("open again", Typed::open(&billing, options(), positive)).await??;
    assert_eq!(restarted.current().rate, 100);
    let mut statuses = restarted.statuses();
    within("refused again", statuses.wait_for(|status| status.error.is_some())).await?.expect("open");
    assert!(restarted.status().from_file);
    let without = within("without a file", Typed::open(&billing, me(), positive)).await?;
    assert_eq!(without.expect_err("there is no good one").kind(), ErrorKind::Malformed);

    publish(&billing, rate(7)).await?;
    let good = |status: &Status| status.error.is_none() && !status.from_file;
    within("all is well", statuses.wait_for(good)).await?.expect("open");
    assert_eq!(restarted.current().rate, 7);
    Ok(())
}

/// Promise: a check that panics refuses the one configuration, and the next one is applied.
async fn a_check_that_panics_refuses(cx: Arc<Cx>) -> CaseResult {
    let billing = billing(&cx.coord().await?)?;
    publish(&billing, rate(1)).await?;
    let options = me().with_check(|now| match now.item("rate") {
        // As a panic, without the noise of its hook.
        Some("bad") => std::panic::resume_unwind(Box::new("a bug of the program")),
        _ => Ok(()),
    });
    let consumer = Consumer::open(&billing, options)?;
    within("ready", consumer.ready()).await??;
    publish(&billing, rate("bad")).await?;
    refused(&consumer, ErrorKind::Unexpected).await?;
    publish(&billing, rate(2)).await?;
    follow_until(&consumer, 2).await.map(drop)
}

/// BB-229 (<https://github.com/apolloconfig/apollo/issues/3288>): one reader could not parse a rule and went to and fro
/// between the main release and the gray one.
async fn an_unreadable_rule_flips_nobody(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let billing = billing(&coord)?;
    publish(&billing, rate("main")).await?;
    let rule = Rule::new("canary").with_label("zone", "a");
    billing.set_gray(rule, GrayContent::set([("rate", "gray")]), &Edit::by("ann")).await?.done()?;
    let options = ConsumerOptions::new(Identity::new("i-1").with_label("zone", "a"));
    let consumer = Consumer::open(&billing, options)?;
    assert_eq!(within("ready", consumer.ready()).await??.item("rate"), Some("gray"));

    let key = "/config/billing/live/head";
    let good = coord.get(key).await?.expect("published").value;
    let text = String::from_utf8(good.to_vec()).expect("JSON");
    let unreadable = text.replace("\"labels\":{", "\"labels\":7,\"was\":{");
    assert_ne!(text, unreadable, "the rule is written in another way");
    coord.put(key, unreadable).await?;
    let told = refused(&consumer, ErrorKind::Malformed).await?;
    assert!(told.contains(key), "{told}");
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("gray"));
    coord.put(key, good).await?;
    let mut statuses = consumer.statuses();
    within("all is well", statuses.wait_for(|status| status.error.is_none())).await?.expect("open");
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("gray"));
    Ok(())
}

/// Promise: only the very bytes that were published are applied.
async fn a_damaged_release_is_refused_by_name(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let billing = billing(&coord)?;
    publish(&billing, rate(1)).await?;
    let running = Consumer::open(&billing, me())?;
    within("ready", running.ready()).await??;
    let key = format!("/config/billing/rel/{:020}", 1);
    let good = coord.get(&key).await?.expect("published").value;
    let text = String::from_utf8(good.to_vec()).expect("JSON");
    coord.put(&key, text.replace("\"1\"", "\"2\"")).await?;
    let stranger = cx.coord().await?;
    let new = Consumer::open(&super::consumer::billing(&stranger)?, me())?;
    let error = within("the refusal", new.ready()).await?.expect_err("it was changed");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains(&key), "{error}");
    assert_eq!(running.effective().expect("read before").item("rate"), Some("1"));
    coord.put(&key, good).await?;
    follow_until(&new, 1).await.map(drop)
}

/// BB-227 (<https://github.com/philchia/agollo/issues/48>): a lagging server had nothing new, and the update was taken for
/// seen.
async fn a_release_that_cannot_be_read_yet_is_not_taken_for_seen(cx: Arc<Cx>) -> CaseResult {
    let meddler = Meddler::default();
    let coord = cx.coord().await?.layer(&meddler);
    let publisher = billing(&cx.coord().await?)?;
    publish(&publisher, rate(1)).await?;
    let consumer = Consumer::open(&billing(&coord)?, me())?;
    within("ready", consumer.ready()).await??;
    let key = format!("/rel/{:020}", 2);
    meddler.hide(Some(&key));
    publish(&publisher, rate(2)).await?;
    let told = refused(&consumer, ErrorKind::Malformed).await?;
    assert!(told.contains(&key), "{told}");
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("1"));
    meddler.hide(None);
    follow_until(&consumer, 2).await?;
    let mut statuses = consumer.statuses();
    within("all is well", statuses.wait_for(|status| status.error.is_none())).await?.expect("open");
    Ok(())
}

/// Promise: generations never go back, also where an operator restored an old backup; the consumer says so.
async fn a_store_that_went_back_in_time_does_not_take_consumers_along(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let billing = billing(&coord)?;
    let key = "/config/billing/live/head";
    publish(&billing, rate(1)).await?;
    let old = coord.get(key).await?.expect("published").value;
    publish(&billing, rate(2)).await?;
    let consumer = Consumer::open(&billing, me())?;
    follow_until(&consumer, 2).await?;
    let newest = coord.get(key).await?.expect("published").value;
    coord.put(key, old).await?;
    refused(&consumer, ErrorKind::StaleToken).await?;
    coord.put(key, newest).await?;
    let mut statuses = consumer.statuses();
    within("all is well", statuses.wait_for(|status| status.error.is_none())).await?.expect("open");
    coord.delete(key).await?;
    refused(&consumer, ErrorKind::StaleToken).await?;
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("2"));
    Ok(())
}

/// Promise: generations never go back over a restart either: what the snapshot file has is newer than the backup that the
/// store was restored from, or than a store that is empty.
async fn a_snapshot_that_is_ahead_of_the_store_holds_over_a_restart(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let billing = billing(&coord)?;
    let dir = tempfile::tempdir().expect("a directory");
    let options = || me().with_snapshot(dir.path().join("snapshot"));
    let key = "/config/billing/live/head";
    publish(&billing, rate(1)).await?;
    let old = coord.get(key).await?.expect("published").value;
    publish(&billing, rate(2)).await?;
    let newest = coord.get(key).await?.expect("published").value;
    let first_life = Consumer::open(&billing, options())?;
    follow_until(&first_life, 2).await?;
    eventually("the file", || async { Ok(dir.path().join("snapshot").exists()) }).await?;
    drop(first_life);
    coord.put(key, old).await?;
    // A handle of its own, as a process of its own has: the other one remembers.
    let second_life = Consumer::open(&super::consumer::billing(&cx.coord().await?)?, options())?;
    assert_eq!(within("ready", second_life.ready()).await??.item("rate"), Some("2"));
    let told = refused(&second_life, ErrorKind::StaleToken).await?;
    assert!(told.contains("namespace=billing") && told.contains("seen=2"), "{told}");
    drop(second_life);
    coord.delete(key).await?;
    let third_life = Consumer::open(&super::consumer::billing(&cx.coord().await?)?, options())?;
    assert_eq!(within("ready", third_life.ready()).await??.item("rate"), Some("2"));
    refused(&third_life, ErrorKind::StaleToken).await?;
    coord.put(key, newest).await?;
    let mut statuses = third_life.statuses();
    let good = |status: &Status| status.error.is_none() && !status.from_file;
    within("all is well", statuses.wait_for(good)).await?.expect("open");
    Ok(())
}

/// Promise: encrypted values are opened for who has the key; another key is an error that names the item, and the last
/// good configuration stays.
async fn encrypted_values_open_with_the_right_key_only(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let billing = billing(&coord)?;
    let (right, wrong) = (Secret::new("r".repeat(32)), Secret::new("w".repeat(32)));
    let ring = Keyring::new("k1", &right)?;
    let sealed = ring.seal("billing", "db.password", "hunter2")?;
    publish(&billing, Content::items([("db.password", sealed.as_str()), ("rate", "1")])).await?;
    let release = coord.get(format!("/config/billing/rel/{:020}", 1)).await?.expect("published").value;
    assert!(!String::from_utf8_lossy(&release).contains("hunter2"));

    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("snapshot");
    let consumer = Consumer::open(&billing, me().with_keyring(ring.clone()).with_snapshot(&file))?;
    let now = within("ready", consumer.ready()).await??;
    assert_eq!((now.item("db.password"), now.item("rate")), (Some("hunter2"), Some("1")));
    eventually("the file", || async { Ok(file.exists()) }).await?;
    assert!(!std::fs::read_to_string(&file).expect("written").contains("hunter2"), "closed on the disk, too");

    let other = Consumer::open(&billing, me().with_keyring(Keyring::new("k1", &wrong)?))?;
    let error = within("the refusal", other.ready()).await?.expect_err("another key");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("item=db.password"), "{error}");

    // Moved to another item, it does not open.
    publish(&billing, Content::items([("db.user", sealed.as_str()), ("rate", "2")])).await?;
    let told = refused(&consumer, ErrorKind::PermissionDenied).await?;
    assert!(told.contains("item=db.user"), "{told}");
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("1"));
    Ok(())
}
