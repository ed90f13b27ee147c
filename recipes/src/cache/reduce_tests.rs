//! The reducer on good and on hostile sequences.

use coord_api::{Meta, Version};

use super::*;

fn key(name: &str) -> Key {
    Key::parse(&format!("/d/{name}")).unwrap()
}

/// Created by `created`, last changed by `modified`, and its value says so.
fn entry(name: &str, created: u64, modified: u64) -> Entry {
    let meta = Meta::new(Revision::new(created), Revision::new(modified), Version::new(0), None);
    Entry::new(key(name), format!("{created}-{modified}").into(), meta)
}

fn snapshot(revision: u64, entries: &[Entry]) -> WatchEvent {
    WatchEvent::Snapshot { entries: entries.to_vec(), revision: Revision::new(revision) }
}

fn delete(name: &str, revision: u64) -> WatchEvent {
    WatchEvent::Delete { key: key(name), revision: Revision::new(revision) }
}

fn put(old: Option<Entry>, new: Entry) -> Change {
    Change::Put { old, new }
}

fn loaded(revision: u64, entries: &[Entry]) -> State {
    let mut state = State::default();
    assert_eq!(state.apply(snapshot(revision, entries)), Effect::Loaded);
    state
}

#[test]
fn a_key_comes_changes_and_goes() {
    let mut state = loaded(10, &[]);
    let (first, second) = (entry("a", 11, 11), entry("a", 11, 12));
    assert_eq!(state.apply(WatchEvent::Put(first.clone())), Effect::Changed(put(None, first.clone())));
    assert_eq!(
        state.apply(WatchEvent::Put(second.clone())),
        Effect::Changed(put(Some(first), second.clone()))
    );
    assert_eq!(state.apply(delete("a", 13)), Effect::Changed(Change::Delete { old: second }));
    assert!(state.entries.is_empty());
    assert_eq!(state.revision, Revision::new(13));
}

#[test]
fn a_transaction_changes_many_keys_at_one_revision() {
    let mut state = loaded(10, &[entry("a", 1, 1)]);
    let (b, c) = (entry("b", 11, 11), entry("c", 11, 11));
    assert_eq!(state.apply(WatchEvent::Put(b.clone())), Effect::Changed(put(None, b)));
    assert_eq!(state.apply(delete("a", 11)), Effect::Changed(Change::Delete { old: entry("a", 1, 1) }));
    assert_eq!(state.apply(WatchEvent::Put(c.clone())), Effect::Changed(put(None, c)));
}

#[test]
fn repeated_events_say_nothing() {
    let mut state = loaded(10, &[entry("a", 1, 1)]);
    let b = entry("b", 11, 11);
    assert_ne!(state.apply(WatchEvent::Put(b.clone())), Effect::None);
    assert_eq!(state.apply(WatchEvent::Put(b.clone())), Effect::None);
    assert_ne!(
        state.apply(delete("b", 11)),
        Effect::None,
        "where a store does not tell the revision of a deletion"
    );
    assert_eq!(state.apply(delete("b", 11)), Effect::None);
    assert_eq!(state.apply(WatchEvent::Put(b)), Effect::None, "it must not come back");
    assert_ne!(state.apply(WatchEvent::Put(entry("b", 12, 12))), Effect::None, "made anew it does");
    assert_eq!(state.apply(delete("b", 11)), Effect::None, "an old deletion does not hit the new key");
    assert_eq!(state.apply(delete("never", 13)), Effect::None);
}

#[test]
fn nothing_is_told_before_the_first_snapshot() {
    let mut state = State::default();
    assert_eq!(state.apply(WatchEvent::Put(entry("a", 5, 5))), Effect::None);
    assert_eq!(state.apply(delete("a", 6)), Effect::None);
    assert_eq!(state.apply(WatchEvent::Progress(Revision::new(7))), Effect::None);
    assert_eq!(
        state.apply(snapshot(3, &[entry("a", 2, 2)])),
        Effect::Loaded,
        "nothing was seen that it could be behind"
    );
}

