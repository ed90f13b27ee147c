//! Consumers of the config centre, while everything works.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, ErrorKind, SessionOptions};
use coord_config_centre::{
    ConfigCentre, Configuration, Consumer, ConsumerOptions, Content, Edit, Format, Generation, GrayContent,
    Identity, Layers, Namespace, ReleaseVersion, Rule,
};
use coord_recipes::SessionKeeper;
use futures::{StreamExt, future::join_all};
use tokio::time::Instant;

use super::consumer_meddler::Meddler;
use crate::{CaseResult, Cx, Failure, eventually, look_counter::LookCounter, within};

cases!("consumer", needs Store:
    between_reading_and_following_nothing_is_lost,
    both_halves_of_a_pair_are_of_one_release,
    one_publish_is_told_once,
    an_empty_value_is_a_value,
    a_gray_value_stays_while_the_main_release_changes,
    a_rollback_is_applied_as_the_next_generation,
    layers_are_overlaid_and_each_item_knows_where_it_comes_from,
    a_thousand_consumers_cost_one_watch_and_one_read,
    a_dead_watch_holds_a_release_up_for_seconds,
    instances_say_what_they_run_and_why_not_the_newest,
    a_closed_handle_ends_the_stream,
);

const ROOT: &str = "/config";

/// The namespace that most cases use.
pub(crate) fn billing(coord: &Coord) -> Result<Namespace, Failure> {
    Ok(ConfigCentre::new(coord, ROOT)?.namespace("billing")?)
}

pub(crate) fn rate(rate: impl ToString) -> Content {
    Content::items([("rate", rate.to_string())])
}

pub(crate) async fn publish(namespace: &Namespace, content: Content) -> Result<Generation, Failure> {
    Ok(namespace.publish(content, &Edit::by("ann")).await?.done()?.generation)
}

pub(crate) fn me() -> ConsumerOptions {
    ConsumerOptions::new(Identity::new("i-1"))
}

/// Follows `consumer` until it runs `value`; fails if a generation is told twice, or goes back.
pub(crate) async fn follow_until(
    consumer: &Consumer,
    value: impl ToString,
) -> Result<Vec<Arc<Configuration>>, Failure> {
    let (mut changes, value) = (consumer.changes(), value.to_string());
    let mut told: Vec<Arc<Configuration>> = Vec::new();
    within(&format!("the rate {value}"), async {
        while told.last().is_none_or(|now| now.item("rate") != Some(&value)) {
            let next = changes.next().await.ok_or_else(|| Failure("the stream ended".to_owned()))?;
            let before = told.last().and_then(|before| before.generation());
            assert!(before < next.generation(), "{before:?} and then {:?}", next.generation());
            told.push(next);
        }
        Ok(told)
    })
    .await?
}

pub(crate) async fn refused(consumer: &Consumer, kind: ErrorKind) -> Result<String, Failure> {
    let mut statuses = consumer.statuses();
    let status =
        within("the refusal", statuses.wait_for(|status| status.error.is_some())).await?.expect("open");
    let error = status.error.as_ref().expect("waited for");
    assert_eq!(error.kind(), kind, "{error}");
    Ok(error.to_string())
}

/// Promise: whoever reads and follows in one step misses nothing, however the two meet with a publish.
async fn between_reading_and_following_nothing_is_lost(cx: Arc<Cx>) -> CaseResult {
    let billing = billing(&cx.coord().await?)?;
    publish(&billing, rate(0)).await?;
    let publisher = tokio::spawn({
        let billing = billing.clone();
        async move {
            for i in 1..=30 {
                publish(&billing, rate(i)).await?;
            }
            Ok::<_, Failure>(())
        }
    });
    // Each begins somewhere in the middle.
    for _ in 0..10 {
        let consumer = Consumer::open(&billing, me())?;
        let first = within("ready", consumer.ready()).await??;
        let told = follow_until(&consumer, 30).await?;
        assert!(told[0].generation() >= first.generation());
    }
    publisher.await.expect("no panic")
}

