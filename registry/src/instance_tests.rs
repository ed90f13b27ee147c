use super::*;

fn instance() -> Instance {
    Instance::new("billing", "b1", "10.0.0.7", 8080)
}

#[test]
fn what_is_out_of_bounds_is_refused_with_service_and_id() {
    let long = "x".repeat(TEXT_MAX + 1);
    let many = (0..=LABELS_MAX).fold(instance(), |it, n| it.with_label(n.to_string(), ""));
    let cases = [
        (Instance::new("", "b1", "h", 1), ErrorKind::InvalidArgument),
        (Instance::new("billing", "", "h", 1), ErrorKind::InvalidArgument),
        (Instance::new("billing", "b1", "", 1), ErrorKind::InvalidArgument),
        (Instance::new("billing", "b1", "a host", 1), ErrorKind::InvalidArgument),
        (Instance::new("billing", "b1", "h\n", 1), ErrorKind::InvalidArgument),
        (Instance::new("billing", "b1", "h", 0), ErrorKind::InvalidArgument),
        (instance().with_tls_port(0), ErrorKind::InvalidArgument),
        (instance().with_label("", "x"), ErrorKind::InvalidArgument),
        (Instance::new("billing", long.clone(), "h", 1), ErrorKind::LimitExceeded),
        (instance().with_zone(long), ErrorKind::LimitExceeded),
        (instance().with_weight(WEIGHT_MAX + 1), ErrorKind::LimitExceeded),
        (instance().with_label("x".repeat(LABEL_NAME_MAX + 1), ""), ErrorKind::LimitExceeded),
        (instance().with_label("x", "y".repeat(LABEL_VALUE_MAX + 1)), ErrorKind::LimitExceeded),
        (instance().with_payload(&"z".repeat(PAYLOAD_MAX)).unwrap(), ErrorKind::LimitExceeded),
        (many, ErrorKind::LimitExceeded),
    ];
    for (bad, kind) in cases {
        let error = bad.validate().expect_err(&format!("{bad:?}"));
        assert_eq!(error.kind(), kind, "{bad:?}: {error}");
        assert!(error.context().any(|(name, _)| name == "service"), "{error}");
    }
    instance().with_weight(0).with_tls_port(8443).validate().unwrap();
}

#[test]
fn a_payload_of_another_type_is_told_and_none_is_null() {
    let error = instance().with_payload(&7).unwrap().payload::<String>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("b1"), "{error}");
    assert_eq!(instance().payload::<Option<String>>().unwrap(), None);
    assert!(instance().payload::<String>().is_err());
    let keys_are_no_text = BTreeMap::from([(vec![1], 2)]);
    assert_eq!(instance().with_payload(&keys_are_no_text).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn it_goes_through_serde_unchanged_and_shows_no_payload() {
    let full = instance()
        .with_tls_port(8443)
        .with_zone("z")
        .with_label("a", "b")
        .with_payload(&"secret")
        .unwrap()
        .with_kind(Kind::Permanent)
        .with_status(Status::Disabled);
    let json = serde_json::to_string(&full).unwrap();
    assert_eq!(serde_json::from_str::<Instance>(&json).unwrap(), full);
    assert!(!format!("{full:?}").contains("secret"));
}

#[test]
fn a_change_of_one_clone_leaves_the_others() {
    let one = instance();
    let other = one.clone().with_weight(1);
    assert_eq!((one.weight(), other.weight()), (WEIGHT_DEFAULT, 1));
    let later = one.clone().with_registered_at(now() + Duration::from_secs(5));
    assert!(later != one && later.says_the_same(&one) && !later.says_the_same(&other));
}
