//! Services and their instances, while everything works.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, ErrorKind};
use coord_registry::{
    Changes, Discovery, DiscoveryEvent, DiscoveryOptions, DiscoveryState, Instance, Kind, Registration,
    Registry, Snapshot, Status,
};

use super::persistent::keeper;
use crate::{CaseResult, Cx, Failure, eventually, look_counter::LookCounter, within};

cases!("registry", needs Store:
    an_instance_is_seen_with_all_that_it_says,
    changes_tell_who_comes_changes_and_goes,
    views_and_readers_agree_on_the_list,
    views_of_a_process_share_one_watch_and_are_updated_by_changes,
    what_is_no_instance_is_told_and_the_others_are_served,
    a_payload_of_another_type_is_told_by_a_typed_read,
    services_with_similar_names_are_apart,
    the_last_instance_leaves_and_views_see_the_next,
    a_quick_coming_and_going_ends_with_the_truth,
    a_bad_instance_is_refused_and_nothing_is_written,
    a_protected_view_shows_those_that_went_at_last,
);

pub(super) const ROOT: &str = "/services";
pub(super) const SERVICE: &str = "billing";

pub(super) fn registry(coord: &Coord) -> Result<Registry, Failure> {
    Ok(Registry::new(coord, ROOT)?)
}

pub(super) fn instance(id: &str) -> Instance {
    Instance::new(SERVICE, id, "10.0.0.7", 8080)
}

/// Registers an instance with a keeper of its own.
pub(super) async fn register(coord: &Coord, id: &str) -> Result<Registration, Failure> {
    Ok(within("registered", registry(coord)?.register(&keeper(coord), instance(id))).await??)
}

/// A view that has loaded.
pub(super) async fn view(coord: &Coord) -> Result<Discovery, Failure> {
    let view = registry(coord)?.discover(SERVICE)?;
    within("loaded", view.ready()).await??;
    Ok(view)
}

pub(super) fn ids(list: &[Instance]) -> Vec<&str> {
    list.iter().map(Instance::id).collect()
}

/// Waits until the view shows these, by id.
pub(super) async fn see(view: &Discovery, what: &str, wanted: &[&str]) -> CaseResult {
    let seen = within(what, view.wait_until(|list| ids(list) == wanted)).await;
    seen.map_err(|Failure(why)| Failure(format!("{why}: {:?}", view.instances())))??;
    Ok(())
}

async fn next(changes: &mut Changes, what: &str) -> Result<DiscoveryEvent, Failure> {
    within(what, changes.next()).await?.ok_or_else(|| Failure(format!("the changes ended before {what}")))
}

/// Promise: what one process says of itself, another one reads, whole.
async fn an_instance_is_seen_with_all_that_it_says(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let said = instance("10.0.0.7:8080")
        .with_tls_port(8443)
        .with_weight(7)
        .with_zone("eu-1a")
        .with_label("version", "1.4.2")
        .with_label("ünï/漢字", "\u{1f512} = \"x\"\n")
        .with_payload(&("a", 1, [true, false]))?
        .with_status(Status::Disabled);
    let me = registry(&coord)?.register(&keeper(&coord), said.clone()).await?;
    assert!(me.is_registered() && me.instance() == said);
    let view = view(&other).await?;
    see(&view, "it is there", &["10.0.0.7:8080"]).await?;
    let seen = view.instances()[0].clone();
    assert_eq!(seen, said);
    assert_eq!(seen.payload::<(String, u8, [bool; 2])>()?, ("a".to_owned(), 1, [true, false]));
    assert_eq!(registry(&other)?.instances(SERVICE).await?.instances[..], [said]);
    assert_eq!(registry(&other)?.services().await?, [SERVICE]);
    assert_eq!((view.state(), view.instances().age()), (DiscoveryState::Current, Duration::ZERO));
    me.close().await?;
    see(&view, "it is gone", &[]).await
}

