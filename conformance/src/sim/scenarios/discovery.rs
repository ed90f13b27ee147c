//! Services: who can be discovered.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use coord_api::SessionOptions;
use coord_recipes::SessionKeeper;
use coord_registry::{Discovery, DiscoveryEvent, Instance, Registration, Registry};

use super::{BASE, SETTLED, of_data};
use crate::{
    checkers::{facts::Found, found},
    sim::{
        client::{Client, TTL},
        faults::Kind,
        recorder::Ledger,
        run::{Rule, Scenario, all_but},
    },
};

const ROOT: &str = "/services";
const SERVICE: &str = "billing";
/// The label that says what an instance says.
const SAYS: &str = "says";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("views", found)];

/// Instances that register, change and go, each of which discovers all.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 7,
    faults: all_but(&[Kind::StaleRead]),
    dirs: &["/services/billing"],
    ledger: Ledger::line(|_| None),
    ..of_data(
        "discovery",
        "discovery: views are told the steps, and show who is alive when all is calm",
        RULES,
        |me| Box::pin(client(me)),
    )
};

async fn client(me: Client) {
    let keeper = SessionKeeper::new(me.coord(), SessionOptions::new(TTL));
    let Ok(registry) = Registry::new(me.coord(), ROOT) else { return };
    let Ok(discovery) = registry.discover(SERVICE) else { return };
    let view = me.next_id();
    me.record(Found::Opened { view, service: SERVICE.to_owned() });
    let watching = me.node().runtime.spawn(watch(me.clone(), discovery.clone(), view));
    let mut here = None;
    for _ in 0..me.steps() {
        me.idle(0, 600).await;
        here = match here {
            None => register(&me, &registry, &keeper).await,
            Some(registration) if me.chance(300) => {
                // What does not arrive is sent again in the background.
                let _ = me.perhaps_cancelled(Registration::close(&registration)).await;
                None
            }
            Some(registration) => {
                // Sent or not, from now on it is what it says.
                let _ = me.perhaps_cancelled(registration.update(instance(&me))).await;
                Some(registration)
            }
        };
    }
    while here.is_none() {
        here = register(&me, &registry, &keeper).await;
        me.idle(100, 300).await;
    }
    me.until(SETTLED).await;
    if let Some(registration) = &here {
        let (id, value) = said(&registration.instance());
        me.record(Found::Says { service: SERVICE.to_owned(), id, value });
    }
    me.until(SETTLED + Duration::from_secs(1)).await;
    me.record(Found::Settled { view, instances: all(&discovery.instances()) });
    me.until(SETTLED + Duration::from_secs(2)).await;
    watching.abort();
    if let Some(registration) = here {
        let _ = registration.close().await;
    }
    let _ = keeper.close().await;
}

/// This client, saying something new.
fn instance(me: &Client) -> Instance {
    Instance::new(SERVICE, format!("node-{}", me.id()), "10.0.0.7", 80)
        .with_label(SAYS, me.next_id().to_string())
        // Runs repeat to the byte.
        .with_registered_at(SystemTime::UNIX_EPOCH)
}

async fn register(me: &Client, registry: &Registry, keeper: &SessionKeeper) -> Option<Registration> {
    // Refused while the key of an earlier session of ours is there.
    me.perhaps_cancelled(registry.register(keeper, instance(me))).await?.ok()
}

fn said(instance: &Instance) -> (String, u64) {
    let says = instance.labels().get(SAYS).and_then(|says| says.parse().ok());
    (instance.id().to_owned(), says.unwrap_or(0))
}

fn all(instances: &[Instance]) -> BTreeMap<String, u64> {
    instances.iter().map(said).collect()
}

async fn watch(me: Client, discovery: Discovery, view: u64) {
    let mut changes = discovery.changes();
    while let Some(event) = changes.next().await {
        let (before, after) = match event {
            DiscoveryEvent::Initial(list) | DiscoveryEvent::Resync(list) => {
                me.record(Found::All { view, instances: all(&list) });
                continue;
            }
            DiscoveryEvent::Added(after) => (None, Some(after)),
            DiscoveryEvent::Updated { before, after } => (Some(before), Some(after)),
            DiscoveryEvent::Removed(before) => (Some(before), None),
            _ => continue,
        };
        let Some(id) = after.as_ref().or(before.as_ref()).map(|instance| said(instance).0) else { continue };
        let value = |instance: &Instance| said(instance).1;
        let (before, after) = (before.as_ref().map(value), after.as_ref().map(value));
        me.record(Found::Changed { view, id, before, after });
    }
}
