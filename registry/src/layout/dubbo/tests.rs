use coord_api::{Meta, Revision, SessionId, Version};
use serde_json::json;

use super::*;
use crate::{Status, WEIGHT_DEFAULT};

const SERVICE: &str = "com.shop.Orders";

fn root() -> Dir {
    Dir::parse("/dubbo").unwrap()
}

fn at(key: Key) -> Entry {
    let at = Revision::new(7);
    let meta = Meta::new(at, at, Version::new(1), Some(SessionId::new("s")));
    // Dubbo's clients leave their address as the data.
    Entry::new(key, Bytes::from_static(b"10.9.9.9"), meta)
}

fn entry(category: &str, node: &str) -> Entry {
    at(Key::from_store(&format!("/dubbo/{SERVICE}/{category}/{node}")))
}

fn read(url: &str) -> Result<Option<Instance>> {
    provider_in(SERVICE, &encoding::encode(url))
}

/// The provider that a node of a service stands for.
pub(super) fn provider_in(service: &str, node: &str) -> Result<Option<Instance>> {
    let key = Key::from_store(&format!("/dubbo/{service}/{PROVIDERS}/{node}"));
    DubboLayout::new().decode(&root(), service, &at(key))
}

fn provider(url: &str) -> Instance {
    read(url).unwrap().unwrap()
}

/// The provider as these overrides leave it, in the order in which a view applies them.
pub(super) fn under(rules: &[&str], provider: &Instance) -> Instance {
    let layout = DubboLayout::new().with_application("shop");
    let mut rules: Vec<_> = rules
        .iter()
        .map(|rule| {
            layout.rule(&root(), SERVICE, &entry(CONFIGURATORS, &encoding::encode(rule))).unwrap().unwrap()
        })
        .collect();
    rules.sort_by(|a, b| a.rank().cmp(b.rank()));
    rules.iter().fold(provider.clone(), |instance, rule| rule.apply(instance))
}

#[test]
fn a_provider_of_dubbo_is_an_instance() {
    let plain = provider(
        "dubbo://10.0.0.1:20880/com.shop.Orders?application=shop&dynamic=true&interface=com.shop.Orders\
        &methods=a,b&side=provider&timestamp=1700000000123",
    );
    assert_eq!(
        (plain.name(), plain.id(), plain.address(), plain.port()),
        (SERVICE, "10.0.0.1:20880", "10.0.0.1", 20880)
    );
    assert_eq!((plain.weight(), plain.kind(), plain.status()), (WEIGHT_DEFAULT, Kind::Ephemeral, Status::Up));
    assert_eq!(crate::instance::millis(plain.registered_at()), 1_700_000_000_123);
    let labels: Vec<_> = plain.labels().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(labels, [("application", "shop"), ("methods", "a,b")]);

    let rich = provider(
        "tri://10.0.0.1:50051/shop/Orders?group=eu&version=1.0.0&dynamic=false&weight=7&disabled=true",
    );
    assert_eq!(rich.id(), "tri://10.0.0.1:50051/shop/Orders?group=eu&version=1.0.0");
    assert_eq!((rich.weight(), rich.kind(), rich.status()), (7, Kind::Permanent, Status::Disabled));
    assert_eq!((&*rich.labels()[DUBBO_PROTOCOL], &*rich.labels()[DUBBO_PATH]), ("tri", "shop/Orders"));
    let old = provider("dubbo://h:1/com.shop.Orders?default.weight=3&enabled=false");
    assert_eq!((old.weight(), old.status()), (3, Status::Disabled));
    assert_eq!(provider("dubbo://h:1/com.shop.Orders?weight=-1").weight(), 0);
}

#[test]
fn whatever_an_instance_says_comes_back() {
    let layout = DubboLayout::new();
    let base = || Instance::new(SERVICE, "10.0.0.7:20880", "10.0.0.7", 20880);
    for instance in [
        base(),
        Instance::new(SERVICE, "o 1&2;é", "::1", 20880).with_kind(Kind::Permanent),
        base().with_weight(0).with_zone("eu/1").with_tls_port(20443),
        base().with_status(Status::Draining),
        base().with_status(Status::Disabled),
        base().with_payload_json(json!({"a": "b&c=d;e", "ü": [1, null]})),
        base().with_label("group", "eu").with_label("version", "1.0.0").with_label("methods", "a,b"),
        base().with_label(DUBBO_PROTOCOL, "tri").with_label(DUBBO_PATH, "shop/Orders"),
    ] {
        let key = layout.key(&root(), &instance).unwrap();
        assert_eq!(layout.decode(&root(), SERVICE, &at(key)).unwrap().as_ref(), Some(&instance));
    }
}

