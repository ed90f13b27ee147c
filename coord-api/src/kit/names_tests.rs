use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{Meta, Version};

/// A place is `p` and its number.
fn by_number(key: &Key, created: Revision) -> (Rank, Child) {
    let rank = match key.name().strip_prefix('p') {
        Some(_) => Rank::Place(created.get()),
        None => Rank::Other,
    };
    (rank, Child::new(key.clone(), None, None))
}

fn dir(path: &str) -> Dir {
    Dir::parse(path).unwrap()
}

fn entry(path: &str, created: u64) -> Entry {
    let at = Revision::new(created);
    Entry::new(Key::parse(path).unwrap(), Bytes::new(), Meta::new(at, at, Version::new(created), None))
}

fn paths(children: &[Child]) -> Vec<&str> {
    children.iter().map(|child| child.key.as_str()).collect()
}

/// A copy, and the names in it.
struct Copy {
    entries: BTreeMap<Key, Entry>,
    names: Names,
}

impl Copy {
    fn new() -> Self {
        Self { entries: BTreeMap::new(), names: Names::new(by_number) }
    }

    fn insert(&mut self, entry: Entry) {
        self.remove(&entry.key);
        self.names.insert(&dirs(&entry.key), &entry);
        self.entries.insert(entry.key.clone(), entry);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(old) = self.entries.remove(key) {
            self.names.remove(&dirs(key), &old);
        }
    }

    fn listing(&mut self, path: &str) -> Vec<Child> {
        self.names.listing(&dir(path), &self.entries)
    }
}

fn dirs(key: &Key) -> Vec<Dir> {
    let mut dirs = vec![key.parent()];
    while let Some(last) = dirs.last().filter(|dir| !dir.is_root()) {
        dirs.push(Key::from_store(last.as_str()).parent());
    }
    dirs
}

#[test]
fn places_stand_by_their_number_and_all_others_behind_them_by_name() {
    let mut copy = Copy::new();
    for (path, created) in
        [("/l/p1", 9), ("/l/z", 1), ("/l/p2", 4), ("/l/d/x", 2), ("/l/d/y", 3), ("/m/p", 1)]
    {
        copy.insert(entry(path, created));
    }
    assert_eq!(paths(&copy.listing("/l")), ["/l/p2", "/l/p1", "/l/d", "/l/z"]);
    assert_eq!(copy.names.flat_listing(&dir("/l"), &copy.entries), None, "/l/d is a directory");
    assert_eq!(copy.names.flat_listing(&dir("/m"), &copy.entries).unwrap().len(), 1);

    copy.remove(&Key::parse("/l/d/x").unwrap());
    assert_eq!(paths(&copy.listing("/l")), ["/l/p2", "/l/p1", "/l/d", "/l/z"], "one key is left in /l/d");
    copy.remove(&Key::parse("/l/d/y").unwrap());
    assert_eq!(paths(&copy.listing("/l")), ["/l/p2", "/l/p1", "/l/z"]);
    assert!(copy.names.flat_listing(&dir("/l"), &copy.entries).is_some());
}

#[test]
fn a_place_that_was_made_anew_stands_at_the_end() {
    let mut copy = Copy::new();
    copy.insert(entry("/l/p1", 1));
    copy.insert(entry("/l/p2", 2));
    assert_eq!(paths(&copy.listing("/l")), ["/l/p1", "/l/p2"]);
    copy.insert(entry("/l/p1", 3));
    assert_eq!(paths(&copy.listing("/l")), ["/l/p2", "/l/p1"]);
}

#[test]
fn directories_without_keys_cost_nothing() {
    let mut copy = Copy::new();
    for number in 0..10 {
        assert!(copy.listing(&format!("/never/{number}")).is_empty());
    }
    copy.insert(entry("/l/p1", 1));
    assert_eq!(copy.listing("/l").len(), 1);
    copy.remove(&Key::parse("/l/p1").unwrap());
    assert!(copy.names.listed.is_empty(), "{:?}", copy.names.listed);
}

#[test]
fn what_is_kept_in_order_is_what_would_be_put_in_order() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut copy = Copy::new();
    let all = ["/l/p1", "/l/p2", "/l/p3", "/l/a", "/l/p3/deep", "/l/d/p1", "/l/d/e/f", "/p9", "/l2/p1"];
    for created in 0..20_000 {
        let path = all[rng.random_range(0..all.len())];
        match rng.random_range(0..8) {
            0..4 => copy.insert(entry(path, created)),
            4..7 => copy.remove(&Key::parse(path).unwrap()),
            // A snapshot.
            _ => copy.names.clear(),
        }
        for path in ["/", "/l", "/l/d", "/l2"] {
            let kept = copy.listing(path);
            let mut afresh = Names::new(by_number);
            assert_eq!(kept, afresh.listing(&dir(path), &copy.entries), "{path} at {created}");
        }
    }
}

#[test]
fn a_round_counter_begins_with_the_oldest() {
    let name = |number: u32| {
        (Rank::Round(number), Child::new(Key::parse(&format!("/l/{number}")).unwrap(), None, None))
    };
    let other = (Rank::Other, Child::new(Key::parse("/l/a").unwrap(), None, None));
    let numbers = [1, u32::MAX, 0, u32::MAX - 1];
    let children = numbers.map(name).into_iter().chain([other]).collect();
    assert_eq!(paths(&in_order(children)), ["/l/4294967294", "/l/4294967295", "/l/0", "/l/1", "/l/a"]);
}
