use std::collections::BTreeMap;

use super::{
    Verdict, What,
    facts::{Stored, Watch},
    story::{breaks, story},
    watch::{Detail, watch},
};

fn stored(key: &str, revision: u64) -> What {
    Stored::Put { key: key.into(), revision, value: revision * 10, session: None }.into()
}

fn gone(key: &str, revision: u64) -> What {
    Stored::Gone { key: key.into(), revision, with_session: false }.into()
}

fn opened(after: Option<u64>) -> What {
    Watch::Opened { watch: 1, dir: "/d/".into(), after }.into()
}

fn put(key: &str, revision: u64) -> What {
    Watch::Put { watch: 1, key: key.into(), revision, value: revision * 10 }.into()
}

fn deleted(key: &str, revision: u64) -> What {
    Watch::Deleted { watch: 1, key: key.into(), revision }.into()
}

fn progress(revision: u64) -> What {
    Watch::Progress { watch: 1, revision }.into()
}

fn snapshot<const N: usize>(revision: u64, entries: [(&str, u64); N]) -> What {
    let entries: BTreeMap<_, _> = entries.into_iter().map(|(key, by)| (key.into(), (by, by * 10))).collect();
    Watch::Snapshot { watch: 1, revision, entries }.into()
}

/// What a watch that tells `told` is worth, when /d/a was put by 1, 2 and 4, and /d/b by 2 and deleted by 3.
fn judge<const N: usize>(detail: Detail, told: [What; N]) -> Verdict {
    let mut history = story([
        stored("/d/a", 1),
        stored("/d/a", 2),
        stored("/d/b", 2),
        stored("/elsewhere", 3),
        gone("/d/b", 3),
        stored("/d/a", 4),
    ]);
    for fact in told {
        history.record(history.duration(), 0, fact);
    }
    watch(&history, detail)
}

fn every<const N: usize>(told: [What; N]) -> Verdict {
    judge(Detail::EveryChange, told)
}

fn last<const N: usize>(told: [What; N]) -> Verdict {
    judge(Detail::LastOfSeveral, told)
}

#[test]
fn a_watch_that_tells_all_is_right() {
    let all = [
        opened(None),
        snapshot(1, [("/d/a", 1)]),
        put("/d/b", 2),
        put("/d/a", 2),
        progress(2),
        deleted("/d/b", 3),
        put("/d/a", 4),
        progress(9),
    ];
    assert_eq!(every(all.clone()).unwrap().judged, 8);
    last(all).unwrap();
    every([opened(None), snapshot(4, [("/d/a", 4)])]).unwrap();
    every([opened(Some(3)), put("/d/a", 4)]).unwrap();
    // A store that does not tell when a key went.
    every([opened(Some(2)), deleted("/d/b", 2), put("/d/a", 4)]).unwrap();
}

#[test]
fn a_snapshot_makes_up_for_a_gap() {
    every([opened(None), snapshot(1, [("/d/a", 1)]), snapshot(4, [("/d/a", 4)])]).unwrap();
    breaks(every([opened(None), snapshot(1, [("/d/a", 1)]), put("/d/a", 4)]), "watch-gap");
    breaks(every([opened(Some(1)), put("/d/a", 2), put("/d/a", 4)]), "watch-gap");
    breaks(every([opened(Some(1)), progress(2)]), "watch-gap");
    breaks(every([opened(None), put("/d/a", 1)]), "watch-gap");
}

#[test]
fn no_revision_goes_back() {
    let late = [opened(None), snapshot(2, [("/d/a", 2), ("/d/b", 2)]), progress(2), progress(1)];
    breaks(every(late), "watch-order");
    let old = [opened(None), snapshot(4, [("/d/a", 4)]), snapshot(1, [("/d/a", 1)])];
    breaks(every(old.clone()), "watch-order");
    breaks(last(old), "watch-order");
}

#[test]
fn no_change_is_told_twice() {
    let twice = [opened(Some(3)), put("/d/a", 4), put("/d/a", 4)];
    breaks(every(twice.clone()), "watch-twice");
    breaks(last(twice), "watch-twice");
    breaks(every([opened(Some(2)), deleted("/d/b", 3), deleted("/d/b", 3)]), "watch-twice");
}

#[test]
fn nothing_is_invented() {
    breaks(every([opened(Some(3)), put("/d/c", 4)]), "watch-invented");
    breaks(every([opened(Some(3)), deleted("/d/a", 4)]), "watch-invented");
    breaks(every([opened(None), snapshot(4, [("/d/a", 4), ("/d/b", 2)])]), "watch-invented");
    breaks(every([opened(None), snapshot(4, [])]), "watch-invented");
    breaks(last([opened(None), snapshot(4, [("/d/c", 4)])]), "watch-invented");
}

#[test]
fn an_open_watch_is_up_to_date_in_the_end() {
    let behind = [opened(Some(1)), put("/d/a", 2), put("/d/b", 2)];
    breaks(every(behind.clone()), "watch-final");
    breaks(last(behind.clone()), "watch-final");
    let [a, b, c] = behind;
    every([a, b, c, Watch::Closed { watch: 1 }.into()]).unwrap();
}

#[test]
fn some_stores_tell_only_the_last_of_several() {
    let few = [opened(None), snapshot(1, [("/d/a", 1)]), put("/d/a", 4)];
    last(few).unwrap();
    // Their snapshots are read key by key.
    last([opened(None), snapshot(4, [("/d/a", 2)]), put("/d/a", 4)]).unwrap_err();
    last([opened(None), snapshot(3, [("/d/a", 2)]), put("/d/a", 4)]).unwrap();
}