#[test]
fn what_a_url_cannot_say_is_refused() {
    let base = || Instance::new(SERVICE, "o1", "10.0.0.7", 20880);
    for refused in [
        base().with_label("a", "b&c=d"),
        base().with_label("weight", "3"),
        base().with_label("coord.payload", "3"),
        Instance::new(SERVICE, "o1", "10.0.0.7", 0).with_tls_port(1),
        Instance::new(SERVICE, "o1", "a/b", 1),
    ] {
        let error = DubboLayout::new().key(&root(), &refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{refused:?}");
    }
    let long = base().with_label("methods", "m".repeat(NODE_MAX));
    assert_eq!(DubboLayout::new().key(&root(), &long).unwrap_err().kind(), ErrorKind::LimitExceeded);
    // Far more than a segment of our own grammar.
    let usual = base().with_label("methods", "m".repeat(1_000));
    assert!(DubboLayout::new().key(&root(), &usual).unwrap().name().len() > 1_000);
}

/// BB-205's like: the name of the key is all there is, and an error names it.
#[test]
fn what_is_no_provider_is_malformed_or_passed_over() {
    for bad in [
        "nonsense",
        "dubbo://h:port/a",
        "dubbo://h:1/a?weight=much",
        "dubbo://h:1/a?coord.payload=%7B",
        "dubbo://h:1/a?coord.tls-port=70000",
    ] {
        let error = read(bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{bad}");
        assert!(
            error
                .context()
                .any(|(name, key)| name == "key" && key.starts_with("/dubbo/com.shop.Orders/providers/"))
        );
    }
    let layout = DubboLayout::new();
    let node = encoding::encode("consumer://10.0.0.9/com.shop.Orders");
    for other in [entry(CONSUMERS, &node), entry("providers/deeper", &node)] {
        assert_eq!(layout.decode(&root(), SERVICE, &other).unwrap(), None);
        assert!(layout.rule(&root(), SERVICE, &other).unwrap().is_none());
    }
    let empty_directory = at(Key::from_store("/dubbo/com.shop.Orders/providers"));
    assert_eq!(layout.decode(&root(), SERVICE, &empty_directory).unwrap(), None);
    for bad in ["dubbo://h:1/a", "override://0.0.0.0/a?priority=high"] {
        let error = layout.rule(&root(), SERVICE, &entry(CONFIGURATORS, &encoding::encode(bad))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{bad}");
    }
}

#[test]
fn services_are_named_by_their_interfaces() {
    let layout = DubboLayout::new();
    assert_eq!(layout.service("com.shop.Orders").as_deref(), Some(SERVICE));
    assert_eq!(layout.service("a%2Fb+c").as_deref(), Some("a/b c"));
    for none in ["metadata", "config", "mapping", "%zz"] {
        assert_eq!(layout.service(none), None, "{none}");
    }
    assert_eq!(layout.directory(&root(), "a/b c").unwrap().as_str(), "/dubbo/a%2Fb+c");
}

#[test]
fn overrides_change_weight_and_take_out() {
    let orders = provider("dubbo://10.0.0.1:20880/com.shop.Orders?application=backend");
    let weight = |rules: &[&str]| under(rules, &orders).weight();
    assert_eq!(
        weight(&["override://10.0.0.1:20880/com.shop.Orders?category=configurators&dynamic=false&weight=50"]),
        50
    );
    assert_eq!(weight(&["override://0.0.0.0/com.shop.Orders?weight=50"]), 50);
    let out = under(&["override://10.0.0.1:20880/com.shop.Orders?disabled=true"], &orders);
    assert_eq!((out.status(), out.id(), out.kind()), (Status::Disabled, orders.id(), orders.kind()));

    // In force only where they say so.
    for other in [
        "override://10.0.0.2:20880/com.shop.Orders?weight=50",
        "override://10.0.0.1:20881/com.shop.Orders?weight=50",
        "override://10.0.0.1/com.shop.Orders?weight=50", // that is a consumer
        "override://0.0.0.0/com.shop.Orders?weight=50&enabled=false",
        "override://0.0.0.0/com.shop.Orders?weight=50&application=other",
        "override://0.0.0.0/com.shop.Orders?weight=50&side=provider",
        "override://0.0.0.0/com.shop.Orders?weight=50&group=eu",
        "override://0.0.0.0/com.shop.Orders?weight=50&~application=other",
        "override://0.0.0.0/com.shop.Orders?weight=50&providerAddresses=10.0.0.2:20880,0.0.0.0:1",
        "override://0.0.0.0/com.shop.Orders?weight=much",
    ] {
        assert_eq!(under(&[other], &orders), orders, "{other}");
    }
    for all in [
        "application=shop",
        "application=*",
        "side=consumer",
        "group=*",
        "~application=backend",
        "providerAddresses=10.0.0.2,10.0.0.1:20880",
    ] {
        assert_eq!(weight(&[&format!("override://0.0.0.0/com.shop.Orders?weight=50&{all}")]), 50, "{all}");
    }
}

#[test]
fn the_last_of_several_overrides_wins() {
    let orders = provider("dubbo://10.0.0.1:20880/com.shop.Orders");
    let all = "override://0.0.0.0/com.shop.Orders?weight=10";
    let one = "override://10.0.0.1:20880/com.shop.Orders?weight=20";
    let urgent = "override://0.0.0.0/com.shop.Orders?weight=30&priority=5";
    let low = "override://0.0.0.0/com.shop.Orders?weight=40&priority=-5";
    assert_eq!(under(&[one, all], &orders).weight(), 20, "for one before for all");
    assert_eq!(under(&[urgent, all, low], &orders).weight(), 30, "by priority");
    let absent = "absent://0.0.0.0/com.shop.Orders?weight=10&retries=3";
    let seven = provider("dubbo://10.0.0.1:20880/com.shop.Orders?weight=7");
    assert_eq!((under(&[absent], &seven).weight(), under(&[absent], &orders).weight()), (7, 10));
    assert_eq!(under(&[absent], &seven).labels()["retries"], "3");
}
