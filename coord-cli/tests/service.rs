//! `coord service` on the memory store, within this process.

use clap::Parser;
use coord::{
    Coord, SessionKeeper, SessionOptions,
    registry::{DubboLayout, DubboService, Instance, Registry},
};
use coord_cli::{Cli, run};
use serde_json::{Value, json};

/// Runs `coord service ARGS` on the named store; what it wrote, and its exit code.
async fn service(store: &str, args: &[&str]) -> (String, u8) {
    let url = format!("--url=memory:{store}");
    let cli = Cli::try_parse_from([&["coord", &url, "service"], args].concat()).expect("arguments");
    let mut out = Vec::new();
    let code = run(cli, &mut out).await;
    (String::from_utf8(out).expect("text"), code)
}

/// A store of this name, and its registry.
async fn open(store: &str) -> (Coord, Registry) {
    let coord = coord::connect(&format!("memory:{store}")).await.expect("memory");
    let registry = Registry::new(&coord, "/services").expect("a registry");
    (coord, registry)
}

#[tokio::test]
async fn a_permanent_instance_is_written_shown_and_removed() {
    let (_store, registry) = open("permanent").await;
    let address = ["--address", "10.0.0.7", "--port", "8080"];
    let all = [
        &["register", "billing", "--permanent", "--id", "b1", "--tls-port", "8443", "--weight", "50"],
        &address[..],
        &["--zone", "eu", "--label", "team=pay", "--payload", r#"{"v":1}"#],
    ]
    .concat();
    assert_eq!(
        service("permanent", &[&all[..], &["-o", "plain"]].concat()).await,
        ("/services/billing/b1\n".into(), 0)
    );
    // Once more the same is fine, and something else is not.
    assert_eq!(service("permanent", &all).await.1, 0);
    let other = [&["register", "billing", "--permanent", "--id", "b1"], &address[..]].concat();
    assert_eq!(service("permanent", &other).await.1, 3);

    let (text, code) = service("permanent", &["list", "billing", "-o", "table"]).await;
    assert_eq!(
        (text.as_str(), code),
        (
            "ID  ADDRESS        TLS PORT  WEIGHT  ZONE  STATUS  KIND       LABELS\n\
             b1  10.0.0.7:8080  8443      50      eu    up      permanent  team=pay\n",
            0
        )
    );
    assert_eq!(service("permanent", &["list", "billing", "-o", "plain"]).await.0, "b1\t10.0.0.7:8080\tup\n");
    let (text, _) = service("permanent", &["list", "billing", "-o", "jsonl"]).await;
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&shown["id"], &shown["payload"], &shown["tls_port"]),
        (&json!("b1"), &json!({"v": 1}), &json!(8443))
    );
    assert_eq!((&shown["labels"], &shown["kind"]), (&json!({"team": "pay"}), &json!("permanent")));

    assert_eq!(service("permanent", &["drain", "billing", "b1"]).await.1, 0);
    assert_eq!(
        service("permanent", &["list", "billing", "-o", "plain"]).await.0,
        "b1\t10.0.0.7:8080\tdraining\n"
    );
    assert_eq!(service("permanent", &["drain", "billing", "b2"]).await.1, 1);
    assert_eq!(service("permanent", &["unregister", "billing", "b1"]).await.1, 0);
    assert_eq!(service("permanent", &["unregister", "billing", "b1"]).await.1, 1);
    assert_eq!(service("permanent", &["list", "billing", "-o", "plain"]).await, (String::new(), 1));
    assert!(registry.instances("billing").await.unwrap().instances.is_empty());
}

