//! Keys that are registered again, while links fail.

use std::{sync::Arc, time::Duration};

use coord_api::{ErrorKind, Freshness, SessionOptions};
use coord_recipes::{PersistentEphemeral, RegistrationState, SessionKeeper};
use tokio::time::Instant;

use super::persistent::{has, value};
use crate::{CaseResult, Client, Cx, cut_briefly, eventually, within};

cases!("persistent_faults", needs Link:
    a_cut_past_the_ttl_brings_the_latest_data_back,
    a_cut_shorter_than_the_ttl_changes_nothing,
    a_key_that_the_store_has_not_given_up_yet_is_replaced,
    a_key_taken_meanwhile_is_not_taken_back,
    a_successor_with_the_same_name_waits_and_stays,
    any_lost_reply_registers_one_key_or_none,
    broken_connections_register_nothing_anew,
    closing_while_nobody_answers_ends_in_time_and_leaves_nothing,
);

const KEY: &str = "/services/billing/a";

fn keeper(client: &Client, ttl: Duration) -> SessionKeeper {
    SessionKeeper::new(&client.coord, SessionOptions::new(ttl))
}

/// Promise: after a long outage the key is back soon, with what was set meanwhile.
///
/// BB-199 (CURATOR-181): the old data came back. BB-214 (go-zero#1926): nothing came back. BB-215 (kratos#3883): the
/// heartbeat gave up after some tries.
async fn a_cut_past_the_ttl_brings_the_latest_data_back(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = keeper(&a, Cx::SHORT);
    let one = PersistentEphemeral::new(&keeper, KEY, "before")?;
    within("registered", one.registered()).await??;
    a.link.blackhole().await;
    let set = tokio::spawn({
        let one = one.clone();
        async move { one.set("while away").await }
    });
    eventually("the key is gone", || async { Ok(value(&b.coord, KEY).await?.is_none()) }).await?;
    assert!(!one.is_registered(), "it believed when its key was gone");
    a.link.heal().await;
    let healed = Instant::now();
    has(&b.coord, &keeper, KEY, "while away").await?;
    assert!(healed.elapsed() < Duration::from_secs(6), "{:?}", healed.elapsed());
    within("the data is written", set).await?.expect("no panic")?;
    one.close().await?;
    Ok(())
}

/// Promise: an outage shorter than the ttl costs no registration.
async fn a_cut_shorter_than_the_ttl_changes_nothing(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = keeper(&a, Duration::from_secs(12));
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    let latest = b.coord.clone().with_freshness(Freshness::Latest);
    let before = latest.get(KEY).await?.expect("registered").meta;
    cut_briefly(&*a.link, &keeper.session().await?).await?;
    within("written", one.set("2")).await??;
    let after = latest.get(KEY).await?.expect("registered").meta;
    assert_eq!((before.created, before.owner), (after.created, after.owner));
    one.close().await?;
    Ok(())
}

