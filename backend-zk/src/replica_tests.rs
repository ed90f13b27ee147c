use super::*;
use crate::paths::SENTINEL;

fn at(revision: u64) -> Option<Revision> {
    Some(Revision::new(revision))
}

fn node(modified: u64) -> Node {
    let r = Revision::new;
    Node { created: r(1), modified: r(modified), children_modified: r(1), version: 0, owner: 0, children: 0 }
}

/// A replica of `/d` in which these keys were found.
fn replica(found: &[(&str, u64)]) -> Replica {
    let mut replica = Replica::new(Paths::new(&Dir::root()), Dir::parse("/d").unwrap());
    let nodes =
        found.iter().map(|(path, modified)| ((*path).to_owned(), Bytes::from_static(b"v"), node(*modified)));
    let revision = Revision::new(found.iter().map(|(_, modified)| *modified).max().unwrap_or(0));
    replica.load(Scan { nodes: nodes.collect(), revision });
    replica
}

fn streaming(found: &[(&str, u64)]) -> Replica {
    let mut replica = replica(found);
    drop(replica.snapshot());
    replica
}

fn value(modified: u64) -> Option<(Bytes, Node)> {
    Some((Bytes::from_static(b"w"), node(modified)))
}

/// `+/d/a@5` for a put, `-/d/a@6` for a deletion.
fn told(replica: &mut Replica) -> Vec<String> {
    let text = |(revision, change): (Revision, Change)| match change {
        Change::Put(entry) => format!("+{}@{revision}", entry.key),
        Change::Delete(key) => format!("-{key}@{revision}"),
    };
    replica.take_complete().into_iter().map(text).collect()
}

#[test]
fn several_changes_of_a_key_are_one_read() {
    let mut r = streaming(&[]);
    r.changed("/d/a".into(), at(5));
    r.changed("/d/a".into(), at(6));
    assert_eq!(r.unread(), ["/d/a"]);
    r.read("/d/a", value(6));
    assert_eq!(told(&mut r), ["+/d/a@6"]);
    r.changed("/d/a".into(), at(6));
    assert!(r.unread().is_empty(), "known already");
}

#[test]
fn a_value_newer_than_another_unread_change_waits() {
    let mut r = streaming(&[("/d/a", 1), ("/d/b", 1)]);
    r.changed("/d/a".into(), at(5));
    r.read("/d/a", value(9)); // changed again at 9, after b at 7
    r.changed("/d/b".into(), at(7));
    r.changed("/d/a".into(), at(9));
    assert!(told(&mut r).is_empty(), "7 is missing");
    assert_eq!(r.unread(), ["/d/b"]);
    r.read("/d/b", value(7));
    assert_eq!(told(&mut r), ["+/d/b@7", "+/d/a@9"]);
}

#[test]
fn a_key_under_constant_change_is_still_told() {
    let mut r = streaming(&[]);
    r.changed("/d/a".into(), at(5));
    r.read("/d/a", value(7));
    for revision in [6, 7, 8] {
        r.changed("/d/a".into(), at(revision));
    }
    assert_eq!(told(&mut r), ["+/d/a@7"]);
    assert_eq!(r.unread(), ["/d/a"], "8 was not read");
}

#[test]
fn a_deletion_waits_its_turn_and_a_phantom_is_silent() {
    let mut r = streaming(&[("/d/a", 1)]);
    r.changed("/d/b".into(), at(5));
    r.deleted("/d/a", at(6));
    assert!(told(&mut r).is_empty());
    r.read("/d/b", value(5));
    assert_eq!(told(&mut r), ["+/d/b@5", "-/d/a@6"]);
    // A condition of somebody's transaction: created and deleted at once.
    r.changed("/d/phantom".into(), at(8));
    r.deleted("/d/phantom", at(8));
    assert!(r.unread().is_empty() && told(&mut r).is_empty());
}

#[test]
fn a_key_replaced_in_one_transaction_comes_back() {
    let mut r = streaming(&[("/d/a", 1)]);
    r.deleted("/d/a", at(6));
    r.changed("/d/a".into(), at(6));
    r.read("/d/a", value(6));
    assert_eq!(told(&mut r), ["+/d/a@6"]);
    // Read before its events were looked at: they tell nothing new.
    let mut r = streaming(&[("/d/a", 1)]);
    r.changed("/d/a".into(), at(5));
    r.read("/d/a", value(6));
    r.deleted("/d/a", at(6));
    r.changed("/d/a".into(), at(6));
    assert_eq!(told(&mut r), ["+/d/a@6"]);
    assert!(r.unread().is_empty());
}

#[test]
fn directories_strangers_and_the_directory_itself_are_no_keys() {
    let mut r = streaming(&[]);
    for path in ["/d", "/e/x", "/zookeeper/x", "/dd/x"] {
        r.changed(path.to_owned(), at(5));
        r.deleted(path, at(6));
    }
    assert!(r.unread().is_empty());
    r.changed("/d/dir".into(), at(5));
    r.read("/d/dir", Some((Bytes::from_static(SENTINEL), node(5))));
    assert!(told(&mut r).is_empty());
    // A key that became a directory is gone as a key.
    let mut r = streaming(&[("/d/a", 1)]);
    r.changed("/d/a".into(), at(5));
    r.read("/d/a", Some((Bytes::from_static(b"v"), Node { children: 1, ..node(5) })));
    assert_eq!(told(&mut r), ["-/d/a@5"]);
}

#[test]
fn a_snapshot_does_not_reach_beyond_what_was_not_read() {
    let mut r = replica(&[("/d/a", 9), ("/d/b", 3), ("/d/c", 2)]);
    r.changed("/d/b".into(), at(6));
    r.changed("/d/a".into(), at(9));
    r.deleted("/d/c", at(8));
    let (revision, entries) = r.snapshot();
    assert_eq!(revision, Revision::new(5), "b changed at 6");
    assert_eq!(entries.len(), 2);
    r.read("/d/b", value(6));
    assert_eq!(told(&mut r), ["+/d/b@6"]);
}

#[test]
fn without_revisions_nothing_is_told_until_all_is_read() {
    let mut r = streaming(&[("/d/a", 1)]);
    r.changed("/d/a".into(), None);
    r.changed("/d/b".into(), None);
    r.read("/d/a", value(5));
    assert!(!r.has_revisions() && told(&mut r).is_empty());
    r.read("/d/b", value(4));
    assert_eq!(told(&mut r), ["+/d/b@4", "+/d/a@5"]);
    r.deleted("/d/a", None);
    assert_eq!(told(&mut r), ["-/d/a@0"], "the mirror puts its own revision");
}
