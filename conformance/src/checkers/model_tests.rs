//! Histories of correct models pass; with one event changed, most are caught. What is let through is stated.

use std::{collections::BTreeMap, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    Event, History, Terms, check_all,
    facts::{Applied, Hold, Line, Mode, Queue, Stored, Watch, What, Why},
};

const SEEDS: u64 = 300;

fn record(history: &mut History, what: impl Into<What>) {
    let at = history.duration() + Duration::from_millis(1);
    history.record(at, 0, what);
}

fn is_right(history: &History) -> bool {
    check_all(history, &Terms::default()).1.is_empty()
}

/// Checks that all histories of a model are right, and how many of a hundred are caught that `mutate` changed.
#[track_caller]
fn caught(model: fn(&mut StdRng) -> History, mutate: fn(&mut Vec<Event>, &mut StdRng) -> bool) -> u64 {
    let (mut changed, mut caught) = (0, 0);
    for seed in 0..SEEDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let history = model(&mut rng);
        let (stats, violations) = check_all(&history, &Terms::default());
        assert!(violations.is_empty(), "seed {seed}: {}", violations[0].explain(&history));
        assert!(stats.values().any(|stats| stats.judged > 10), "seed {seed} did nothing");
        let mut events = history.events().to_vec();
        if mutate(&mut events, &mut rng) {
            changed += 1;
            caught += u64::from(!is_right(&events.into_iter().collect()));
        }
    }
    assert!(changed > SEEDS / 2, "only {changed} could be changed");
    caught * 100 / changed
}

/// A place among the events for which `of` is true.
fn pick(events: &[Event], rng: &mut StdRng, of: impl Fn(&What) -> bool) -> Option<usize> {
    let places: Vec<usize> = (0..events.len()).filter(|&at| of(&events[at].what)).collect();
    (!places.is_empty()).then(|| places[rng.random_range(0..places.len())])
}

/// A fair lock: several clients ask, wait, hold, look whether they hold, and release; some die in the line.
fn lock(rng: &mut StdRng) -> History {
    let (mut history, mut line) = (History::new(), Vec::new());
    let (mut holder, mut next) = (None, 1_u64);
    let name = || "/l".to_owned();
    for _ in 0..200 {
        match (rng.random_range(0..4), holder) {
            (0, _) if line.len() < 6 => {
                let mode = Mode::Exclusive;
                record(&mut history, Hold::Asked { ask: next, name: name(), owner: next, mode, group: None });
                record(
                    &mut history,
                    Line::Joined { name: name(), entry: next, session: next, mode, ask: Some(next) },
                );
                line.push(next);
                next += 1;
            }
            (1, None) if !line.is_empty() => {
                let ask = line[0];
                record(&mut history, Hold::Granted { ask, token: ask.into(), entry: ask });
                holder = Some(ask);
            }
            (2, Some(ask)) => record(&mut history, Hold::Believed { ask }),
            (3, Some(ask)) => {
                record(&mut history, Hold::Releasing { ask });
                record(&mut history, Line::Left { name: name(), entry: line.remove(0), why: Why::Owner });
                record(&mut history, Hold::Ended { ask, lost: false });
                holder = None;
            }
            (3, None) if line.len() > 1 => {
                let entry = line.remove(rng.random_range(0..line.len()));
                record(&mut history, Line::Left { name: name(), entry, why: Why::SessionEnded });
                record(&mut history, Hold::Refused { ask: entry });
            }
            _ => {}
        }
    }
    for entry in line {
        record(&mut history, Hold::Releasing { ask: entry });
        record(&mut history, Line::Left { name: name(), entry, why: Why::Owner });
    }
    history
}

const fn is_grant(what: &What) -> bool {
    matches!(what, What::Hold(Hold::Granted { .. }))
}

#[test]
fn a_token_of_another_grant_is_caught() {
    let rate = caught(lock, |events, rng| {
        let (Some(one), Some(other)) = (pick(events, rng, is_grant), pick(events, rng, is_grant)) else {
            return false;
        };
        let What::Hold(Hold::Granted { token, .. }) = events[one].what else { return false };
        let What::Hold(Hold::Granted { token: changed, .. }) = &mut events[other].what else { return false };
        std::mem::replace(changed, token) != token
    });
    assert_eq!(rate, 100);
}

