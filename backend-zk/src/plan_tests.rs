use coord_api::{Dir, Revision};

use super::*;

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn node(version: i32, children: i32) -> Node {
    let r = Revision::new;
    Node { created: r(7), modified: r(9), children_modified: r(7), version, owner: 0, children }
}

fn paths() -> Paths {
    Paths::new(&Dir::parse("/app").unwrap())
}

fn go(txn: &Txn, found: &[(&str, Found)]) -> Plan {
    match planned(txn, found) {
        Planned::Go(plan) => plan,
        Planned::Rejected(failed) => panic!("rejected: {failed:?}"),
    }
}

fn planned(txn: &Txn, found: &[(&str, Found)]) -> Planned {
    let found = found.iter().map(|(text, found)| (key(text), *found)).collect();
    plan(txn, &found, &paths()).unwrap()
}

fn rejected(txn: &Txn, found: &[(&str, Found)]) -> Failed {
    match planned(txn, found) {
        Planned::Go(plan) => panic!("planned: {plan:?}"),
        Planned::Rejected(failed) => failed,
    }
}

#[test]
fn a_single_write_is_a_single_request() {
    let create = go(&Txn::new().create(key("/a"), "1", Lifetime::Session), &[]);
    assert!(
        matches!(create.single(), Some(Multi::Create { path, kind: NodeKind::Ephemeral, .. }) if path == "/app/a")
    );
    let absent = go(&Txn::new().check_absent(key("/a")).create(key("/a"), "1", Lifetime::Persistent), &[]);
    assert_eq!(absent.parts.len(), 1, "the creation proves the check");
    let cas = go(&Txn::new().check_version(key("/a"), Version::new(3)).update(key("/a"), "2"), &[]);
    assert!(matches!(cas.single(), Some(Multi::Set { version: Some(3), .. })));
    let leave = go(&Txn::new().delete(key("/l/lock-0000000001")), &[]);
    assert!(matches!(leave.single(), Some(Multi::Delete { version: None, .. })));
}

#[test]
fn a_put_is_decided_by_what_is_there() {
    let txn = Txn::new().put(key("/a"), "1");
    assert_eq!(keys_to_look_at(&txn).len(), 1);
    assert!(matches!(go(&txn, &[("/a", Found::Absent)]).single(), Some(Multi::Create { .. })));
    assert!(matches!(
        go(&txn, &[("/a", Found::Key(node(1, 0)))]).single(),
        Some(Multi::Set { version: None, .. })
    ));
    // An empty container would be collected with the value in it.
    let replaced = go(&txn, &[("/a", Found::Directory(node(0, 0)))]);
    assert!(matches!(
        replaced.parts.as_slice(),
        [Multi::Delete { version: Some(0), .. }, Multi::Create { kind: NodeKind::Persistent, .. }]
    ));
    let found = HashMap::from([(key("/a"), Found::Directory(node(0, 2)))]);
    assert!(plan(&txn, &found, &paths()).is_err(), "keys are below");
}

#[test]
fn directories_are_absent_to_those_who_expect_a_key() {
    let directory = [("/a", Found::Directory(node(0, 0)))];
    assert_eq!(rejected(&Txn::new().update(key("/a"), ""), &directory), Failed::Op(0));
    assert_eq!(rejected(&Txn::new().delete(key("/a")), &directory), Failed::Op(0));
    assert_eq!(rejected(&Txn::new().check(Check::Exists(key("/a"))), &directory), Failed::Check(0));
    let txn = Txn::new().check_absent(key("/a")).put(key("/b"), "");
    let plan = go(&txn, &[("/a", Found::Directory(node(4, 0))), ("/b", Found::Absent)]);
    assert!(matches!(&plan.parts[0], Multi::Check { version: Some(4), .. }));
}

#[test]
fn versions_that_the_server_cannot_have_are_equal_to_none() {
    for (version, wire) in [(0, Some(0)), (5, Some(5)), (i32::MAX.unsigned_abs().into(), Some(i32::MAX))] {
        assert_eq!(wire_version(Version::new(version)), wire);
    }
    // -1 on the wire would mean: any version.
    for version in [u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX] {
        let txn = Txn::new().check_version(key("/a"), Version::new(version)).update(key("/a"), "");
        assert_eq!(rejected(&txn, &[]), Failed::Check(0), "{version}");
    }
    assert_eq!(wire_version(crate::driver::coord_version(i32::MIN)), Some(i32::MIN), "after an overflow");
}

#[test]
fn created_is_compared_and_then_guarded_by_the_version() {
    let txn = Txn::new().check(Check::Created(key("/a"), Revision::new(7))).put(key("/b"), "");
    let found = [("/a", Found::Key(node(3, 0))), ("/b", Found::Absent)];
    let plan = go(&txn, &found);
    assert!(matches!(&plan.parts[0], Multi::Check { version: Some(3), .. }));
    assert_eq!(plan.blame(0, &Fault::BadVersion), Step::Created(0));
    let other = Txn::new().check(Check::Created(key("/a"), Revision::new(8))).put(key("/b"), "");
    assert_eq!(rejected(&other, &found), Failed::Check(0));
    assert_eq!(rejected(&txn, &[("/a", Found::Absent), ("/b", Found::Absent)]), Failed::Check(0));
}

#[test]
fn absence_is_proven_by_a_creation_that_is_taken_back() {
    let txn = Txn::new().check_absent(key("/gate")).put(key("/b"), "v");
    let plan = go(&txn, &[("/b", Found::Key(node(0, 0)))]);
    assert!(matches!(plan.parts.as_slice(), [Multi::Create { .. }, Multi::Delete { .. }, Multi::Set { .. }]));
    assert_eq!(plan.blame(0, &Fault::NodeExists), Step::Absent(0));
    assert_eq!(plan.result(0, &[0, 1, 2]), Some(2), "the result of the write, not of the proof");
    let known = [("/gate", Found::Key(node(0, 0))), ("/b", Found::Absent)];
    assert_eq!(rejected(&txn, &known), Failed::Check(0));
    let both = Txn::new().check_absent(key("/a")).create(key("/a"), "", Lifetime::Persistent);
    assert_eq!(rejected(&both, &[("/a", Found::Key(node(0, 0)))]), Failed::Check(0));
}

#[test]
fn a_merged_check_is_blamed_for_the_version_and_the_write_for_children() {
    let plan = go(&Txn::new().check_version(key("/a"), Version::new(0)).delete(key("/a")), &[]);
    assert!(plan.single().is_some());
    assert_eq!(plan.blame(0, &Fault::BadVersion), Step::Version(0));
    assert_eq!(plan.blame(0, &Fault::NoNode), Step::Version(0));
    assert_eq!(plan.blame(0, &Fault::NotEmpty), Step::Delete(0));
    assert_eq!(plan.result(0, &['x']), Some('x'));
}

#[test]
fn only_what_may_be_a_directory_is_looked_at() {
    let looked = |txn: Txn| keys_to_look_at(&txn).len();
    assert_eq!(
        looked(Txn::new().delete(key("/l/_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001"))),
        0
    );
    assert_eq!(looked(Txn::new().delete(key("/l/x"))), 1);
    assert_eq!(looked(Txn::new().check_version(key("/x"), Version::new(1)).delete(key("/x"))), 0);
    assert_eq!(looked(Txn::new().create(key("/x"), "", Lifetime::Persistent).check_absent(key("/y"))), 0);
    assert_eq!(looked(Txn::new().check_exists(key("/x")).update(key("/y"), "")), 2);
}
