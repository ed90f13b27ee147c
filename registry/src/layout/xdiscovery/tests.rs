use coord_api::{Dir, Entry, ErrorKind, Key, Meta, Revision, SessionId, Version};
use serde_json::{Value, json};

use super::*;
use crate::{Status, WEIGHT_DEFAULT};

fn root() -> Dir {
    Dir::parse("/services").unwrap()
}

fn entry(path: &str, value: impl Into<Bytes>, owner: Option<SessionId>) -> Entry {
    let at = Revision::new(7);
    let meta = Meta::new(at, at, Version::new(1), owner);
    Entry::new(Key::from_store(path), value.into(), meta)
}

fn read(layout: &XDiscoveryLayout, value: impl Into<Bytes>) -> Result<Option<Instance>> {
    layout.decode(&root(), "billing", &entry("/services/billing/b1", value, None))
}

fn written(layout: &XDiscoveryLayout, instance: &Instance) -> Value {
    serde_json::from_slice(&layout.encode(instance).unwrap()).unwrap()
}

/// What a Curator 5.4 wrote, but for the line breaks.
const CURATOR: &str = r#"{"name":"billing","id":"b1","address":"10.0.0.6","port":8081,"sslPort":8443,
    "payload":{"@class":"Dump$Pay","zone":"a","weight":5},"registrationTimeUTC":1700000000123,
    "serviceType":"PERMANENT","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},
    {"value":"address","variable":true}]},"enabled":false}"#;

#[test]
fn every_field_of_curator_is_read() {
    let instance = read(&XDiscoveryLayout::new(), CURATOR).unwrap().unwrap();
    assert_eq!((instance.name(), instance.id(), instance.address()), ("billing", "b1", "10.0.0.6"));
    assert_eq!((instance.port(), instance.tls_port()), (8081, Some(8443)));
    assert_eq!(instance.payload_json(), Some(&json!({"@class": "Dump$Pay", "zone": "a", "weight": 5})));
    assert_eq!((instance.kind(), instance.status()), (Kind::Permanent, Status::Disabled));
    assert_eq!(crate::instance::millis(instance.registered_at()), 1_700_000_000_123);
    assert_eq!(instance.labels()[URI_SPEC], "{scheme}://{address}");
    assert_eq!((instance.weight(), instance.zone()), (WEIGHT_DEFAULT, None));

    // And written as it was: no field is lost, none is new.
    let again: Value = serde_json::from_str(CURATOR).unwrap();
    assert_eq!(written(&XDiscoveryLayout::new(), &instance), again);
}

#[test]
fn every_field_of_curator_may_be_null_or_absent() {
    let nulls = r#"{"name":"billing","id":"b1","address":"h","port":null,"sslPort":null,"payload":null,
        "registrationTimeUTC":0,"serviceType":null,"uriSpec":null}"#;
    for value in [nulls, r#"{"address":"h"}"#, r#"{"address":"h","somethingNew":[1]}"#] {
        let instance = read(&XDiscoveryLayout::new(), value).unwrap().unwrap();
        assert_eq!((instance.id(), instance.port(), instance.tls_port()), ("b1", 0, None));
        assert_eq!((instance.kind(), instance.status()), (Kind::Permanent, Status::Up));
        assert!(instance.payload_json().is_none() && instance.labels().is_empty());
    }
    let owned = entry("/services/billing/b1", r#"{"address":"h"}"#, Some(SessionId::new("s")));
    let instance = XDiscoveryLayout::new().decode(&root(), "billing", &owned).unwrap().unwrap();
    assert_eq!(instance.kind(), Kind::Ephemeral);
}

#[test]
fn types_of_services_are_kinds() {
    for (service_type, kind) in [
        ("DYNAMIC", Kind::Ephemeral),
        ("DYNAMIC_SEQUENTIAL", Kind::Ephemeral),
        ("STATIC", Kind::Permanent),
        ("PERMANENT", Kind::Permanent),
    ] {
        let value = json!({"address": "h", "serviceType": service_type}).to_string();
        assert_eq!(read(&XDiscoveryLayout::new(), value).unwrap().unwrap().kind(), kind);
    }
}

#[test]
fn a_plain_instance_is_what_curator_would_have_written() {
    let instance = Instance::new("billing", "b1", "10.0.0.7", 8080)
        .with_registered_at(std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_123));
    let json = XDiscoveryLayout::new().encode(&instance).unwrap();
    assert_eq!(
        std::str::from_utf8(&json).unwrap(),
        r#"{"name":"billing","id":"b1","address":"10.0.0.7","port":8080,"sslPort":null,"payload":null,"#
            .to_owned()
            + r#""registrationTimeUTC":1700000000123,"serviceType":"DYNAMIC","uriSpec":null}"#
    );
}