#[test]
fn a_grant_that_comes_too_early_is_caught() {
    let rate = caught(lock, |events, rng| {
        let Some(at) = pick(events, rng, is_grant) else { return false };
        // To right before the release that let it in.
        let released = |event: &Event| matches!(event.what, What::Hold(Hold::Releasing { .. }));
        let Some(release) = events[..at].iter().rposition(released) else { return false };
        events[release..=at].rotate_right(1);
        true
    });
    assert_eq!(rate, 100);
}

#[test]
fn a_grant_out_of_the_line_is_caught() {
    let rate = caught(lock, |events, rng| {
        let Some(at) = pick(events, rng, is_grant) else { return false };
        let asked = |event: &Event| match event.what {
            What::Hold(Hold::Asked { ask, .. }) => Some(ask),
            _ => None,
        };
        let What::Hold(Hold::Granted { ask, token, entry }) = &mut events[at].what else { return false };
        // To the one behind, who has no right to it yet.
        (*ask, *token, *entry) = (*ask + 1, *token + 1, *entry + 1);
        let behind = *ask;
        events[..at].iter().any(|event| asked(event) == Some(behind))
    });
    // The one behind may be dead, or was never in the line at the time.
    assert!(rate >= 95, "{rate}");
}

#[test]
fn an_entry_that_is_not_deleted_is_caught() {
    let rate = caught(lock, |events, rng| {
        let left = pick(events, rng, |what| matches!(what, What::Line(Line::Left { .. })));
        left.is_some_and(|at| !matches!(events.remove(at).what, What::Fault(_)))
    });
    assert_eq!(rate, 100);
}

/// A store under change, and a watch that tells all, now and then by a snapshot.
fn watched(rng: &mut StdRng) -> History {
    let mut history = History::new();
    let mut keys: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    record(&mut history, Watch::Opened { watch: 1, dir: "/d/".into(), after: None });
    record(&mut history, Watch::Snapshot { watch: 1, revision: 0, entries: keys.clone() });
    let mut untold: Vec<What> = Vec::new();
    for revision in 1..60 {
        let key = format!("/d/{}", rng.random_range(0..5));
        if rng.random_bool(0.3) && keys.remove(&key).is_some() {
            record(&mut history, Stored::Gone { key: key.clone(), revision, with_session: false });
            untold.push(Watch::Deleted { watch: 1, key, revision }.into());
        } else {
            keys.insert(key.clone(), (revision, revision));
            record(&mut history, Stored::Put { key: key.clone(), revision, value: revision, session: None });
            untold.push(Watch::Put { watch: 1, key, revision, value: revision }.into());
        }
        if rng.random_bool(0.1) {
            untold.clear();
            record(&mut history, Watch::Snapshot { watch: 1, revision, entries: keys.clone() });
        }
        if rng.random_bool(0.5) {
            untold.drain(..).for_each(|what| record(&mut history, what));
        }
    }
    untold.drain(..).for_each(|what| record(&mut history, what));
    history
}

const fn is_told(what: &What) -> bool {
    matches!(what, What::Watch(Watch::Put { .. } | Watch::Deleted { .. }))
}

#[test]
fn a_change_that_a_watch_leaves_out_is_caught() {
    let rate = caught(watched, |events, rng| {
        pick(events, rng, is_told).is_some_and(|at| is_told(&events.remove(at).what))
    });
    // Right before a snapshot it is no harm.
    assert!(rate >= 85, "{rate}");
}

#[test]
fn a_change_that_a_watch_tells_twice_or_wrong_is_caught() {
    let rate = caught(watched, |events, rng| {
        let Some(at) = pick(events, rng, is_told) else { return false };
        let again = events[at].clone();
        events.insert(at, again);
        true
    });
    assert_eq!(rate, 100);
    let rate = caught(watched, |events, rng| {
        let put = pick(events, rng, |what| matches!(what, What::Watch(Watch::Put { .. })));
        let Some(at) = put else { return false };
        let What::Watch(Watch::Put { value, .. }) = &mut events[at].what else { return false };
        *value += 1;
        true
    });
    assert_eq!(rate, 100);
}

