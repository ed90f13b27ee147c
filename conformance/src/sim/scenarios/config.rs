//! Configuration: what is published and what runs.

use std::time::Duration;

use coord_api::Error;
use coord_config_centre::{
    ConfigCentre, Configuration, Consumer, ConsumerOptions, Content, Edit, Edited, Identity, Namespace,
};
use futures::StreamExt;

use super::{BASE, SETTLED, of_data};
use crate::{
    checkers::{config, facts::Config},
    sim::{
        client::Client,
        faults::Kind,
        recorder::Ledger,
        run::{Rule, Scenario, all_but},
    },
};

const ROOT: &str = "/config";
const NAME: &str = "billing";
/// The items of every release.
const ITEMS: [&str; 3] = ["db.host", "db.port", "db.user"];
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("releases", config)];

/// Publishers that race, each of whom also consumes.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 5,
    faults: all_but(&[
        Kind::EarlyWake,
        Kind::Expiry,
        Kind::FastClock,
        Kind::LastReply,
        Kind::StaleRead,
        // Who deletes a head by hand takes the configuration back.
        Kind::EntryDeleted,
        Kind::DirectoryDeleted,
    ]),
    ledger: Ledger::line(|_| None),
    keeps: |key| key.starts_with(ROOT),
    ..of_data("config", "config centre: whole releases, in order, and the last one in the end", RULES, |me| {
        Box::pin(client(me))
    })
};

async fn client(me: Client) {
    let Ok(centre) = ConfigCentre::new(me.coord(), ROOT) else { return };
    let Ok(namespace) = centre.namespace(NAME) else { return };
    let consumer = me.next_id();
    let identity = Identity::new(format!("node-{}", me.id()));
    let Ok(running) = Consumer::open(&namespace, ConsumerOptions::new(identity)) else { return };
    let watching = me.node().runtime.spawn(watch(me.clone(), running.clone(), consumer));
    for _ in 0..me.steps() {
        me.idle(0, 900).await;
        publish(&me, &namespace).await;
    }
    me.until(SETTLED).await;
    if let Ok(Some(head)) = namespace.head().await {
        me.record(Config::Head { name: NAME.to_owned(), generation: head.generation.get() });
    }
    me.until(SETTLED + Duration::from_secs(1)).await;
    me.record(Config::Settled { consumer, name: NAME.to_owned() });
    watching.abort();
    let _ = running.close().await;
}

async fn publish(me: &Client, namespace: &Namespace) {
    let value = me.next_id();
    let content = Content::items(ITEMS.map(|item| (item, value.to_string())));
    let mut edit = Edit::by(format!("node-{}", me.id()));
    if me.chance(500) {
        // By what it knows: others may be faster.
        let Ok(Some(head)) = namespace.head().await else { return };
        edit = edit.expecting(head.generation);
    }
    let published: Option<Result<Edited, Error>> =
        me.perhaps_cancelled(namespace.publish(content, &edit)).await;
    if let Some(Ok(Edited::Done(head))) = published {
        me.record(Config::Published { name: NAME.to_owned(), generation: head.generation.get(), value });
    }
}

async fn watch(me: Client, running: Consumer, consumer: u64) {
    let mut changes = running.changes();
    while let Some(now) = changes.next().await {
        me.record(ran(consumer, &now));
    }
}

fn ran(consumer: u64, now: &Configuration) -> Config {
    let value = |item: &str| now.item(item).and_then(|value| value.parse().ok()).unwrap_or(0);
    let generation = now.generation().map_or(0, |generation| generation.get());
    Config::Ran { consumer, name: NAME.to_owned(), generation, items: ITEMS.map(value).to_vec() }
}
