//! Curator's x-discovery and our registry, both ways.

use std::{collections::BTreeMap, time::Duration};

use coord::{Coord, SessionKeeper, SessionOptions};
use coord_registry::{
    Discovery, Instance, Kind, Registration, Registry, Status, WEIGHT_DEFAULT, XDiscoveryLayout,
    layout::URI_SPEC,
};
use coord_testbed::Server;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::java::{Java, SOON, zookeeper};

const BASE: &str = "/services";
const SERVICE: &str = "billing";
/// The class of what Curator writes here, by the name that Java gives it.
const CLASS: &str = "CuratorDiscovery$Metadata";

struct Rig {
    server: Server,
    curator: Java,
    registry: Registry,
    keeper: SessionKeeper,
}

async fn rig() -> Rig {
    let server = zookeeper().await;
    let coord: Coord = coord::connect(&server.url()).await.expect("it is up");
    let layout = XDiscoveryLayout::new().with_payload_class(CLASS);
    let registry = Registry::new(&coord, BASE).expect("a good name").with_layout(layout);
    let curator = Java::start("CuratorDiscovery.java", &server, &[BASE, SERVICE]).await;
    let keeper = SessionKeeper::new(&coord, SessionOptions::default());
    Rig { server, curator, registry, keeper }
}

impl Rig {
    async fn register(&self, instance: Instance) -> Registration {
        self.registry.register(&self.keeper, instance).await.expect("nobody else has the id")
    }
}

fn ours(id: &str) -> Instance {
    Instance::new(SERVICE, id, "10.0.0.7", 9090)
}