/// A queue with two priorities: items are put, taken, finished, and come back when their consumer dies.
fn queued(rng: &mut StdRng) -> History {
    let mut history = History::new();
    // Ready items by priority and order; then those in hand: the take and the item.
    let mut ready: Vec<(u32, u64)> = Vec::new();
    let mut in_hand: Vec<(u64, (u32, u64))> = Vec::new();
    let (mut item, mut take) = (0, 0);
    let name = || "/q".to_owned();
    while item < 30 || !ready.is_empty() || !in_hand.is_empty() {
        match rng.random_range(0..4) {
            0 if item < 30 => {
                let priority = rng.random_range(0..2);
                record(&mut history, Queue::Putting { name: name(), item, priority });
                record(&mut history, Queue::Put { name: name(), item, applied: Applied::Yes });
                ready.push((priority, item));
                ready.sort_unstable();
                item += 1;
            }
            1 if !ready.is_empty() => {
                let first = ready.remove(0);
                record(&mut history, Queue::Taking { name: name(), take });
                record(&mut history, Queue::Taken { take, item: first.1 });
                in_hand.push((take, first));
                take += 1;
            }
            2 if !in_hand.is_empty() => {
                let (take, _) = in_hand.swap_remove(rng.random_range(0..in_hand.len()));
                record(&mut history, Queue::Done { take, applied: Applied::Yes });
            }
            3 if !in_hand.is_empty() && rng.random_bool(0.3) => {
                let (take, item) = in_hand.swap_remove(rng.random_range(0..in_hand.len()));
                record(&mut history, Queue::Returned { take });
                ready.push(item);
                ready.sort_unstable();
            }
            _ => {}
        }
    }
    history
}

#[test]
fn an_item_that_is_lost_or_comes_twice_is_caught() {
    let rate = caught(queued, |events, rng| {
        let done = pick(events, rng, |what| matches!(what, What::Queue(Queue::Done { .. })));
        done.is_some_and(|at| matches!(events.remove(at).what, What::Queue(_)))
    });
    assert_eq!(rate, 100);
    let rate = caught(queued, |events, rng| {
        let returned = pick(events, rng, |what| matches!(what, What::Queue(Queue::Returned { .. })));
        returned.is_some_and(|at| matches!(events.remove(at).what, What::Queue(_)))
    });
    assert_eq!(rate, 100);
}

#[test]
fn items_that_change_places_are_caught() {
    let rate = caught(queued, |events, rng| {
        let is_taken = |what: &What| matches!(what, What::Queue(Queue::Taken { .. }));
        let Some(one) = pick(events, rng, is_taken) else { return false };
        let Some(behind) = events[one + 1..].iter().position(|event| is_taken(&event.what)) else {
            return false;
        };
        let (Some(first), Some(second)) = (taken(&events[one]), taken(&events[one + 1 + behind])) else {
            return false;
        };
        *taken_mut(&mut events[one]) = second;
        *taken_mut(&mut events[one + 1 + behind]) = first;
        first != second
    });
    // Only what was put before the other was taken has a place to change: about half of all pairs.
    assert!(rate >= 60, "{rate}");
}

const fn taken(event: &Event) -> Option<u64> {
    match event.what {
        What::Queue(Queue::Taken { item, .. }) => Some(item),
        _ => None,
    }
}

fn taken_mut(event: &mut Event) -> &mut u64 {
    match &mut event.what {
        What::Queue(Queue::Taken { item, .. }) => item,
        what => panic!("{what:?}"),
    }
}

#[test]
fn histories_are_written_and_read_as_lines_of_json() {
    for model in [lock, watched, queued] {
        let history = model(&mut StdRng::seed_from_u64(1));
        let lines = history.to_json_lines().unwrap();
        assert_eq!(lines.lines().count(), history.events().len());
        assert_eq!(History::from_json_lines(&lines).unwrap(), history);
    }
}

#[test]
fn tokens_of_any_epoch_are_written_and_read() {
    let mut history = History::new();
    record(&mut history, Hold::Granted { ask: 1, token: (7 << 64) + 5, entry: u64::MAX });
    assert_eq!(History::from_json_lines(&history.to_json_lines().unwrap()).unwrap(), history);
}
