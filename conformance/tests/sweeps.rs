//! Sweeps in the simulation: one thing goes wrong at one place, for every place there is.

use std::time::Duration;

use coord_conformance::sim::{Kind, Run, Setup, Sweep, run, scenarios, shut_down_at};

/// Runs it, and fails if a rule is broken.
fn holds(setup: &Setup) -> Run {
    let run = run(setup).expect("a run");
    if let Some(violation) = run.violations.first() {
        panic!("{} with {:?}: {}", setup.scenario.name, setup.sweep, violation.explain(&run.history));
    }
    run
}

/// Every call of a recipe is dropped after every number of polls.
#[test]
fn every_future_is_dropped_at_every_poll() {
    let mut dropped = 0;
    for scenario in scenarios::ALL {
        for (seed, call) in (0..6).flat_map(|seed| (1..=12).map(move |call| (seed, call))) {
            for polls in 1.. {
                let sweep = Sweep { drop_after: Some((call, polls)), ..Sweep::default() };
                let run = holds(&Setup::calm(scenario, seed, sweep));
                if run.tally.faults[Kind::Cancel as usize] == 0 {
                    // It ended before, or there is no such call.
                    break;
                }
                dropped += 1;
            }
        }
    }
    assert!(dropped > 900, "only {dropped} places");
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
