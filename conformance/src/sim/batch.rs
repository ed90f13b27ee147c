//! Many runs of one scenario, on as many threads as there are cores.

use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use coord_api::Result;
use serde::Serialize;

use super::{
    faults::Kind,
    recorder::Tally,
    run::{Run, Scenario, Setup, run},
    scenarios::QUIET,
    world::lock,
};
use crate::checkers::{Stats, Violation};

/// How many runs a thread takes at once.
const SHARE: u64 = 8;
/// With fewer runs than this, nobody can ask that every kind of fault struck.
pub const ENOUGH: u64 = 300;

/// What came out of many runs.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// How many runs.
    pub runs: u64,
    /// How long they took by their own clocks.
    pub simulated: Duration,
    /// How much happened.
    pub tally: Tally,
    /// What each rule looked at, in the order of the scenario's rules.
    pub stats: Vec<Stats>,
    /// Each run that broke a rule, with the first rule that it broke, in the order of the seeds.
    pub failures: Vec<(u64, Violation)>,
}

impl Totals {
    fn add(&mut self, seed: u64, run: Run) {
        self.runs += 1;
        self.simulated += run.simulated;
        self.tally += &run.tally;
        self.stats.resize(run.stats.len(), Stats::default());
        for (sum, stats) in self.stats.iter_mut().zip(run.stats) {
            *sum += stats;
        }
        if let Some(violation) = run.violations.into_iter().next() {
            self.failures.push((seed, violation));
        }
    }

    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.simulated += other.simulated;
        self.tally += &other.tally;
        self.stats.resize(self.stats.len().max(other.stats.len()), Stats::default());
        for (sum, stats) in self.stats.iter_mut().zip(other.stats) {
            *sum += stats;
        }
        self.failures.extend(other.failures);
    }

    /// What did not happen although it should have: runs that exercise nothing prove nothing.
    #[must_use]
    pub fn vacuous(&self, scenario: &Scenario) -> Vec<String> {
        let mut missing = Vec::new();
        if self.tally.calls < self.runs * u64::from(scenario.clients) * 4 {
            missing.push(format!("only {} calls in {} runs", self.tally.calls, self.runs));
        }
        if self.runs < ENOUGH {
            return missing;
        }
        for kind in scenario.faults.kinds() {
            if self.tally.faults[kind as usize] == 0 {
                missing.push(format!("the fault {} never struck", kind.as_str()));
            }
        }
        for ((name, _), stats) in scenario.rules.iter().zip(&self.stats) {
            if QUIET.contains(name) {
                continue;
            }
            if stats.judged == 0 {
                missing.push(format!("the rule \"{name}\" judged nothing"));
            } else if stats.contended == 0 && !scenario.quiet.contains(name) {
                missing.push(format!("nothing that the rule \"{name}\" judged could have gone wrong"));
            }
        }
        missing
    }
}

impl std::ops::AddAssign<&Self> for Tally {
    fn add_assign(&mut self, other: &Self) {
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.refused_writes += other.refused_writes;
        self.writes += other.writes;
        for (sum, count) in self.faults.iter_mut().zip(other.faults) {
            *sum += count;
        }
    }
}

/// How often each kind of fault struck.
#[derive(Clone, Debug, Serialize)]
pub struct Struck {
    /// The kind.
    pub kind: &'static str,
    /// How often.
    pub times: u64,
}

impl Tally {
    /// The faults that struck, by kind.
    pub fn struck(&self) -> impl Iterator<Item = Struck> + '_ {
        Kind::ALL.iter().map(|kind| Struck { kind: kind.as_str(), times: self.faults[*kind as usize] })
    }
}

/// Runs all `seeds` of a scenario on `threads` threads, or as many as it takes until `enough` runs have failed.
///
/// # Errors
/// As [`run`].
pub fn batch(
    scenario: &'static Scenario,
    seeds: Range<u64>,
    threads: usize,
    enough: usize,
    prepare: &(impl Fn() + Sync),
) -> Result<Totals> {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(0);
    let enough = u64::try_from(enough).unwrap_or(u64::MAX);
    let totals = Mutex::new(Ok(Totals::default()));
    let work = || {
        prepare();
        let mut own = Totals::default();
        while failed.load(Ordering::Relaxed) < enough {
            let first = next.fetch_add(SHARE, Ordering::Relaxed);
            if first >= seeds.end {
                break;
            }
            for seed in first..seeds.end.min(first + SHARE) {
                match run(&Setup::of(scenario, seed)) {
                    Ok(run) => own.add(seed, run),
                    Err(error) => {
                        *lock(&totals) = Err(error.with_context("seed", seed));
                        return;
                    }
                }
            }
            let count = u64::try_from(own.failures.len()).unwrap_or(u64::MAX);
            failed.fetch_max(count, Ordering::Relaxed);
        }
        if let Ok(all) = &mut *lock(&totals) {
            all.merge(own);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut totals = totals.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)?;
    totals.failures.sort_by_key(|(seed, _)| *seed);
    Ok(totals)
}
