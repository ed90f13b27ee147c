//! The figures of the simulation, for terminals, programs and readers.

use std::{fmt, time::Duration};

use coord_conformance::sim::{Scenario, Struck, Totals};
use serde::Serialize;

/// What is not guaranteed, and what these figures are not.
const NOT_GUARANTEED: &str = include_str!("not_guaranteed.md");

/// What came out of one scenario.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    scenario: &'static str,
    about: &'static str,
    histories: u64,
    simulated_seconds: u64,
    calls: u64,
    unknown_outcomes: u64,
    judged: usize,
    contended: usize,
    faults: Vec<Struck>,
    fenced_writes: u64,
    refused_writes: u64,
    violations: usize,
    pub(crate) vacuous: Vec<String>,
    seconds: f64,
}

impl Outcome {
    pub(crate) fn new(scenario: &Scenario, totals: &Totals, took: Duration) -> Self {
        Self {
            scenario: scenario.name,
            about: scenario.about,
            histories: totals.runs,
            simulated_seconds: totals.simulated.as_secs(),
            calls: totals.tally.calls,
            unknown_outcomes: totals.tally.unknown,
            judged: totals.stats.iter().map(|stats| stats.judged).sum(),
            contended: totals.stats.iter().map(|stats| stats.contended).sum(),
            faults: totals.tally.struck().collect(),
            fenced_writes: totals.tally.writes,
            refused_writes: totals.tally.refused_writes,
            violations: totals.failures.len(),
            vacuous: totals.vacuous(scenario),
            seconds: took.as_secs_f64(),
        }
    }

    fn struck(&self) -> u64 {
        self.faults.iter().map(|fault| fault.times).sum()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = self.histories as f64 / self.seconds;
        write!(
            f,
            "{:<14} {:>7} histories ({rate:>5.0}/s), {} simulated, {} calls ({} unknown), {} faults, {} violations",
            self.scenario,
            self.histories,
            hours(self.simulated_seconds),
            self.calls,
            self.unknown_outcomes,
            self.struck(),
            self.violations,
        )
    }
}

/// A planted bug, and the scenario, seed and rule that found it.
#[derive(Debug, Serialize)]
pub(crate) struct Piece {
    pub(crate) bug: String,
    pub(crate) about: &'static str,
    pub(crate) caught: Option<(&'static str, u64, &'static str)>,
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.caught {
            Some((scenario, seed, rule)) => {
                write!(f, "caught   {:<22} {scenario} seed {seed}: {rule}", self.bug)
            }
            None => write!(f, "SURVIVED {:<22} {}", self.bug, self.about),
        }
    }
}

/// All scenarios.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    commit: Option<String>,
    threads: usize,
    first_seed: u64,
    seeds: u64,
    outcomes: Vec<Outcome>,
    pub(crate) museum: Vec<Piece>,
}

impl Report {
    pub(crate) fn new(threads: usize, first_seed: u64, seeds: u64) -> Self {
        Self { commit: commit(), threads, first_seed, seeds, outcomes: Vec::new(), museum: Vec::new() }
    }

    pub(crate) fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Whether no rule was broken and nothing was vacuous.
    pub(crate) fn holds(&self) -> bool {
        let held = |outcome: &Outcome| outcome.violations == 0 && outcome.vacuous.is_empty();
        self.outcomes.iter().all(held) && self.museum.iter().all(|piece| piece.caught.is_some())
    }

    fn sum(&self, of: impl Fn(&Outcome) -> u64) -> u64 {
        self.outcomes.iter().map(of).sum()
    }

    fn seconds(&self) -> f64 {
        self.outcomes.iter().map(|outcome| outcome.seconds).sum()
    }

    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    fn rate(&self) -> f64 {
        self.sum(|outcome| outcome.histories) as f64 / self.seconds() / self.threads as f64
    }