/// Waits until the view has exactly these instances.
async fn shows(view: &Discovery, ids: &[&str]) -> BTreeMap<String, Instance> {
    timeout(SOON, async {
        loop {
            let shown: BTreeMap<_, _> = view
                .instances()
                .iter()
                .map(|instance| (instance.id().to_owned(), instance.clone()))
                .collect();
            if shown.keys().eq(ids) {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{ids:?} are wanted, and there are {:?}", view.instances()))
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_lists_ours_and_forgets_them() {
    let mut rig = rig().await;
    let rich = ours("rich")
        .with_tls_port(9443)
        .with_weight(50)
        .with_zone("eu-1a")
        .with_label("team", "payments")
        .with_label(URI_SPEC, "{scheme}://{address}:{ssl-port}/")
        .with_payload_json(json!({"version": "1.2", "built": 5_000_000_000_u64}));
    let rich = rig.register(rich).await;
    let plain = rig.register(ours("plain").with_kind(Kind::Permanent)).await;

    let all = "plain 10.0.0.7 9090 null PERMANENT true <> null; \
               rich 10.0.0.7 9090 9443 DYNAMIC true <https://10.0.0.7:9443/> Metadata 1.2 5000000000";
    assert_eq!(rig.curator.ask("list").await, all);
    assert_eq!(rig.curator.ask("names").await, "[billing]");
    rig.curator.ask_until("cached", all).await;
    rig.curator.ask_until("provided", all).await;

    rich.close().await.unwrap();
    rig.curator.ask_until("cached", "plain 10.0.0.7 9090 null PERMANENT true <> null").await;
    assert!(plain.unregister().await.unwrap());
    rig.curator.ask_until("cached", "").await;
    assert_eq!(rig.curator.ask("list").await, "");
    rig.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_is_changed_for_curator_too() {
    let mut rig = rig().await;
    let one = rig.register(ours("one")).await;
    let seen = |enabled| format!("one 10.0.0.7 9090 null DYNAMIC {enabled} <> null");
    rig.curator.ask_until("provided", &seen(true)).await;

    for (status, weight) in [(Status::Draining, 100), (Status::Disabled, 100), (Status::Up, 0)] {
        one.update(ours("one").with_status(status).with_weight(weight)).await.unwrap();
        // Listed, and not chosen any more.
        rig.curator.ask_until("cached", &seen(false)).await;
        rig.curator.ask_until("provided", "").await;
        one.update(ours("one")).await.unwrap();
        rig.curator.ask_until("provided", &seen(true)).await;
    }
    rig.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn we_list_those_of_curator_and_forget_them() {
    let mut rig = rig().await;
    let view = rig.registry.discover(SERVICE).unwrap();
    view.ready().await.unwrap();
    for (id, service_type) in
        [("full", "DYNAMIC"), ("bare", "STATIC"), ("disabled", "PERMANENT"), ("next", "DYNAMIC_SEQUENTIAL")]
    {
        assert_eq!(rig.curator.ask(&format!("register {id} {service_type}")).await, "registered");
    }
    // Curator numbers what is sequential by the changes of the directory: three came before.
    let shown = shows(&view, &["bare", "disabled", "full", "next0000000003"]).await;
    let full = &shown["full"];
    assert_eq!((full.name(), full.address()), (SERVICE, "10.0.0.9"));
    assert_eq!((full.port(), full.tls_port()), (8080, Some(8443)));
    assert_eq!((full.kind(), full.status(), full.weight()), (Kind::Ephemeral, Status::Up, WEIGHT_DEFAULT));
    assert_eq!(full.payload_json(), Some(&json!({"version": "1.2", "built": 5_000_000_000_u64})));
    assert_eq!(full.labels()[URI_SPEC], "{scheme}://{address}:{ssl-port}/{[}x{]}");
    let at = full.registered_at().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(at.as_millis(), 1_700_000_000_123);
    let bare = &shown["bare"];
    assert_eq!((bare.port(), bare.tls_port(), bare.payload_json()), (0, None, None));
    assert_eq!((bare.kind(), bare.status()), (Kind::Permanent, Status::Up));
    assert_eq!((shown["disabled"].kind(), shown["disabled"].status()), (Kind::Permanent, Status::Disabled));
    assert_eq!(shown["next0000000003"].kind(), Kind::Ephemeral);
    assert_eq!(rig.registry.services().await.unwrap(), [SERVICE]);

    assert_eq!(rig.curator.ask("unregister full").await, "unregistered");
    shows(&view, &["bare", "disabled", "next0000000003"]).await;
    // It dies with its session, and what is permanent stays.
    drop(rig.curator);
    shows(&view, &["bare", "disabled"]).await;
    assert!(rig.registry.unregister(SERVICE, "bare").await.unwrap());
    shows(&view, &["disabled"]).await;
    rig.server.stop().await.unwrap();
}

/// An unreadable payload would hide all instances of the service from Curator's list.
#[tokio::test(flavor = "multi_thread")]
async fn curator_reads_payloads_of_every_kind() {
    let mut rig = rig().await;
    // Without a class: maps.
    rig.registry = Registry::new(rig.registry.coord(), BASE).unwrap();
    for (payload, read) in [
        (json!("text"), "String text"),
        (json!(true), "Boolean true"),
        (json!(7), "Integer 7"),
        (json!(-5_000_000_000_i64), "Long -5000000000"),
        (json!(u64::MAX), "BigInteger 18446744073709551615"),
        (json!(2.5), "Double 2.5"),
        (json!([1, ["a", "b"], {"c": null}]), "ArrayList [1, [a, b], {c=null}]"),
        (json!({"a": {"b": [1]}}), "LinkedHashMap {a={b=[1]}}"),
        (json!({"@class": CLASS, "version": "2", "built": 0}), "Metadata 2 0"),
        (Value::Null, "null"),
    ] {
        let one = rig.register(ours("one").with_payload_json(payload)).await;
        let seen = format!("one 10.0.0.7 9090 null DYNAMIC true <> {read}");
        assert_eq!(rig.curator.ask("list").await, seen);
        one.close().await.unwrap();
    }
    rig.server.stop().await.unwrap();
}
