//! Registrations of instances, while everything works.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, ErrorKind};
use coord_recipes::RegistrationState;
use coord_registry::{Instance, Kind, Registration, Status};
use tokio::time::Instant;

use super::{
    persistent::{keeper, value},
    registry::{SERVICE, instance, register, registry, see, view},
};
use crate::{CaseResult, Cx, Failure, eventually, sweep::drop_after, within};

cases!("registration", needs Store:
    updates_end_with_the_last_one,
    an_id_belongs_to_one_live_instance,
    waiting_for_an_id_ends_in_time,
    a_new_session_registers_what_was_said_last,
    an_instance_deleted_by_hand_comes_back,
    a_permanent_instance_stays_and_is_not_rewritten,
    only_permanent_instances_are_removed_by_others,
    an_instance_drains_before_it_leaves,
    a_drain_that_is_given_up_leaves_the_instance_draining,
    a_registration_that_is_given_up_leaves_nothing_behind,
    a_thousand_instances_are_registered_at_once,
);

/// Promise: of several updates at the same time the last one counts, and each is whole.
async fn updates_end_with_the_last_one(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let me = register(&coord, "a").await?;
    let view = view(&other).await?;
    let updates = (1..=50).map(|weight| me.set_weight(weight));
    for done in within("all are written", futures::future::join_all(updates)).await? {
        done?;
    }
    me.set_status(Status::Disabled).await?;
    me.set_payload(&"later").await?;
    assert_eq!((me.instance().weight(), me.instance().status()), (50, Status::Disabled));
    within("the last one is seen", view.wait_until(|list| list.first() == Some(&me.instance()))).await??;
    let mut another = me.instance();
    for bad in [Instance::new(SERVICE, "b", "h", 1), another.clone().with_kind(Kind::Permanent)] {
        assert_eq!(me.update(bad).await.expect_err("another").kind(), ErrorKind::InvalidArgument);
    }
    another = Instance::new(SERVICE, "a", "elsewhere", 9);
    let born = me.instance().registered_at();
    me.update(another).await?;
    assert_eq!((me.instance().address(), me.instance().registered_at()), ("elsewhere", born));
    me.close().await?;
    assert_eq!(me.set_weight(1).await.expect_err("closed").kind(), ErrorKind::Closed);
    Ok(())
}

/// Promise: the second of two with one id is told which key is taken, and the first is not touched.
async fn an_id_belongs_to_one_live_instance(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let first = register(&coord, "a").await?;
    let before = value(&coord, first.key().as_str()).await?;
    let second = instance("a").with_weight(1);
    let error = registry(&other)?.register(&keeper(&other), second.clone()).await.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    assert!(error.to_string().contains(first.key().as_str()), "{error}");
    let permanent = second.with_kind(Kind::Permanent);
    let error = registry(&other)?.register(&keeper(&other), permanent).await.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    assert!(first.is_registered() && value(&coord, first.key().as_str()).await? == before);
    first.close().await?;
    register(&other, "a").await?.close().await?;
    Ok(())
}

/// Promise: who waits for an id gets it when it is free, and waits no longer than it says.
async fn waiting_for_an_id_ends_in_time(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let first = register(&coord, "a").await?;
    let (registry, kept) = (registry(&other)?, keeper(&other));
    let waiting = registry.register_timeout(&kept, instance("a"), Duration::from_millis(300));
    let error = within("it ends", waiting).await?.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    let second = registry.register_in_background(&kept, instance("a").with_weight(2))?;
    let state = within("it is seen", second.changed(RegistrationState::Pending)).await?;
    assert_eq!(state, RegistrationState::Taken);
    first.close().await?;
    within("its turn", second.registered()).await??;
    let view = view(&coord).await?;
    within("it is seen", view.wait_until(|list| list.first().is_some_and(|one| one.weight() == 2))).await??;
    second.close().await?;
    let late = registry.register_timeout(&kept, instance("a"), Duration::from_secs(10));
    within("free", late).await??.close().await?;
    Ok(())
}

