//! Dubbo's nodes and our registry, both ways.

use std::time::Duration;

use coord::{SessionKeeper, SessionOptions};
use coord_registry::{Discovery, DubboLayout, DubboService, DubboUrl, Instance, Registry, Status};
use coord_testbed::Server;
use tokio::time::timeout;

use crate::java::{Java, SOON, zookeeper};

const INTERFACE: &str = "com.shop.Orders";
const THEIRS: &str = "dubbo://10.0.0.9:20880/com.shop.Orders?application=shop&dynamic=true&interface=com.shop.Orders\
    &methods=pay,refund&side=provider&timestamp=1700000000123";

struct Rig {
    server: Server,
    dubbo: Java,
    registry: Registry,
    orders: DubboService,
    keeper: SessionKeeper,
}

async fn rig() -> Rig {
    let server = zookeeper().await;
    let coord = coord::connect(&server.url()).await.expect("it is up");
    let registry = Registry::new(&coord, "/dubbo").expect("a good name").with_layout(DubboLayout::new());
    let orders = DubboService::new(&coord, "/dubbo", INTERFACE).expect("a good name");
    let dubbo = Java::start("DubboNodes.java", &server, &[INTERFACE]).await;
    let keeper = SessionKeeper::new(&coord, SessionOptions::default());
    Rig { server, dubbo, registry, orders, keeper }
}

/// Waits until the view shows what is wanted.
async fn until(view: &Discovery, wanted: impl Fn(&[Instance]) -> bool + Send + Sync) -> Vec<Instance> {
    timeout(SOON, async {
        loop {
            let shown = view.instances();
            if wanted(&shown) {
                return shown.to_vec();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("something else is wanted: {:?}", view.instances()))
}

/// A consumer was there first: its client made the directories, and left its address in each.
#[tokio::test(flavor = "multi_thread")]
async fn dubbo_finds_our_provider_where_it_looks() {
    let mut rig = rig().await;
    for category in ["providers", "configurators", "routers"] {
        assert_eq!(rig.dubbo.ask(&format!("subscribe {category}")).await, "subscribed");
    }
    let ours = Instance::new(INTERFACE, "10.0.0.7:20880", "10.0.0.7", 20880)
        .with_label("application", "rust shop")
        .with_label("methods", "pay,refund")
        .with_registered_at(std::time::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
    let me = rig.registry.register(&rig.keeper, ours.clone()).await.unwrap();
    let url = |more: &str| {
        format!(
            "dubbo://10.0.0.7:20880/com.shop.Orders?application=rust shop&{more}dynamic=true&\
             interface=com.shop.Orders&methods=pay,refund&side=provider&timestamp=1700000000123"
        )
    };
    assert_eq!(rig.dubbo.ask("list providers").await, url(""));

    // At a new key, and the old one goes: Dubbo's consumers look at nothing else.
    me.update(ours.with_status(Status::Draining)).await.unwrap();
    rig.dubbo.ask_until("list providers", &url("coord.status=draining&disabled=true&")).await;
    me.close().await.unwrap();
    assert_eq!(rig.dubbo.ask("list providers").await, "");

    let consumer = rig.orders.register_consumer(&rig.keeper, "10.0.0.8", "web").unwrap();
    consumer.registered().await.unwrap();
    assert_eq!(
        rig.dubbo.ask("list consumers").await,
        "consumer://10.0.0.8/com.shop.Orders?application=web&category=consumers&check=false&\
         interface=com.shop.Orders&side=consumer"
    );
    rig.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn we_find_the_providers_of_dubbo_and_what_is_said_about_them() {
    let mut rig = rig().await;
    let view = rig.registry.discover(INTERFACE).unwrap();
    view.ready().await.unwrap();
    assert_eq!(rig.dubbo.ask(&format!("register providers {THEIRS}")).await, "registered");
    let shown = until(&view, |shown| shown.len() == 1).await;
    assert_eq!((shown[0].id(), shown[0].address(), shown[0].port()), ("10.0.0.9:20880", "10.0.0.9", 20880));
    assert_eq!((shown[0].weight(), &*shown[0].labels()["methods"]), (100, "pay,refund"));
    assert_eq!(rig.registry.services().await.unwrap(), [INTERFACE]);

    // Rules of both sides.
    let rule = |more: &str| {
        format!("override://10.0.0.9:20880/com.shop.Orders?category=configurators&dynamic=false&{more}")
    };
    assert_eq!(rig.dubbo.ask(&format!("register configurators {}", rule("weight=5"))).await, "registered");
    until(&view, |shown| shown.len() == 1 && shown[0].weight() == 5).await;
    let off: DubboUrl = rule("disabled=true").parse().unwrap();
    assert!(rig.orders.put_override(&off).await.unwrap() && !rig.orders.put_override(&off).await.unwrap());
    until(&view, |shown| shown[0].status() == Status::Disabled && shown[0].weight() == 5).await;
    assert_eq!(rig.orders.overrides().await.unwrap().len(), 2);
    assert_eq!(rig.dubbo.ask("list configurators").await, format!("{off} {}", rule("weight=5")));
    assert!(rig.orders.delete_override(&off).await.unwrap());
    assert_eq!(
        rig.dubbo.ask(&format!("unregister configurators {}", rule("weight=5"))).await,
        "unregistered"
    );
    until(&view, |shown| shown[0].is_available() && shown[0].weight() == 100).await;

    let route = "condition://0.0.0.0/com.shop.Orders?category=routers&dynamic=false&force=true&\
        rule=host+%3D+10.0.0.1+%3D%3E+host+%3D+10.0.0.9";
    assert_eq!(rig.dubbo.ask(&format!("register routers {route}")).await, "registered");
    let routes = rig.orders.routes().await.unwrap();
    assert_eq!((routes[0].kind(), routes[0].rule()), ("condition", "host = 10.0.0.1 => host = 10.0.0.9"));

    assert_eq!(rig.dubbo.ask(&format!("unregister providers {THEIRS}")).await, "unregistered");
    until(&view, <[Instance]>::is_empty).await;
    assert_eq!(rig.dubbo.ask(&format!("register providers {THEIRS}")).await, "registered");
    until(&view, |shown| shown.len() == 1).await;
    // With its session.
    drop(rig.dubbo);
    until(&view, <[Instance]>::is_empty).await;
    rig.server.stop().await.unwrap();
}
