//! Sweeps in the simulation: one thing goes wrong at one place, for every place there is.

use std::{collections::BTreeSet, time::Duration};

use coord_conformance::sim::{Kind, Run, Scenario, Setup, Sweep, calls, run, scenarios, shut_down_at};

mod workspace;

/// Runs it, and fails if a rule is broken.
fn holds(setup: &Setup) -> Run {
    let run = run(setup).expect("a run");
    if let Some(violation) = run.violations.first() {
        panic!("{} with {:?}: {}", setup.scenario.name, setup.sweep, violation.explain(&run.history));
    }
    run
}

/// Drops the nth call of the first client after each number of polls in turn; how many there were.
fn dropped_at_every_poll(scenario: &'static Scenario, seed: u64, call: u64) -> usize {
    let dropped = |polls: &usize| {
        let sweep = Sweep { drop_after: Some((call, *polls)), ..Sweep::default() };
        let run = holds(&Setup::calm(scenario, seed, sweep));
        // Otherwise it ended before, or there is no such call.
        run.tally.faults[Kind::Cancel as usize] > 0
    };
    (1..).take_while(dropped).count()
}

/// Calls of a recipe at work are dropped after every number of polls.
#[test]
fn every_future_is_dropped_at_every_poll() {
    let mut dropped = 0;
    for scenario in scenarios::ALL {
        for (seed, call) in (0..6).flat_map(|seed| (1..=12).map(move |call| (seed, call))) {
            dropped += dropped_at_every_poll(scenario, seed, call);
        }
    }
    assert!(dropped > 900, "only {dropped} places");
}

/// Every call of every recipe is dropped after every number of polls: it can be made again, the others go on, and nothing
/// is left over.
#[test]
fn every_call_of_every_recipe_is_dropped_at_every_poll() {
    for call in calls::all() {
        let dropped: usize = (0..4).map(|seed| dropped_at_every_poll(call, seed, 1)).sum();
        assert!(dropped > 0, "{} was never dropped", call.name);
    }
}

/// The sweep above knows all of them.
#[test]
fn no_call_of_a_recipe_is_left_out() {
    let recipes = workspace::root().join("recipes/src");
    let mut written = BTreeSet::new();
    for file in workspace::files(&recipes, &["rs"]) {
        let shown = workspace::shown(&file);
        let shown = shown.trim_start_matches("recipes/src/");
        let names = workspace::read(&file);
        let names = names.lines().filter_map(|line| line.trim().strip_prefix("pub async fn "));
        let name = |line: &str| line.split(['(', '<']).next().map(|name| format!("{shown}::{name}"));
        written.extend(names.filter_map(name));
    }
    let swept: BTreeSet<String> = calls::all().iter().map(|call| call.name.to_owned()).collect();
    let differ: Vec<_> = written.symmetric_difference(&swept).collect();
    assert!(
        written.len() > 60 && differ.is_empty(),
        "write these into conformance/src/sim/calls, or take them out: {differ:?}"
    );
}

/// The reply of every call to the store is lost.
#[test]
fn every_reply_is_lost_once() {
    let mut lost = 0;
    for scenario in scenarios::ALL {
        for nth in 1.. {
            let sweep = Sweep { lose_reply: Some(nth), ..Sweep::default() };
            let run = holds(&Setup::calm(scenario, 7, sweep));
            if run.tally.faults[Kind::ReplyLost as usize] == 0 {
                break;
            }
            lost += 1;
        }
    }
    assert!(lost > 200, "only {lost} places");
}

/// The reply of every call is lost, and the recipe is dropped while it backs off.
#[test]
fn every_back_off_is_cancelled() {
    let mut cancelled = 0;
    for scenario in scenarios::ALL {
        for nth in 1..=12 {
            for late in [805, 815, 825, 840] {
                let drop_at = Some(Duration::from_millis(late));
                let sweep = Sweep { lose_reply: Some(nth), drop_at, ..Sweep::default() };
                let run = holds(&Setup::calm(scenario, 7, sweep));
                cancelled += run.tally.faults[Kind::Cancel as usize];
            }
        }
    }
    assert!(cancelled > 100, "only {cancelled} places");
}

/// The runtime is shut down in the middle of everything: nothing panics, nothing hangs.
#[test]
fn the_runtime_is_shut_down_at_every_moment() {
    for scenario in scenarios::ALL {
        for moment in (0..900).step_by(3) {
            let setup = Setup::calm(scenario, 3, Sweep::default());
            shut_down_at(&setup, Duration::from_millis(moment)).unwrap();
        }
    }
}