/// Promise: a lost session costs an absence, and then the instance says what it said last.
///
/// BB-199 (<https://github.com/apache/curator/pull/702>): the old data was registered after a reconnect. BB-200
/// (<https://issues.apache.org/jira/browse/CURATOR-241>): it was made again with the first data, or an earlier owner's.
async fn a_new_session_registers_what_was_said_last(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let kept = keeper(&coord);
    let me = registry(&coord)?.register(&kept, instance("a").with_payload(&"first")?).await?;
    let view = view(&other).await?;
    for said in ["second", "third"] {
        me.set_payload(&said).await?;
        let before = coord.get(me.key()).await?.expect("registered").meta.created;
        kept.session().await?.close().await?;
        assert!(!me.is_registered());
        within("back", me.registered()).await??;
        let says = |list: &[Instance]| list.iter().any(|one| one.payload_json() == Some(&said.into()));
        within("it says so", view.wait_until(|list| says(list))).await??;
        let after = coord.get(me.key()).await?.expect("registered again").meta;
        assert!(after.created > before && after.owner.as_ref() == Some(kept.session().await?.id()));
    }
    me.close().await?;
    see(&view, "gone", &[]).await
}

/// Promise: an instance that somebody deletes is registered again at once, with what it said last.
///
/// BB-209 (<https://github.com/apache/dubbo/issues/2972>): the provider never noticed.
async fn an_instance_deleted_by_hand_comes_back(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let me = register(&coord, "a").await?;
    me.set_weight(9).await?;
    for _ in 0..3 {
        let before = other.get(me.key()).await?.expect("registered").meta.created;
        assert!(other.delete(me.key()).await?);
        eventually("it is back", || async {
            let entry = other.get(me.key()).await?;
            Ok(entry.is_some_and(|entry| entry.meta.created > before && entry.meta.owner.is_some()))
        })
        .await?;
    }
    // So is one that somebody writes over.
    other.put(me.key(), "garbage").await?;
    let view = view(&other).await?;
    let heals = view.wait_until(|list| list.first().is_some_and(|one| one.weight() == 9));
    within("it is itself again", heals).await??;
    me.close().await?;
    Ok(())
}

/// Promise: a permanent instance outlives whoever registered it, and only an update changes it.
///
/// BB-203 (<https://github.com/apache/curator/pull/615>): it was deleted at close, or registered again with old data.
async fn a_permanent_instance_stays_and_is_not_rewritten(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let (kept, permanent) = (keeper(&coord), instance("a").with_kind(Kind::Permanent));
    let me = registry(&coord)?.register(&kept, permanent.clone()).await?;
    let meta = async |coord: &Coord| Ok::<_, Failure>(coord.get(me.key()).await?.map(|entry| entry.meta));
    let written = meta(&other).await?.expect("registered");
    assert!(written.owner.is_none() && me.is_registered());
    me.close().await?;
    kept.session().await?.close().await?;
    drop(kept);
    // The same again, as at the next start: nothing is written. Another one with its id is told.
    let (registry, kept) = (registry(&other)?, keeper(&other));
    let again = registry.register(&kept, instance("a").with_kind(Kind::Permanent)).await?;
    let refused = registry.register(&kept, permanent.clone().with_weight(1)).await.expect_err("another");
    assert_eq!(refused.kind(), ErrorKind::NotHolder, "{refused}");
    let refused = registry.register(&kept, instance("a")).await.expect_err("it is taken");
    assert_eq!(refused.kind(), ErrorKind::NotHolder, "{refused}");
    assert_eq!(meta(&other).await?, Some(written.clone()), "it was rewritten");

    again.set_weight(5).await?;
    let view = view(&other).await?;
    within("updated", view.wait_until(|list| list.first().is_some_and(|one| one.weight() == 5))).await??;
    let updated = meta(&other).await?.expect("there");
    assert!(updated.owner.is_none() && updated.created == written.created);
    drop(again);
    assert!(registry.unregister(SERVICE, "a").await?);
    see(&view, "removed", &[]).await?;
    assert!(!registry.unregister(SERVICE, "a").await?);
    let error = me.set_weight(1).await.expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    assert!(!me.unregister().await?);
    Ok(())
}

