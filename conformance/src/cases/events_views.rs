//! Events of consumers of configuration and of views of services.

use std::sync::Arc;

use coord_api::events::{Event, Events};
use coord_config_centre::{ConfigCentre, Consumer, Generation, Layers, Typed};

use super::{
    consumer::{billing, me, publish, rate},
    consumer_refusals::positive,
    events::{listened, next},
    registry::{SERVICE, register, view},
};
use crate::{CaseResult, Cx, within};

cases!("events_views", needs Store:
    a_generation_is_told_when_it_is_in_force,
    a_generation_that_is_refused_is_not_told,
    of_several_layers_the_one_that_changed_is_told,
    each_list_that_a_view_shows_is_told_with_its_length,
);

pub(super) fn configured(namespace: &str, generation: u64) -> Event {
    Event::Configured { namespace: namespace.to_owned(), generation }
}

pub(super) fn instances(count: usize) -> Event {
    Event::Instances { service: SERVICE.to_owned(), count }
}

async fn told(events: &mut Events, expected: Event) -> CaseResult {
    assert_eq!(next(events).await?, expected);
    Ok(())
}

/// Promise: each generation is told once, and whoever hears of it and looks finds it in force.
async fn a_generation_is_told_when_it_is_in_force(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut events) = listened(&cx).await?;
    let billing = billing(&coord)?;
    publish(&billing, rate(1)).await?;
    let consumer = Consumer::open(&billing, me())?;
    for generation in 1..=3 {
        told(&mut events, configured("billing", generation)).await?;
        let now = consumer.effective().expect("in force");
        assert_eq!(now.generation(), Some(Generation::new(generation)));
        // The same content is no new generation, and no event.
        publish(&billing, rate(generation)).await?;
        publish(&billing, rate(generation + 1)).await?;
    }
    Ok(())
}

/// Promise: what the check of the program refuses is not in force, and is not told.
async fn a_generation_that_is_refused_is_not_told(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut events) = listened(&cx).await?;
    let billing = billing(&coord)?;
    publish(&billing, rate(1)).await?;
    let limits = within("open", Typed::open(&billing, me(), positive)).await??;
    told(&mut events, configured("billing", 1)).await?;
    publish(&billing, rate(0)).await?;
    let mut statuses = limits.statuses();
    within("refused", statuses.wait_for(|status| status.error.is_some())).await?.expect("open");
    publish(&billing, rate(2)).await?;
    told(&mut events, configured("billing", 3)).await
}

/// Promise: a layer that runs on as before is no news.
async fn of_several_layers_the_one_that_changed_is_told(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut events) = listened(&cx).await?;
    let base = ConfigCentre::new(&coord, "/config")?.namespace("base")?;
    let billing = billing(&coord)?;
    for layer in [&base, &billing] {
        publish(layer, rate(1)).await?;
    }
    let layers = Layers::new([base.clone(), billing.clone()])?;
    let _consumer = Consumer::open(layers, me())?;
    let mut first = [next(&mut events).await?, next(&mut events).await?];
    first.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(first, [configured("base", 1), configured("billing", 1)]);
    for (layer, name) in [(&billing, "billing"), (&base, "base")] {
        publish(layer, rate(2)).await?;
        told(&mut events, configured(name, 2)).await?;
    }
    Ok(())
}

/// Promise: an instance that comes, changes or goes is told, and whoever hears of it and looks finds the list.
async fn each_list_that_a_view_shows_is_told_with_its_length(cx: Arc<Cx>) -> CaseResult {
    let other = cx.coord().await?;
    let a = register(&other, "a").await?;
    let (coord, mut events) = listened(&cx).await?;
    let view = view(&coord).await?;
    let shown = || view.instances().len();
    // It may begin with what was there before.
    while next(&mut events).await? != instances(1) {}
    let b = register(&other, "b").await?;
    told(&mut events, instances(2)).await?;
    assert_eq!(shown(), 2);
    b.set_weight(3).await?;
    told(&mut events, instances(2)).await?;
    for (registration, left) in [(a, 1), (b, 0)] {
        registration.close().await?;
        told(&mut events, instances(left)).await?;
        assert_eq!(shown(), left);
    }
    Ok(())
}