/// Promise: a key of our own lost session that is still there is replaced, and does not vanish with that session.
///
/// BB-206 (dubbo#5125): the old session's node was taken for a success, and went later.
async fn a_key_that_the_store_has_not_given_up_yet_is_replaced(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = keeper(&a, Duration::from_secs(10));
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    let old = keeper.session().await?;
    a.link.blackhole().await;
    // We give up after nine tenths of the ttl, and the store a second later.
    eventually("it knows", || async { Ok(one.state() == RegistrationState::Pending) }).await?;
    a.link.heal().await;
    let state = within("it is found", one.changed(RegistrationState::Pending)).await?;
    assert_eq!(state, RegistrationState::Registered, "it took its own key for somebody else's");
    let latest = b.coord.clone().with_freshness(Freshness::Latest);
    let entry = latest.get(KEY).await?.expect("registered");
    assert!(entry.meta.owner.is_some() && entry.meta.owner.as_ref() != Some(old.id()));
    let back = Instant::now();
    while back.elapsed() < Duration::from_secs(3) {
        let now = latest.get(KEY).await?.expect("it vanished with the old session");
        assert_eq!(now.meta.created, entry.meta.created, "it was registered once more");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    one.close().await?;
    Ok(())
}

/// Promise: who was away finds its key taken and leaves it alone.
async fn a_key_taken_meanwhile_is_not_taken_back(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = keeper(&a, Cx::SHORT);
    let one = PersistentEphemeral::new(&keeper, KEY, "ours")?;
    within("registered", one.registered()).await??;
    a.link.blackhole().await;
    let other = SessionKeeper::new(&b.coord, SessionOptions::new(Cx::LONG));
    let two = PersistentEphemeral::new(&other, KEY, "theirs")?;
    within("the other has it", two.registered()).await??;
    assert!(!one.is_registered());
    a.link.heal().await;
    eventually("it says so", || async { Ok(one.state() == RegistrationState::Taken) }).await?;
    has(&b.coord, &other, KEY, "theirs").await?;
    two.close().await?;
    has(&b.coord, &keeper, KEY, "ours").await?;
    one.close().await?;
    Ok(())
}

/// Promise: a process that starts again within the ttl waits for the key of its former life to go, and then stays.
///
/// BB-211 (KAFKA-7165), BB-212 (pulsar#913, PR 6788): it started on the old node, and was invisible later. BB-220
/// (nacos#12095): what died was listed on.
async fn a_successor_with_the_same_name_waits_and_stays(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let former = keeper(&a, Cx::SHORT);
    let one = PersistentEphemeral::new(&former, KEY, "former")?;
    within("registered", one.registered()).await??;
    a.link.blackhole().await; // it is dead: nobody says good-bye
    let now = keeper(&b, Duration::from_secs(4));
    let two = PersistentEphemeral::new(&now, KEY, "now")?;
    within("registered", two.registered()).await??;
    let registered = Instant::now();
    while registered.elapsed() < Cx::SHORT * 2 {
        assert_eq!(value(&b.coord, KEY).await?.as_deref(), Some(&b"now"[..]));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    two.close().await?;
    a.link.heal().await;
    Ok(())
}

/// Promise: whichever reply is lost, the key is there with the latest data, and gone after closing.
async fn any_lost_reply_registers_one_key_or_none(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = keeper(&a, Cx::LONG);
    keeper.session().await?;
    for nth in 1..=5 {
        a.link.lose_reply(nth).await?;
        let one = PersistentEphemeral::new(&keeper, KEY, "first")?;
        within(&format!("registered with reply {nth} lost"), one.registered()).await??;
        within(&format!("written with reply {nth} lost"), one.set("second")).await??;
        has(&b.coord, &keeper, KEY, "second").await?;
        within(&format!("closed with reply {nth} lost"), one.close()).await??;
        eventually("it is gone", || async { Ok(value(&b.coord, KEY).await?.is_none()) }).await?;
    }
    Ok(())
}

/// Promise: the key stays as it is through any number of broken connections.
///
/// BB-097 (CURATOR-504).
async fn broken_connections_register_nothing_anew(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = keeper(&a, Cx::LONG);
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    let latest = b.coord.clone().with_freshness(Freshness::Latest);
    let before = latest.get(KEY).await?.expect("registered").meta;
    for _ in 0..10 {
        a.link.reset().await?;
        eventually("the link works", || async { Ok(a.coord.get("/other").await.is_ok()) }).await?;
    }
    within("written", one.set("2")).await??;
    let after = latest.get(KEY).await?.expect("registered").meta;
    assert_eq!(before.created, after.created);
    one.close().await?;
    Ok(())
}

/// Promise: stopping does not wait for a store that is away, and nothing comes back with it.
///
/// BB-217 (kratos PR 1537): the stop hung, and a stale entry stayed.
async fn closing_while_nobody_answers_ends_in_time_and_leaves_nothing(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = keeper(&a, Duration::from_secs(8));
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    a.link.blackhole().await;
    let began = Instant::now();
    let closed = one.close().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(closed.expect_err("nobody answered").kind(), ErrorKind::Timeout);
    a.link.heal().await;
    eventually("the key is gone", || async { Ok(value(&b.coord, KEY).await?.is_none()) }).await?;
    let gone = Instant::now();
    while gone.elapsed() < Duration::from_secs(1) {
        assert_eq!(value(&b.coord, KEY).await?, None, "it came back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