#[test]
fn whatever_an_instance_says_comes_back() {
    let layout = XDiscoveryLayout::new().with_payload_class("com.shop.Metadata");
    let base = || Instance::new("billing", "b1", "10.0.0.7", 8080);
    let payloads = [
        json!(null),
        json!("text"),
        json!(true),
        json!(7),
        json!(2.5),
        json!(3_000_000_000_u64),
        json!(u64::MAX),
        json!(i64::MIN),
        json!([]),
        json!([1, "a"]),
        json!(["java.util.ArrayList", [1]]),
        json!({}),
        json!({"a": {"b": [1]}}),
        json!({"@class": "com.shop.Other", "a": 1}),
    ];
    let mut instances: Vec<_> = payloads.into_iter().map(|json| base().with_payload_json(json)).collect();
    for status in [Status::Up, Status::Draining, Status::Disabled] {
        for weight in [0, 1, WEIGHT_DEFAULT] {
            instances.push(base().with_status(status).with_weight(weight));
        }
    }
    instances.push(
        base().with_kind(Kind::Permanent).with_zone("eu").with_label("a", "b").with_label(URI_SPEC, "{x}:/"),
    );
    instances.push(Instance::new("billing", "b1", "h", 0).with_tls_port(8443));
    for instance in instances {
        let read = read(&layout, layout.encode(&instance).unwrap()).unwrap().unwrap();
        assert_eq!(read, instance);
    }
}

#[test]
fn what_a_consumer_must_not_choose_is_disabled_for_curator_too() {
    let base = Instance::new("billing", "b1", "10.0.0.7", 8080);
    let layout = XDiscoveryLayout::new();
    assert_eq!(written(&layout, &base).get("enabled"), None);
    for out in [
        base.clone().with_weight(0),
        base.clone().with_status(Status::Draining),
        base.with_status(Status::Disabled),
    ] {
        assert_eq!(written(&layout, &out)["enabled"], json!(false));
    }
    // Disabled by a Java tool that keeps our fields, or not.
    for value in [
        r#"{"address":"h","enabled":false,"coord":{"weight":50,"status":"up"}}"#,
        r#"{"address":"h","enabled":false,"coord":{"weight":50}}"#,
        r#"{"address":"h","enabled":false}"#,
    ] {
        assert_eq!(read(&layout, value).unwrap().unwrap().status(), Status::Disabled, "{value}");
    }
}

#[test]
fn the_tag_of_a_payload_is_added_and_taken_off_again() {
    let layout = XDiscoveryLayout::new().with_payload_class("com.shop.Metadata");
    let payload = |payload| {
        let instance = Instance::new("billing", "b1", "h", 1).with_payload_json(payload);
        written(&layout, &instance)["payload"].clone()
    };
    assert_eq!(payload(json!({"a": 1})), json!({"@class": "com.shop.Metadata", "a": 1}));
    assert_eq!(payload(json!({"@class": "com.shop.Other"})), json!({"@class": "com.shop.Other"}));
    assert_eq!(payload(json!([1])), json!(["java.util.ArrayList", [1]]));
    assert_eq!(payload(json!(5_000_000_000_u64)), json!(["java.lang.Long", 5_000_000_000_u64]));
    assert_eq!(payload(json!("text")), json!("text"));
}

/// BB-205, and its like: each is an error that names the key.
#[test]
fn what_is_no_instance_is_malformed() {
    let layout = XDiscoveryLayout::new();
    for value in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        r#"{"address":7}"#,
        r#"{"address":"h","port":70000}"#,
        "\u{0}",
        r#"{"address":"h","serviceType":"NEW"}"#,
    ] {
        let error = read(&layout, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{value:?}");
        assert!(error.context().any(|fact| fact == ("key", "/services/billing/b1")), "{error}");
    }
}

#[test]
fn names_are_taken_as_they_are_or_refused() {
    let layout = XDiscoveryLayout::new();
    let key = |name, id| layout.key(&root(), &Instance::new(name, id, "h", 1));
    assert_eq!(key("100%", "a b").unwrap().as_str(), "/services/100%/a b");
    for (name, id) in [("a/b", "c"), ("a", "b/c"), ("..", "c"), ("a", ""), ("a", "\n")] {
        assert_eq!(key(name, id).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name}, {id}");
    }
    let deeper = entry("/services/billing/b1/more", "x", None);
    assert_eq!(layout.decode(&root(), "billing", &deeper).unwrap(), None);
    let refused = Instance::new("a", "b", "h", 1).with_label(URI_SPEC, "{a");
    assert_eq!(layout.encode(&refused).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