#[test]
fn a_gap_is_told_as_the_whole_difference() {
    let (a, b, c) = (entry("a", 1, 1), entry("b", 2, 2), entry("c", 3, 3));
    let mut state = loaded(10, &[a.clone(), b.clone(), c.clone()]);
    let (b2, d) = (entry("b", 2, 20), entry("d", 21, 21));
    assert_eq!(
        state.apply(snapshot(30, &[b2.clone(), c.clone(), d.clone()])),
        Effect::Resynced(vec![Change::Delete { old: a }, put(Some(b), b2), put(None, d)])
    );
    let same: Vec<Entry> = state.entries.values().cloned().collect();
    assert_eq!(state.apply(snapshot(31, &same)), Effect::Resynced(vec![]));
}

/// BB-152 (CURATOR-391): made anew while nobody looked, a key has the same version, and is another key.
#[test]
fn a_key_made_anew_in_a_gap_is_a_change() {
    let (old, new) = (entry("a", 1, 1), entry("a", 20, 20));
    let mut state = loaded(10, std::slice::from_ref(&old));
    assert_eq!(old.meta.version, new.meta.version);
    assert_eq!(
        state.apply(snapshot(30, std::slice::from_ref(&new))),
        Effect::Resynced(vec![put(Some(old), new)])
    );
}

/// BB-145: a server that loaded an old state does not take the cache back in time.
#[test]
fn a_snapshot_from_the_past_is_refused() {
    let a = entry("a", 1, 1);
    let mut state = loaded(10, std::slice::from_ref(&a));
    assert_eq!(state.apply(snapshot(9, &[])), Effect::Behind);
    assert_eq!((state.revision, state.entries.len()), (Revision::new(10), 1));
    assert_eq!(state.apply(snapshot(10, &[a])), Effect::Resynced(vec![]));
}

#[test]
fn events_from_the_past_are_known() {
    let mut state = loaded(10, &[entry("a", 1, 8)]);
    assert_eq!(state.apply(WatchEvent::Put(entry("a", 1, 7))), Effect::None);
    assert_eq!(state.apply(WatchEvent::Put(entry("gone", 5, 5))), Effect::None);
    assert_eq!(state.apply(delete("a", 9)), Effect::None);
    assert_eq!(state.apply(WatchEvent::Progress(Revision::new(4))), Effect::None);
    assert_eq!((state.revision, state.entries.len()), (Revision::new(10), 1));
}

#[test]
fn a_snapshot_that_was_given_out_does_not_change() {
    let mut state = loaded(10, &[entry("a", 1, 1)]);
    let given = Arc::clone(&state.entries);
    state.apply(WatchEvent::Put(entry("b", 11, 11)));
    assert_eq!((given.len(), state.entries.len()), (1, 2));
}

/// Whatever is repeated, gapped or sent again from the past: whoever replays the effects has the state of the store.
#[test]
fn effects_replayed_are_the_state() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap() % below
    };
    for _ in 0..200 {
        let (mut store, mut told) = (BTreeMap::new(), Vec::new());
        let mut state = loaded(1, &[]);
        let mut copy: BTreeMap<Key, Entry> = BTreeMap::new();
        let mut replay = |effect: Effect| {
            let changes = match effect {
                Effect::Changed(change) => vec![change],
                Effect::Resynced(changes) => changes,
                Effect::None | Effect::Behind => vec![],
                Effect::Loaded => panic!("loaded twice"),
            };
            for change in changes {
                assert_eq!(copy.get(change.key()), change.before(), "the old state is what was told before");
                match change {
                    Change::Put { new, .. } => drop(copy.insert(new.key.clone(), new)),
                    Change::Delete { old } => drop(copy.remove(&old.key)),
                }
            }
            copy.clone()
        };
        for revision in 2..60 {
            let name = ["a", "b", "c", "d"][draw(4)];
            let known: Option<&Entry> = store.get(&key(name));
            let event = match (draw(3), known) {
                (0, Some(_)) => {
                    store.remove(&key(name));
                    delete(name, revision)
                }
                (_, known) => {
                    let created = known.map_or(revision, |known| known.meta.created.get());
                    let new = entry(name, created, revision);
                    store.insert(new.key.clone(), new.clone());
                    WatchEvent::Put(new)
                }
            };
            let gap = draw(5) == 0;
            let event =
                if gap { snapshot(revision, &store.values().cloned().collect::<Vec<_>>()) } else { event };
            told.push(event.clone());
            assert_eq!(replay(state.apply(event)), store);
            let again = told[draw(told.len())].clone();
            // A snapshot of now may come again; what is older is refused or known.
            assert_eq!(replay(state.apply(again)), store);
        }
        assert_eq!(*state.entries, store);
    }
}
