//! Services and their instances, while links fail.

use std::{sync::Arc, time::Duration};

use coord_api::{ErrorKind, Freshness, SessionOptions};
use coord_recipes::SessionKeeper;
use coord_registry::{DiscoveryEvent, DiscoveryOptions, DiscoveryState, Registration, Snapshot, Status};
use tokio::time::Instant;

use super::registry::{SERVICE, ids, instance, register, registry, see, view};
use crate::{CaseResult, Client, Cx, Failure, eventually, within};

cases!("registry_faults", needs Link:
    a_dead_process_is_out_of_every_view_within_the_bound,
    a_cut_past_the_ttl_registers_what_was_said_last,
    an_instance_whose_key_the_store_has_not_given_up_yet_is_there_to_stay,
    a_process_that_starts_again_within_the_ttl_is_there_to_stay,
    a_cut_off_view_shows_its_last_list_and_says_so,
    a_view_that_failed_to_watch_again_and_again_is_told_the_truth,
    any_lost_reply_registers_one_instance_or_none,
    leaving_while_nobody_answers_ends_in_time_and_leaves_nothing,
    sessions_that_end_at_once_leave_a_protected_list,
    a_file_has_the_list_while_the_store_is_away,
);

fn short(client: &Client) -> SessionKeeper {
    SessionKeeper::new(&client.coord, SessionOptions::new(Cx::SHORT))
}

fn is(state: DiscoveryState) -> impl Fn(&Snapshot) -> bool + Send {
    move |list| list.state() == state
}

async fn register_many(client: &Client, count: usize) -> Result<(SessionKeeper, Vec<Registration>), Failure> {
    let keeper = short(client);
    let many = (0..count).map(|n| instance(&format!("d{n:03}")));
    let registered = within("registered", registry(&client.coord)?.register_all(&keeper, many)).await?;
    Ok((keeper, registered.into_iter().collect::<coord_api::Result<_>>()?))
}

/// Promise: the instances of a dead process are gone after its ttl, from every view and at once.
///
/// BB-220 (<https://github.com/alibaba/nacos/issues/12095>): a power cut left them in the list. BB-223
/// (<https://github.com/spring-cloud/spring-cloud-zookeeper/issues/295>): a cached list served them for 35 s.
async fn a_dead_process_is_out_of_every_view_within_the_bound(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let alive = register(&b.coord, "alive").await?;
    let (_keeper, dead) = register_many(&a, 100).await?;
    let view = view(&b.coord).await?;
    within("all are seen", view.wait_until(|list| list.len() == 101)).await??;
    a.link.blackhole().await;
    let cut = Instant::now();
    // What the store has, asked past every copy, and what the view shows.
    let latest = b.coord.clone().with_freshness(Freshness::Latest);
    eventually("the store lets them go", || async { Ok(latest.get(dead[99].key()).await?.is_none()) })
        .await?;
    let gone = Instant::now();
    see(&view, "one is left", &["alive"]).await?;
    assert!(gone.elapsed() < Cx::SLACK, "shown {:?} after the store knew", gone.elapsed());
    // The ttl, at most doubled by a store that rounds, and its tick.
    assert!(cut.elapsed() < Duration::from_secs(10), "{:?}", cut.elapsed());
    assert!(dead.iter().all(|one| !one.is_registered()) && alive.is_registered());
    Ok(())
}

/// Promise: a process that was cut off comes back by itself, soon and with what it said last; so does its view.
///
/// BB-214 (<https://github.com/zeromicro/go-zero/issues/1926>): it was not registered again after a cut. BB-215
/// (<https://github.com/go-kratos/kratos/issues/3883>): the heartbeat gave up after some tries.
async fn a_cut_past_the_ttl_registers_what_was_said_last(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = short(&a);
    let me = registry(&a.coord)?.register(&keeper, instance("a")).await?;
    let view = view(&b.coord).await?;
    see(&view, "there", &["a"]).await?;
    a.link.blackhole().await;
    see(&view, "gone", &[]).await?;
    assert!(!me.is_registered(), "it believed when it was gone");
    let mut said = Box::pin(me.set_weight(9));
    assert!(futures::poll!(said.as_mut()).is_pending(), "there is no session");
    // Several rounds of whatever is tried in vain.
    tokio::time::sleep(Cx::SHORT * 3).await;
    a.link.heal().await;
    let healed = Instant::now();
    within("back", view.wait_until(|list| list.first().is_some_and(|one| one.weight() == 9))).await??;
    assert!(healed.elapsed() < Duration::from_secs(6), "{:?}", healed.elapsed());
    within("written", said).await??;
    me.close().await?;
    Ok(())
}