    /// The report as a page.
    pub(crate) fn markdown(&self) -> String {
        let mut page = String::from("# Reliability\n\n");
        page += "Every recipe runs over the memory store in a simulation: one thread, a clock that jumps, and faults \
                 that a seed\ndecides. Checkers judge every history. This page is written by the command below; \
                 do not edit it.\n\n";
        let last = self.first_seed + self.seeds;
        page += &format!(
            "```sh\ncargo run --release -p coord-conformance --features planted-bugs -- \\\n  simulate --from {} --seeds {} --museum --out RELIABILITY.md\n```\n\n",
            self.first_seed, self.seeds
        );
        page += &format!(
            "| | |\n|---|---|\n| commit | {} |\n| seeds of each scenario | {} to {} |\n| histories | {} |\n\
             | simulated time | {} |\n| calls to the store | {} |\n| calls whose outcome the client never learned | {} |\n\
             | faults that struck | {} |\n| **violations** | **{}** |\n| took | {:.0} s, {:.0} histories a second and thread |\n\n",
            self.commit.as_deref().unwrap_or("unknown"),
            self.first_seed,
            last.saturating_sub(1),
            self.sum(|outcome| outcome.histories),
            hours(self.sum(|outcome| outcome.simulated_seconds)),
            self.sum(|outcome| outcome.calls),
            self.sum(|outcome| outcome.unknown_outcomes),
            self.sum(Outcome::struck),
            self.sum(|outcome| outcome.violations as u64),
            self.seconds(),
            self.rate(),
        );
        page += &self.scenarios();
        page += &self.faults();
        page += &self.fencing();
        page += &self.museum();
        page + NOT_GUARANTEED
    }

    fn scenarios(&self) -> String {
        let mut page = String::from("## Scenarios\n\n");
        page += "*Judged* counts the facts that a rule looked at, *contended* those that could have gone wrong by the \
                 doing of\nothers. A rule that judged nothing fails the run, and so does one that found nothing contended, but for \
                 those that one\nclient alone can break.\n\n";
        page += "| scenario | shows | histories | simulated | calls | unknown | judged | contended | violations |\n";
        page += "|---|---|--:|--:|--:|--:|--:|--:|--:|\n";
        for one in &self.outcomes {
            page += &format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                one.scenario,
                one.about,
                one.histories,
                hours(one.simulated_seconds),
                one.calls,
                one.unknown_outcomes,
                one.judged,
                one.contended,
                one.violations
            );
        }
        page + "\n"
    }

    fn faults(&self) -> String {
        let mut page = String::from(
            "## Faults\n\nHow often each struck something. A fault of a scenario that never \
                                     struck fails the run.\n\n| fault | times |\n|---|--:|\n",
        );
        let kinds = self.outcomes.first().map_or(&[][..], |first| &first.faults[..]);
        for (at, kind) in kinds.iter().enumerate() {
            let times = self.sum(|outcome| outcome.faults.get(at).map_or(0, |fault| fault.times));
            page += &format!("| {} | {times} |\n", kind.kind);
        }
        page + "\n"
    }

    fn museum(&self) -> String {
        let mut page = String::from("## Planted bugs\n\n");
        if self.museum.is_empty() {
            return page + "Not run.\n\n";
        }
        let caught = self.museum.iter().filter(|piece| piece.caught.is_some()).count();
        page += &format!(
            "The same simulation with one bug switched on, each time another. {caught} of {} were found, each by at \
             most 1,000\nseeds of a scenario; one that survives fails the run.\n\n| bug | what is wrong | found by | seed | rule |\n\
             |---|---|---|--:|---|\n",
            self.museum.len()
        );
        for piece in &self.museum {
            let (scenario, seed, rule) =
                piece.caught.map_or(("**nothing**", String::new(), ""), |(scenario, seed, rule)| {
                    (scenario, seed.to_string(), rule)
                });
            page += &format!("| {} | {} | {scenario} | {seed} | {rule} |\n", piece.bug, piece.about);
        }
        page + "\n"
    }

    fn fencing(&self) -> String {
        let (writes, refused) =
            (self.sum(|outcome| outcome.fenced_writes), self.sum(|outcome| outcome.refused_writes));
        format!(
            "## What the token is for\n\nHolders wrote to a resource outside the store, each write sent while the guard \
             said that it was valid. Of {writes}\nwrites, {refused} arrived behind a write of a later holder. Only the \
             token tells them: a lock alone would have let\nthem in.\n\n"
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} histories, {} simulated, {:.0} histories a second and thread, {} violations, {} vacuous",
            self.sum(|outcome| outcome.histories),
            hours(self.sum(|outcome| outcome.simulated_seconds)),
            self.rate(),
            self.sum(|outcome| outcome.violations as u64),
            self.outcomes.iter().filter(|outcome| !outcome.vacuous.is_empty()).count(),
        )
    }
}

fn hours(seconds: u64) -> String {
    match seconds {
        0..7200 => format!("{} min", seconds / 60),
        7200..259_200 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The commit that runs, if this is a checkout.
fn commit() -> Option<String> {
    let git = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().ok()?;
    let text = String::from_utf8(git.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