/// BB-244: two items that belong together are published together; nobody sees the one without the other.
async fn both_halves_of_a_pair_are_of_one_release(cx: Arc<Cx>) -> CaseResult {
    let billing = billing(&cx.coord().await?)?;
    let pair = |i: u32| Content::items([("host", i.to_string()), ("port", i.to_string())]);
    publish(&billing, pair(0)).await?;
    let mut changes = Consumer::open(&billing, me())?.changes();
    let follower = tokio::spawn(async move {
        while let Some(now) = changes.next().await {
            assert_eq!(now.item("host"), now.item("port"), "in {:?}", now.generation());
            if now.item("host") == Some("100") {
                break;
            }
        }
    });
    for i in 1..=100 {
        publish(&billing, pair(i)).await?;
    }
    within("the last pair", follower).await?.expect("no panic");
    Ok(())
}

/// BB-236 (<https://github.com/alibaba/nacos/issues/11880>), BB-241: one publish, one event, and none for what is the
/// same already. BB-233: the first value is told to each who follows, once.
async fn one_publish_is_told_once(cx: Arc<Cx>) -> CaseResult {
    let billing = billing(&cx.coord().await?)?;
    publish(&billing, rate(1)).await?;
    let consumer = Consumer::open(&billing, me())?;
    within("ready", consumer.ready()).await??;
    for _ in 0..2 {
        let mut late = consumer.changes();
        let first = within("the first", late.next()).await?.expect("open");
        assert_eq!(first.item("rate"), Some("1"));
    }
    let mut changes = consumer.changes();
    within("the first", changes.next()).await?.expect("open");
    publish(&billing, rate(1)).await?;
    publish(&billing, rate(2)).await?;
    publish(&billing, rate(2)).await?;
    let second = within("the second", changes.next()).await?.expect("open");
    assert_eq!((second.item("rate"), second.generation()), (Some("2"), Some(Generation::new(2))));
    // Longer than it takes to read the head without an event.
    let more = tokio::time::timeout(Duration::from_secs(7), changes.next()).await;
    assert!(more.is_err(), "told once more: {more:?}");
    Ok(())
}

/// BB-239 (<https://github.com/alibaba/spring-cloud-alibaba/pull/4333>): an empty value was taken for a missing one.
async fn an_empty_value_is_a_value(cx: Arc<Cx>) -> CaseResult {
    let centre = ConfigCentre::new(&cx.coord().await?, ROOT)?;
    let (base, billing) = (centre.namespace("base")?, centre.namespace("billing")?);
    publish(&base, rate("of the base")).await?;
    publish(&billing, rate("")).await?;
    let consumer = Consumer::open(Layers::new([base, billing.clone()])?, me())?;
    let now = within("ready", consumer.ready()).await??;
    assert_eq!((now.item("rate"), now.origin("rate")), (Some(""), Some("billing")));
    let alone = Consumer::open(&billing, me())?;
    publish(&billing, Content::document(Format::Text, "")).await?;
    within("the empty document", async {
        let mut changes = alone.changes();
        while changes.next().await.expect("open").content() != &Content::document(Format::Text, "") {}
    })
    .await
}

/// BB-230 (<https://github.com/apolloconfig/apollo/issues/1677>): a gray value went with the main release, also where the
/// main release happened to have the same.
async fn a_gray_value_stays_while_the_main_release_changes(cx: Arc<Cx>) -> CaseResult {
    let billing = billing(&cx.coord().await?)?;
    let main = |rate: &str, limit: &str| Content::items([("rate", rate), ("limit", limit)]);
    publish(&billing, main("main", "1")).await?;
    let rule = Rule::new("canary").with_label("zone", "a");
    billing.set_gray(rule, GrayContent::set([("rate", "gray")]), &Edit::by("ann")).await?.done()?;
    let inside = Consumer::open(&billing, ConsumerOptions::new(Identity::new("a").with_label("zone", "a")))?;
    let outside = Consumer::open(&billing, ConsumerOptions::new(Identity::new("b").with_label("zone", "b")))?;
    within("ready", inside.ready()).await??;
    for (rate, limit) in [("other", "2"), ("gray", "3"), ("again", "4")] {
        publish(&billing, main(rate, limit)).await?;
        eventually("the main release shows through", || async {
            Ok(inside.effective().is_some_and(|now| now.item("limit") == Some(limit)))
        })
        .await?;
        let now = inside.effective().expect("seen");
        assert_eq!((now.item("rate"), now.layers()[0].rule.as_deref()), (Some("gray"), Some("canary")));
        let told = follow_until(&outside, rate).await?;
        assert_eq!(told.last().expect("followed").layers()[0].rule, None);
    }
    billing.abandon("canary", &Edit::by("ann")).await?.done()?;
    follow_until(&inside, "again").await.map(drop)
}