/// Promise: the changes tell each coming, change and going once, in order.
async fn changes_tell_who_comes_changes_and_goes(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let a = register(&coord, "a").await?;
    let view = view(&other).await?;
    see(&view, "one", &["a"]).await?;
    let mut changes = view.changes();
    let told = next(&mut changes, "what there is").await?;
    assert!(matches!(&told, DiscoveryEvent::Initial(list) if ids(list) == ["a"]), "{told:?}");
    let b = register(&coord, "b").await?;
    let told = next(&mut changes, "b comes").await?;
    assert_eq!(told, DiscoveryEvent::Added(b.instance()));
    b.set_weight(3).await?;
    let told = next(&mut changes, "b changes").await?;
    let before = b.instance().with_weight(instance("b").weight());
    assert_eq!(told, DiscoveryEvent::Updated { before, after: b.instance() });
    a.close().await?;
    assert_eq!(next(&mut changes, "a goes").await?, DiscoveryEvent::Removed(a.instance()));
    // A late reader begins with what there is.
    let told = next(&mut view.changes(), "what there is now").await?;
    assert!(matches!(&told, DiscoveryEvent::Initial(list) if ids(list) == ["b"]), "{told:?}");
    other.close().await?;
    assert!(within("they end", changes.next()).await?.is_none());
    assert_eq!(view.ready().await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(ids(&view.instances()), ["b"], "the last list is still shown");
    Ok(())
}

/// Promise: all views of a service show the same, made when and by whom ever.
async fn views_and_readers_agree_on_the_list(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let (early, same, far) = (view(&coord).await?, view(&coord).await?, view(&other).await?);
    let kept = keeper(&coord);
    let mut registered = Vec::new();
    let names: Vec<String> = (0..20).map(|n| format!("i{n:02}")).collect();
    for name in &names {
        registered.push(registry(&coord)?.register(&kept, instance(name)).await?);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for view in [&early, &same, &far, &early.clone(), &view(&other).await?] {
        see(view, "all", &names).await?;
    }
    let (list, again) = (early.instances(), early.instances());
    assert!(Arc::ptr_eq(list.shared(), again.shared()), "a list was made anew though nothing changed");
    Ok(())
}

/// Promise: however many views a process has of a service and however much changes, there is one watch, and nothing is
/// read again.
async fn views_of_a_process_share_one_watch_and_are_updated_by_changes(cx: Arc<Cx>) -> CaseResult {
    let (counter, coord) = (LookCounter::default(), cx.coord().await?);
    let counted = cx.coord().await?.layer(&counter);
    let kept = keeper(&coord);
    let many = (0..300).map(|n| instance(&format!("i{n:03}")));
    let registered = within("registered", registry(&coord)?.register_all(&kept, many)).await?;
    let registered = registered.into_iter().collect::<coord_api::Result<Vec<_>>>()?;
    let mut views = Vec::new();
    for _ in 0..10 {
        views.push(registry(&counted)?.discover(SERVICE)?);
    }
    for view in &views {
        within("loaded", view.wait_until(|list| list.len() == 300)).await??;
    }
    for one in registered.iter().take(50) {
        one.set_weight(7).await?;
    }
    let changed = |list: &[Instance]| list.iter().filter(|one| one.weight() == 7).count();
    for view in &views {
        within("all changes", view.wait_until(|list| changed(list) == 50)).await??;
    }
    assert_eq!((counter.watches(), counter.count()), (1, 0), "watches, and lists read");
    Ok(())
}

/// Promise: what others put into a service is told with its key; nobody else is hidden by it.
///
/// BB-205 (<https://issues.apache.org/jira/browse/CURATOR-574>): an empty payload broke the reader.
async fn what_is_no_instance_is_told_and_the_others_are_served(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let me = register(&coord, "good").await?;
    let bad = ["", "garbage", "[]", "{}", "{\"port\":-1}", "\u{0}\u{ffff}", "{\"address\":7}"];
    for (at, value) in bad.iter().enumerate() {
        coord.put(format!("{ROOT}/{SERVICE}/bad{at}"), value.to_string()).await?;
    }
    coord.put(format!("{ROOT}/{SERVICE}/deep/er"), "no instance").await?;
    let view = view(&other).await?;
    see(&view, "the good one", &["good"]).await?;
    eventually("all are told", || async { Ok(view.problems().len() == bad.len()) }).await?;
    for (at, problem) in view.problems().iter().enumerate() {
        assert_eq!(problem.kind(), ErrorKind::Malformed);
        assert!(problem.to_string().contains(&format!("{ROOT}/{SERVICE}/bad{at}")), "{problem}");
    }
    let read = registry(&other)?.instances(SERVICE).await?;
    assert_eq!((ids(&read.instances), read.problems.len()), (vec!["good"], bad.len()));
    // A permanent instance whose value becomes garbage says what it said before.
    let permanent = instance("kept").with_kind(Kind::Permanent);
    let kept = registry(&coord)?.register(&keeper(&coord), permanent.clone()).await?;
    see(&view, "both", &["good", "kept"]).await?;
    coord.put(kept.key(), "garbage").await?;
    eventually("it is told", || async { Ok(view.problems().len() == bad.len() + 1) }).await?;
    assert_eq!(view.instances()[1], permanent);
    coord.delete(kept.key()).await?;
    see(&view, "the good one", &["good"]).await?;
    me.close().await?;
    Ok(())
}

/// Promise: a payload that is not what the reader expects is a typed error with the service and the id.
async fn a_payload_of_another_type_is_told_by_a_typed_read(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let me = registry(&coord)?.register(&keeper(&coord), instance("a").with_payload(&"text")?).await?;
    let view = view(&coord).await?;
    see(&view, "there", &["a"]).await?;
    let error = view.instances()[0].payload::<u32>().expect_err("text");
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    assert!(error.context().any(|fact| fact == ("id", "a")), "{error}");
    assert_eq!(view.instances()[0].payload::<String>()?, "text");
    me.close().await?;
    Ok(())
}

/// Promise: a service is its name and nothing that begins with it.
///
/// BB-218 (<https://github.com/kitex-contrib/registry-etcd/pull/12>): the prefix had no separator, and `rand` returned
/// `randpro` too.
async fn services_with_similar_names_are_apart(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (registry, kept) = (registry(&coord)?, keeper(&coord));
    let names = ["a", "a-b", "a.b", "a/b", "a%2Fb", "ab", "A"];
    let mut registered = Vec::new();
    for name in names {
        registered.push(registry.register(&kept, Instance::new(name, "one", "h", 1)).await?);
    }
    for name in names {
        let view = registry.discover(name)?;
        within("loaded", view.ready()).await??;
        within(name, view.wait_until(|list| list.len() == 1)).await??;
        assert_eq!(view.instances()[0].name(), name);
        assert_eq!(registry.instances(name).await?.instances[0].name(), name);
    }
    let mut sorted = names.map(str::to_owned);
    sorted.sort();
    assert_eq!(registry.services().await?, sorted);
    Ok(())
}

/// Promise: a service without instances is one; whoever looks at it sees the next instance.
///
/// BB-202 (<https://github.com/apache/curator/pull/684>): removing the empty node blinded the caches.
async fn the_last_instance_leaves_and_views_see_the_next(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let view = view(&other).await?;
    for round in ["1", "2", "3"] {
        let me = register(&coord, round).await?;
        see(&view, "there", &[round]).await?;
        me.close().await?;
        see(&view, "empty", &[]).await?;
        // Lets a store that collects empty directories do so.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

/// Promise: however quickly an instance comes and goes, every view ends with the truth.
///
/// BB-226 (the project's second article): up, down and up again within 50 ms; the last change was missed.
async fn a_quick_coming_and_going_ends_with_the_truth(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let (registry, kept, view) = (registry(&coord)?, keeper(&coord), view(&other).await?);
    for last in ["there", "gone"] {
        for weight in 0..5 {
            let me = registry.register(&kept, instance("a").with_weight(weight)).await?;
            me.close().await?;
        }
        if last == "there" {
            let me = registry.register(&kept, instance("a").with_weight(77)).await?;
            within("it is seen", view.wait_until(|list| list.first().is_some_and(|a| a.weight() == 77)))
                .await??;
            me.close().await?;
        }
        see(&view, "nobody", &[]).await?;
    }
    Ok(())
}

/// Promise: bad input is a typed error that says what is wrong, and leaves nothing half done.
async fn a_bad_instance_is_refused_and_nothing_is_written(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (registry, kept) = (registry(&coord)?, keeper(&coord));
    for (bad, kind) in [
        (Instance::new(SERVICE, "", "h", 1), ErrorKind::InvalidArgument),
        (Instance::new("", "a", "h", 1), ErrorKind::InvalidArgument),
        (Instance::new(SERVICE, "a", "", 1), ErrorKind::InvalidArgument),
        (Instance::new(SERVICE, "a", "h", 0), ErrorKind::InvalidArgument),
        (Instance::new(SERVICE, "a".repeat(300), "h", 1), ErrorKind::LimitExceeded),
        (instance("a").with_payload(&"x".repeat(100_000))?, ErrorKind::LimitExceeded),
        (
            instance("a").with_payload(&"x".repeat(100_000))?.with_kind(Kind::Permanent),
            ErrorKind::LimitExceeded,
        ),
    ] {
        let error = registry.register(&kept, bad).await.expect_err("bad");
        assert_eq!(error.kind(), kind, "{error}");
    }
    let background = registry.register_in_background(&kept, instance("a").with_kind(Kind::Permanent));
    assert_eq!(background.expect_err("permanent").kind(), ErrorKind::InvalidArgument);
    assert_eq!(Registry::new(&coord, "/").expect_err("the root").kind(), ErrorKind::InvalidArgument);
    assert!(registry.instances(SERVICE).await?.instances.is_empty());
    let me = registry.register(&kept, instance("a")).await?;
    let error = me.set_payload(&"x".repeat(100_000)).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert_eq!(me.instance().payload_json(), None, "a refused update was remembered");
    me.set_weight(3).await?;
    me.close().await?;
    Ok(())
}

/// Promise: with protection a service that becomes empty at once is shown as it was, for as long as was asked for.
async fn a_protected_view_shows_those_that_went_at_last(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let options = DiscoveryOptions::default().protect_empty(Duration::from_secs(3));
    let protected = registry(&other)?.discover_with(SERVICE, options)?;
    let plain = view(&other).await?;
    let (a, b) = (register(&coord, "a").await?, register(&coord, "b").await?);
    see(&protected, "both", &["a", "b"]).await?;
    a.close().await?;
    b.close().await?;
    see(&plain, "empty", &[]).await?;
    let is = |state| move |list: &Snapshot| list.state() == state;
    let kept = within("protected", protected.wait_until(is(DiscoveryState::Protected))).await??;
    assert_eq!(ids(&kept), ["a", "b"]);
    within("its time is over", protected.wait_until(is(DiscoveryState::Current))).await??;
    assert!(protected.instances().is_empty());
    // Who drains goes for good.
    let c = register(&coord, "c").await?;
    see(&protected, "one", &["c"]).await?;
    c.drain(Duration::from_millis(500)).await?;
    see(&protected, "gone", &[]).await
}
