use std::net::IpAddr;

use super::*;

fn percent(percent: f64) -> Percent {
    Percent::new(percent).unwrap()
}

fn gives(rule: Rule) -> Gray {
    let set = [("rate".to_owned(), "200".to_owned())].into();
    Gray::new(rule, Alternative::Items { set, remove: BTreeSet::new() })
}

fn checked(rules: impl IntoIterator<Item = Rule>) -> Result<Vec<String>> {
    let mut grays: Vec<_> = rules.into_iter().map(gives).collect();
    check_rules(&mut grays)?;
    Ok(grays.into_iter().map(|gray| gray.rule.id).collect())
}

#[test]
fn every_condition_must_hold() {
    let rule = Rule::new("r")
        .with_labels("zone", ["a", "b"])
        .with_label("version", "2")
        .with_network("10.0.0.0/8".parse().unwrap())
        .with_network("192.168.0.1".parse().unwrap());
    let at = |ip: &str| {
        let ip: IpAddr = ip.parse().unwrap();
        Identity::new("i").with_ip(ip).with_label("zone", "b").with_label("version", "2")
    };
    assert!(rule.matches(&at("10.9.9.9")) && rule.matches(&at("192.168.0.1")));
    assert!(!rule.matches(&at("192.168.0.2")), "in no network");
    assert!(!rule.matches(&at("10.9.9.9").with_label("zone", "c")), "another zone");
    assert!(!rule.matches(&Identity { ip: None, ..at("10.9.9.9") }), "no address");
    let mut unlabelled = at("10.9.9.9");
    unlabelled.labels.remove("version");
    assert!(!rule.matches(&unlabelled), "a label is missing");
    assert!(!rule.matches(&at("10.9.9.9").with_label("version", "")), "an empty label is another value");
}

#[test]
fn the_first_rule_by_priority_and_id_decides() {
    let all = |id: &str| Rule::new(id).with_label("zone", id);
    let order = checked([all("b"), all("a"), all("z").with_priority(1)]).unwrap();
    assert_eq!(order, ["z", "a", "b"]);
}

#[test]
fn a_rule_that_can_match_nothing_is_refused() {
    for (rules, refused) in [
        (vec![Rule::new("empty")], "empty"),
        (vec![Rule::new("").with_percent(Percent::ALL)], "rule="),
        (vec![Rule::new("label").with_labels("zone", Vec::<String>::new())], "zone"),
        (vec![Rule::new("a").with_percent(Percent::ALL), Rule::new("b").with_label("zone", "x")], "rule=b"),
        (
            vec![
                Rule::new("wide").with_labels("zone", ["x", "y"]),
                Rule::new("zoned").with_label("zone", "x").with_percent(percent(5.0)),
            ],
            "rule=zoned",
        ),
        (
            vec![
                Rule::new("wide").with_network("10.0.0.0/8".parse().unwrap()),
                Rule::new("x").with_network("10.1.0.0/16".parse().unwrap()).with_label("zone", "x"),
            ],
            "rule=x",
        ),
    ] {
        let error = checked(rules).unwrap_err();
        assert_eq!(error.kind(), coord_api::ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(refused), "{error}");
    }
}

#[test]
fn rules_of_which_each_can_match_are_taken() {
    for rules in [
        [Rule::new("a").with_percent(percent(50.0)), Rule::new("b").with_percent(percent(10.0))],
        [Rule::new("a").with_label("zone", "x"), Rule::new("b").with_labels("zone", ["x", "y"])],
        [Rule::new("a").with_label("zone", "x"), Rule::new("b").with_label("rack", "x")],
        [
            Rule::new("a").with_network("10.1.0.0/16".parse().unwrap()),
            Rule::new("b").with_network("10.0.0.0/8".parse().unwrap()),
        ],
        [
            Rule::new("a").with_network("0.0.0.0/0".parse().unwrap()),
            Rule::new("b").with_percent(Percent::ALL),
        ],
    ] {
        assert!(checked(rules).is_ok());
    }
}

#[test]
fn there_are_not_more_rules_than_a_consumer_can_be_asked_to_judge() {
    let rules =
        |count: usize| (0..count).map(|id| Rule::new(format!("{id:03}")).with_label("id", format!("{id}")));
    assert!(checked(rules(RULES_MAX)).is_ok());
    let error = checked(rules(RULES_MAX + 1)).unwrap_err();
    assert_eq!(error.kind(), coord_api::ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("limit=64"), "{error}");
}

#[test]
fn what_a_rule_gives_must_fit_and_change_something() {
    let rule = || Rule::new("r").with_percent(Percent::ALL);
    let items = Content::items([("rate", "100")]);
    let document = Content::document(crate::Format::Json, "1");
    assert!(gives(rule()).check(&items).is_ok());
    assert!(gives(rule()).check(&document).is_err(), "items for a document");
    let nothing = Alternative::Items { set: BTreeMap::new(), remove: BTreeSet::new() };
    assert!(Gray::new(rule(), nothing).check(&items).is_err(), "nothing at all");
}