/// Promise: a rollback reaches consumers as any other change, and so does going forward again.
async fn a_rollback_is_applied_as_the_next_generation(cx: Arc<Cx>) -> CaseResult {
    let billing = billing(&cx.coord().await?)?;
    for i in 1..=3 {
        publish(&billing, rate(i)).await?;
    }
    let consumer = Consumer::open(&billing, me())?;
    follow_until(&consumer, 3).await?;
    for to in [1, 3, 2] {
        let head = billing.rollback(ReleaseVersion::new(to), &Edit::by("ann")).await?.done()?;
        follow_until(&consumer, to).await?;
        let running = consumer.effective().expect("followed").layers()[0].clone();
        assert_eq!(
            (running.generation, running.release),
            (Some(head.generation), Some(ReleaseVersion::new(to)))
        );
    }
    Ok(())
}

/// Promise: an item comes from the highest layer that has it, and says which; layers change one by one.
async fn layers_are_overlaid_and_each_item_knows_where_it_comes_from(cx: Arc<Cx>) -> CaseResult {
    let centre = ConfigCentre::new(&cx.coord().await?, ROOT)?;
    let [base, team, app] = ["base", "team", "app"].map(|name| centre.namespace(name));
    let (base, team, app) = (base?, team?, app?);
    publish(&base, Content::items([("rate", "1"), ("zone", "eu")])).await?;
    let layers = Layers::new([base.clone(), team.clone(), app.clone()])?;
    let consumer = Consumer::open(layers, me())?;
    let first = within("ready", consumer.ready()).await??;
    assert_eq!(
        (first.item("rate"), first.origin("rate"), first.generation()),
        (Some("1"), Some("base"), None)
    );
    let runs = async |items: &[(&str, &str, &str)]| {
        eventually("the overlay", || async {
            let now = consumer.effective().expect("ready");
            let seen = |(key, value, origin): &(&str, &str, &str)| {
                now.item(key) == Some(*value) && now.origin(key) == Some(*origin)
            };
            Ok(items.iter().all(seen))
        })
        .await
    };
    publish(&app, rate(3)).await?;
    runs(&[("rate", "3", "app"), ("zone", "eu", "base")]).await?;
    publish(&team, Content::items([("rate", "2"), ("zone", "us")])).await?;
    runs(&[("rate", "3", "app"), ("zone", "us", "team")]).await?;
    publish(&app, Content::items([("other", "")])).await?;
    runs(&[("rate", "2", "team"), ("other", "", "app")]).await?;

    publish(&team, Content::document(Format::Text, "not items")).await?;
    let told = refused(&consumer, ErrorKind::Malformed).await?;
    assert!(told.contains("namespace=team"), "{told}");
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("2"), "the last good one stays");
    Ok(())
}

/// Promise: a thousand consumers of a process cost the store one watch, and one read for each release.
async fn a_thousand_consumers_cost_one_watch_and_one_read(cx: Arc<Cx>) -> CaseResult {
    let (watches, reads) = (LookCounter::default(), Meddler::default());
    let coord = cx.coord().await?.layer(&watches).layer(&reads);
    let publisher = billing(&cx.coord().await?)?;
    publish(&publisher, rate(1)).await?;
    let billing = billing(&coord)?;
    let consumers: Vec<Consumer> = (0..1000)
        .map(|i| Consumer::open(&billing, ConsumerOptions::new(Identity::new(format!("i-{i}")))))
        .collect::<Result<_, _>>()?;
    for ready in join_all(consumers.iter().map(Consumer::ready)).await {
        assert_eq!(ready?.item("rate"), Some("1"));
    }
    publish(&publisher, rate(2)).await?;
    within("everybody has it", join_all(consumers.iter().map(|consumer| follow_until(consumer, 2)))).await?;
    assert_eq!((watches.watches(), reads.reads_of_releases()), (1, 2));
    let told = consumers.iter().filter(|consumer| consumer.status().error.is_some()).count();
    assert_eq!(told, 0);
    Ok(())
}