#[tokio::test]
async fn services_are_listed_with_how_many_are_available() {
    let (store, registry) = open("services").await;
    let keeper = SessionKeeper::new(&store, SessionOptions::default());
    let mut kept = Vec::new();
    for (name, id, weight) in [("billing", "1", 100), ("billing", "2", 0), ("orders", "1", 100)] {
        let instance = Instance::new(name, id, "10.0.0.7", 80).with_weight(weight);
        kept.push(registry.register(&keeper, instance).await.unwrap());
    }
    assert_eq!(service("services", &["list", "-o", "plain"]).await, ("billing\norders\n".into(), 0));
    let (text, _) = service("services", &["list", "-o", "table"]).await;
    assert_eq!(text, "NAME     INSTANCES  AVAILABLE\nbilling  2          1\norders   1          1\n");
    let (text, _) = service("services", &["list", "-o", "json"]).await;
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["services"][0], json!({"name": "billing", "instances": 2, "available": 1}));

    // What lives with its process is its process's.
    for command in ["drain", "unregister"] {
        assert_eq!(service("services", &[command, "orders", "1"]).await.1, 3, "{command}");
    }
    let theirs = ["register", "orders", "--id", "1", "--address", "10.0.0.8", "--port", "80"];
    assert_eq!(service("services", &theirs).await.1, 3, "somebody has the id");
    assert_eq!(registry.instances("orders").await.unwrap().instances[0].address(), "10.0.0.7");
}

#[tokio::test]
async fn what_is_no_instance_is_left_out() {
    let (store, _) = open("malformed").await;
    store.put("/services/billing/bad", "").await.unwrap();
    store.put("/services/billing/good", r#"{"address":"10.0.0.7","port":80}"#).await.unwrap();
    let shown = service("malformed", &["list", "billing", "-o", "plain"]).await;
    assert_eq!(shown, ("good\t10.0.0.7:80\tup\n".into(), 0));
}

#[tokio::test]
async fn in_dubbos_layout_an_override_drains() {
    let (store, _) = open("dubbo").await;
    let registry = Registry::new(&store, "/dubbo").unwrap().with_layout(DubboLayout::new());
    let keeper = SessionKeeper::new(&store, SessionOptions::default());
    let id = "10.0.0.7:20880?version=1.0.0";
    let orders = Instance::new("com.shop.Orders", id, "10.0.0.7", 20880).with_label("version", "1.0.0");
    let _me = registry.register(&keeper, orders).await.unwrap();
    let dubbo = |args: &'static [&'static str]| service("dubbo", args);
    assert_eq!(dubbo(&["list", "--layout", "dubbo", "-o", "plain"]).await.0, "com.shop.Orders\n");
    assert_eq!(
        dubbo(&["drain", "com.shop.Orders", "10.0.0.7:20880?version=1.0.0", "--layout", "dubbo"]).await.1,
        0
    );
    let (text, _) = dubbo(&["list", "com.shop.Orders", "--layout=dubbo", "-o", "plain"]).await;
    assert_eq!(text, format!("{id}\t10.0.0.7:20880\tdisabled\n"));
    let overrides =
        DubboService::new(&store, "/dubbo", "com.shop.Orders").unwrap().overrides().await.unwrap();
    assert_eq!((overrides.len(), overrides[0].parameter("version")), (1, Some("1.0.0")));
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_written() {
    let (store, _) = open("bad").await;
    let address = ["--address", "h", "--port", "1"];
    for args in [
        &["register"][..],
        &["register", "billing"],
        &["register", "billing", "--port", "0"],
        &["register", "billing", "--port", "70000"],
        &["register", "billing", "--port", "1", "--label", "=x"],
        &["register", "billing", "--port", "1", "--payload", "{"],
        &["register", "billing", "--port", "1", "--permanent", "--", "true"],
        &["list", "--layout", "zoo"],
        &["list", "--root", "/a/../b"],
        &["watch"],
        &["drain", "billing"],
    ] {
        let error = Cli::try_parse_from([&["coord", "service"], args].concat()).expect_err("refused");
        assert_eq!(error.exit_code(), 2, "{args:?}");
    }
    for args in [&["billing", "--weight", "1000001"][..], &[""], &["billing", "--id", ""]] {
        let args = [&["register", "--permanent"], args, &address[..]].concat();
        assert_eq!(service("bad", &args).await.1, 2, "{args:?}");
    }
    let slash = [&["register", "a/b", "--permanent", "--layout", "xdiscovery"], &address[..]].concat();
    assert_eq!(service("bad", &slash).await.1, 2);
    assert!(store.list("/").await.unwrap().children.is_empty());
}