/// Promise: nobody removes the instance of a live process.
async fn only_permanent_instances_are_removed_by_others(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let me = register(&coord, "a").await?;
    let error = registry(&other)?.unregister(SERVICE, "a").await.expect_err("it lives");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    assert!(error.to_string().contains(me.key().as_str()), "{error}");
    assert!(other.get(me.key()).await?.is_some());
    assert!(me.unregister().await?);
    see(&view(&other).await?, "it is gone", &[]).await
}

/// Promise: who drains is seen draining for as long as it said, and then is gone.
async fn an_instance_drains_before_it_leaves(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let me = register(&coord, "a").await?;
    let view = view(&other).await?;
    see(&view, "there", &["a"]).await?;
    let bound = Duration::from_secs(1);
    let began = Instant::now();
    let draining = tokio::spawn(async move { me.drain(bound).await });
    let drains = |list: &[Instance]| list.iter().any(|one| one.status() == Status::Draining);
    within("it drains", view.wait_until(|list| drains(list))).await??;
    assert!(!view.instances()[0].is_available());
    see(&view, "it left", &[]).await?;
    assert!(began.elapsed() >= bound, "it left before its time: {:?}", began.elapsed());
    within("it ends", draining).await?.expect("no panic")?;
    Ok(())
}

/// Promise: a drain whose future is dropped neither leaves early nor comes back up.
async fn a_drain_that_is_given_up_leaves_the_instance_draining(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let me = register(&coord, "a").await?;
    let view = view(&other).await?;
    assert!(drop_after(me.drain(Duration::from_secs(60)), 1).await.is_none());
    let drains = |list: &[Instance]| list.iter().any(|one| one.status() == Status::Draining);
    within("it drains", view.wait_until(|list| drains(list))).await??;
    assert!(me.is_registered());
    me.drain(Duration::ZERO).await?;
    see(&view, "it left", &[]).await
}

/// Promise: a registration that is dropped at any await point leaves no instance (G9).
async fn a_registration_that_is_given_up_leaves_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (registry, kept) = (registry(&coord)?, keeper(&coord));
    kept.session().await?;
    for polls in 1..6 {
        let id = format!("m{polls}");
        drop(drop_after(registry.register(&kept, instance(&id)), polls).await);
        eventually("its registration has ended", || async {
            match registry.register(&kept, instance(&id)).await {
                Ok(again) => again.close().await.map(|()| true).map_err(Failure::from),
                Err(error) if error.kind() == ErrorKind::NotHolder => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
        .await?;
    }
    eventually("nobody is left", || async { Ok(registry.instances(SERVICE).await?.instances.is_empty()) })
        .await
}

/// Promise: a thousand registrations of one client are on their way together, and leave together.
async fn a_thousand_instances_are_registered_at_once(cx: Arc<Cx>) -> CaseResult {
    const COUNT: usize = 1_000;
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let (registry, kept, view) = (registry(&coord)?, keeper(&coord), view(&other).await?);
    let all = (0..COUNT).map(|n| instance(&format!("i{n:04}")).with_label("n", n.to_string()));
    let registered = within("all are registered", registry.register_all(&kept, all)).await?;
    let registered = registered.into_iter().collect::<coord_api::Result<Vec<_>>>()?;
    within("all are seen", view.wait_until(|list| list.len() == COUNT)).await??;
    let last = view.instances().last().map(|one| one.labels().clone());
    assert_eq!(last.and_then(|labels| labels.get("n").cloned()).as_deref(), Some("999"));
    let taken = registry.register_all(&kept, [instance("new"), instance("i0007")]).await;
    assert!(taken[0].is_ok(), "{taken:?}");
    assert!(matches!(&taken[1], Err(error) if error.kind() == ErrorKind::NotHolder), "{taken:?}");
    drop(taken);
    let closing = futures::future::join_all(registered.iter().map(Registration::close));
    for closed in within("all leave", closing).await? {
        match closed {
            // A busy store need not confirm a thousand ends within the time that one may take; they are made all the same.
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            closed => closed?,
        }
    }
    see(&view, "nobody is left", &[]).await
}