/// BB-232 (<https://github.com/apolloconfig/apollo/issues/3209>): a push channel that was dead without a word made updates
/// minutes late.
async fn a_dead_watch_holds_a_release_up_for_seconds(cx: Arc<Cx>) -> CaseResult {
    let meddler = Meddler::default();
    let coord = cx.coord().await?.layer(&meddler);
    let billing = billing(&coord)?;
    publish(&billing, rate(1)).await?;
    let consumer = Consumer::open(&billing, me())?;
    within("ready", consumer.ready()).await??;
    meddler.deafen();
    let published = Instant::now();
    publish(&billing, rate(2)).await?;
    follow_until(&consumer, 2).await?;
    assert!(published.elapsed() < Duration::from_secs(10), "{:?}", published.elapsed());
    Ok(())
}

/// Promise: the publisher sees who runs what, since when, under which rule, and why not the newest; an instance that
/// ends is gone.
async fn instances_say_what_they_run_and_why_not_the_newest(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let billing = billing(&coord)?;
    let keeper = SessionKeeper::new(&cx.coord().await?, SessionOptions::new(Cx::LONG));
    let identity = Identity::new("pod/a b").with_ip([10, 0, 0, 1].into()).with_label("zone", "a");
    let options = ConsumerOptions::new(identity.clone()).with_report(&keeper).with_check(|now| {
        if now.item("rate") == Some("0") { Err("nobody could pay".to_owned()) } else { Ok(()) }
    });
    let consumer = Consumer::open(&billing, options)?;
    let seen = async |what: &str, wanted: &(dyn Fn(&coord_config_centre::InstanceReport) -> bool + Sync)| {
        eventually(what, || async {
            let instances = billing.instances().await?;
            Ok(instances.reports.len() == 1 && wanted(&instances.reports[0]))
        })
        .await
    };
    seen("it is there, and runs nothing yet", &|report| report.generation.is_none()).await?;
    publish(&billing, rate(1)).await?;
    seen("the first", &|report| report.generation == Some(Generation::FIRST) && report.error.is_none())
        .await?;
    let rule = Rule::new("canary").with_label("zone", "a");
    billing.set_gray(rule, GrayContent::set([("rate", "0")]), &Edit::by("ann")).await?.done()?;
    seen("why not", &|report| {
        report.generation == Some(Generation::FIRST)
            && report.error.as_ref().is_some_and(|error| error.contains("nobody could pay"))
    })
    .await?;
    billing
        .set_gray(
            Rule::new("canary").with_label("zone", "a"),
            GrayContent::set([("rate", "5")]),
            &Edit::by("ann"),
        )
        .await?
        .done()?;
    seen("the rule", &|report| report.rule.as_deref() == Some("canary") && report.error.is_none()).await?;
    let report = billing.instances().await?.reports.remove(0);
    assert_eq!((report.identity, report.release), (identity, Some(ReleaseVersion::FIRST)));
    assert!(report.since.as_millis() > 0);

    coord.put("/config/billing/inst/stranger", "not ours").await?;
    eventually("the stranger's key is told apart", || async {
        let instances = billing.instances().await?;
        let named = |error: &coord_api::Error| error.to_string().contains("/inst/stranger");
        Ok(instances.reports.len() == 1 && instances.unreadable.iter().any(named))
    })
    .await?;
    let same = ConsumerOptions::new(Identity::new("pod/a b")).with_report(&keeper);
    assert_eq!(Consumer::open(&billing, same).expect_err("the id is taken").kind(), ErrorKind::NotHolder);
    within("closed", consumer.close()).await??;
    eventually("it is gone", || async { Ok(billing.instances().await?.reports.is_empty()) }).await
}

/// Promise: with the store's handle ends what follows it; what is in force can still be read.
async fn a_closed_handle_ends_the_stream(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let billing = billing(&coord)?;
    publish(&billing, rate(1)).await?;
    let consumer = Consumer::open(&billing, me())?;
    let mut changes = consumer.changes();
    within("the first", changes.next()).await?.expect("open");
    coord.close().await?;
    assert!(within("the end", changes.next()).await?.is_none());
    assert!(consumer.status().closed);
    assert_eq!(consumer.effective().expect("still").item("rate"), Some("1"));
    let late = Consumer::open(&billing, me())?;
    assert_eq!(within("an answer", late.ready()).await?.expect_err("closed").kind(), ErrorKind::Closed);
    Ok(())
}