/// Promise: an instance never rests on the key of its own lost session, which is about to go.
///
/// BB-206 (<https://github.com/apache/dubbo/issues/5125>): the old session's key was taken for a success, and vanished.
async fn an_instance_whose_key_the_store_has_not_given_up_yet_is_there_to_stay(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Duration::from_secs(10)));
    let me = registry(&a.coord)?.register(&keeper, instance("a")).await?;
    let old = keeper.session().await?;
    a.link.blackhole().await;
    // We give up after nine tenths of the ttl, and the store a second later.
    within("it knows", old.lost()).await?;
    a.link.heal().await;
    within("registered", me.registered()).await??;
    stays(&b, &me, Duration::from_secs(3)).await
}

/// Fails if the key goes or is made anew within `time`.
async fn stays(client: &Client, me: &Registration, time: Duration) -> CaseResult {
    let latest = client.coord.clone().with_freshness(Freshness::Latest);
    let created = latest.get(me.key()).await?.expect("registered").meta.created;
    let began = Instant::now();
    while began.elapsed() < time {
        let now = latest.get(me.key()).await?.expect("it vanished");
        assert_eq!(now.meta.created, created, "it was registered once more");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Promise: a process that dies and starts again with its id waits for what it left, and then stays.
///
/// BB-211 (<https://github.com/apache/kafka/pull/5575>): it failed on its own old key. BB-212
/// (<https://github.com/apache/pulsar/pull/6788>): it started on the old key, and was invisible later.
async fn a_process_that_starts_again_within_the_ttl_is_there_to_stay(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let former = registry(&a.coord)?.register(&short(&a), instance("a").with_weight(1)).await?;
    a.link.blackhole().await; // it is dead: nobody says good-bye
    let keeper = SessionKeeper::new(&b.coord, SessionOptions::new(Duration::from_secs(4)));
    let (registry, again) = (registry(&b.coord)?, instance("a").with_weight(2));
    let error = registry.register(&keeper, again.clone()).await.expect_err("it may live");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    let waiting = registry.register_timeout(&keeper, again, Duration::from_secs(15));
    let me = within("its own", waiting).await??;
    assert!(!former.is_registered());
    stays(&b, &me, Cx::SHORT * 2).await?;
    let view = view(&b.coord).await?;
    within("the new one is seen", view.wait_until(|list| list.len() == 1 && list[0].weight() == 2)).await??;
    a.link.heal().await;
    Ok(())
}

/// Promise: while the store is away a view shows what it knew, says that it is old and how old, and is told the
/// difference when the store is back.
async fn a_cut_off_view_shows_its_last_list_and_says_so(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (stays, goes) = (register(&b.coord, "stays").await?, register(&b.coord, "goes").await?);
    let view = view(&a.coord).await?;
    see(&view, "both", &["goes", "stays"]).await?;
    let mut changes = view.changes();
    within("what there is", changes.next()).await?.expect("endless");
    a.link.blackhole().await;
    let stale = within("it says so", view.wait_until(is(DiscoveryState::Stale))).await??;
    assert_eq!(ids(&stale), ["goes", "stays"]);
    goes.close().await?;
    stays.set_status(Status::Disabled).await?;
    let _comes = register(&b.coord, "comes").await?;
    let older = view.instances();
    assert!(older.age() > stale.age() && ids(&older) == ["goes", "stays"]);
    a.link.heal().await;
    see(&view, "the truth", &["comes", "stays"]).await?;
    within("it says so", view.wait_until(is(DiscoveryState::Current))).await??;
    assert_eq!(view.instances().age(), Duration::ZERO);
    // However it was told, the changes lead there.
    let mut list = ["goes", "stays"].map(instance).to_vec();
    while ids(&list) != ["comes", "stays"] || list[1].status() != Status::Disabled {
        match within("the changes", changes.next()).await?.expect("endless") {
            DiscoveryEvent::Added(one) => list.push(one),
            DiscoveryEvent::Removed(one) => list.retain(|known| known.id() != one.id()),
            DiscoveryEvent::Updated { after, .. } => {
                list.iter_mut()
                    .filter(|known| known.id() == after.id())
                    .for_each(|known| *known = after.clone());
            }
            DiscoveryEvent::Resync(all) => list = all.to_vec(),
            told => panic!("{told:?}"),
        }
        list.sort_by(|a, b| a.id().cmp(b.id()));
    }
    Ok(())
}

/// Promise: no number of failed tries keeps a view from following again.
///
/// BB-208 (<https://github.com/apache/dubbo/issues/7665>): a failed earlier try blocked the new subscription.
async fn a_view_that_failed_to_watch_again_and_again_is_told_the_truth(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let view = view(&a.coord).await?;
    for round in 0..3 {
        a.link.blackhole().await;
        within("it says so", view.wait_until(is(DiscoveryState::Stale))).await??;
        for _ in 0..3 {
            a.link.reset().await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let id = format!("r{round}");
        let me = register(&b.coord, &id).await?;
        a.link.heal().await;
        see(&view, "it comes", &[&id]).await?;
        me.close().await?;
        see(&view, "it goes", &[]).await?;
    }
    Ok(())
}

/// Promise: whichever reply is lost, the instance is there with what it says, and gone after it left.
async fn any_lost_reply_registers_one_instance_or_none(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Cx::LONG));
    keeper.session().await?;
    let view = view(&b.coord).await?;
    for nth in 1..=5 {
        a.link.lose_reply(nth).await?;
        let registering = registry(&a.coord)?.register(&keeper, instance("a")).await;
        let me = registering.map_err(|error| Failure(format!("with reply {nth} lost: {error}")))?;
        within(&format!("written with reply {nth} lost"), me.set_weight(5)).await??;
        within("seen", view.wait_until(|list| list.len() == 1 && list[0].weight() == 5)).await??;
        within(&format!("left with reply {nth} lost"), me.close()).await??;
        see(&view, "gone", &[]).await?;
    }
    Ok(())
}

/// Promise: a process can stop while the store is away, drained or not, and what it left goes with its session.
///
/// BB-217 (<https://github.com/go-kratos/kratos/pull/1537>): the store that was down blocked the stop, and a stale entry
/// stayed.
async fn leaving_while_nobody_answers_ends_in_time_and_leaves_nothing(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    // Longer than what is waited for here: a session that is over has nothing to delete.
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Duration::from_secs(8)));
    let registry = registry(&a.coord)?;
    let closes = registry.register(&keeper, instance("closes")).await?;
    let drains = registry.register(&keeper, instance("drains")).await?;
    let view = view(&b.coord).await?;
    see(&view, "both", &["closes", "drains"]).await?;
    a.link.blackhole().await;
    let began = Instant::now();
    let left = tokio::join!(closes.close(), drains.drain(Duration::from_millis(500)));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for left in [left.0, left.1] {
        assert_eq!(left.expect_err("nobody answered").kind(), ErrorKind::Timeout);
    }
    see(&view, "both are gone", &[]).await?;
    a.link.heal().await;
    let gone = Instant::now();
    while gone.elapsed() < Duration::from_secs(1) {
        assert!(view.instances().is_empty(), "it came back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Promise: a protected view shows all that a store let go at once, and the truth when an instance is back.
async fn sessions_that_end_at_once_leave_a_protected_list(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (_keeper, all) = register_many(&a, 10).await?;
    let options = DiscoveryOptions::default().protect_empty(Duration::from_secs(60));
    let protected = registry(&b.coord)?.discover_with(SERVICE, options)?;
    within("all", protected.wait_until(|list| list.len() == 10)).await??;
    let plain = view(&b.coord).await?;
    a.link.blackhole().await;
    see(&plain, "all are gone", &[]).await?;
    let shown = within("protected", protected.wait_until(is(DiscoveryState::Protected))).await??;
    assert_eq!(shown.len(), 10);
    a.link.heal().await;
    within("they are back", plain.wait_until(|list| list.len() == 10)).await??;
    within("the truth", protected.wait_until(is(DiscoveryState::Current))).await??;
    eventually("they know it", || async { Ok(all.iter().all(Registration::is_registered)) }).await?;
    within("all", protected.wait_until(|list| list.len() == 10)).await??;
    Ok(())
}

/// Promise: a process that starts while the store is away has the list of its last life, and is told the truth later.
async fn a_file_has_the_list_while_the_store_is_away(cx: Arc<Cx>) -> CaseResult {
    let dir = std::env::temp_dir().join(format!("coord-list-{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&dir).map_err(|error| Failure(error.to_string()))?;
    let outcome = starts_from_a_file(&cx, &dir.join("billing.json")).await;
    std::fs::remove_dir_all(&dir).map_err(|error| Failure(error.to_string()))?;
    outcome
}

async fn starts_from_a_file(cx: &Cx, path: &std::path::Path) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let me = register(&b.coord, "a").await?;
    let options = || DiscoveryOptions::default().file(path);
    let former = registry(&a.coord)?.discover_with(SERVICE, options())?;
    see(&former, "there", &["a"]).await?;
    eventually("it is in the file", || async { Ok(path.exists()) }).await?;
    drop(former);

    let c = cx.client(&rig).await?;
    c.link.blackhole().await;
    let view = registry(&c.coord)?.discover_with(SERVICE, options())?;
    within("ready", view.ready()).await??;
    let shown = view.instances();
    assert_eq!((shown.state(), ids(&shown)), (DiscoveryState::FromFile, vec!["a"]));
    me.close().await?;
    let _new = register(&b.coord, "b").await?;
    c.link.heal().await;
    see(&view, "the truth", &["b"]).await?;
    drop(view);

    std::fs::write(path, "half a li").map_err(|error| Failure(error.to_string()))?;
    let d = cx.client(&rig).await?;
    d.link.blackhole().await;
    let view = registry(&d.coord)?.discover_with(SERVICE, options())?;
    eventually("it is told", || async { Ok(!view.problems().is_empty()) }).await?;
    assert_eq!(view.problems()[0].kind(), ErrorKind::Malformed);
    assert_eq!(view.state(), DiscoveryState::Loading);
    d.link.heal().await;
    see(&view, "the truth", &["b"]).await
}
