//! The `simulate` command.

use std::{fs, path::PathBuf, process::ExitCode, time::Instant};

use coord_conformance::{
    checkers::{Violation, What, facts::Session},
    sim::{Faults, Run, Scenario, Setup, Totals, batch, run, scenarios, shrink},
};

mod report;

use report::{Outcome, Piece, Report};

use crate::say::{say, tell};

/// How many failing runs of a scenario are enough.
const ENOUGH_FAILURES: usize = 20;
/// How many histories `--ci` makes.
const CI_HISTORIES: u64 = 20_000;
/// How many events of a shrunk run are shown.
const SHOWN: usize = 150;

#[derive(Debug, clap::Args)]
pub(crate) struct Simulate {
    /// How many runs of each scenario.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One run, of this seed: shows what happened.
    #[arg(long)]
    seed: Option<u64>,
    /// Only this scenario.
    #[arg(long)]
    scenario: Option<String>,
    /// With --seed: only these faults, by name and comma.
    #[arg(long)]
    faults: Option<Faults>,
    /// With --seed: so many clients.
    #[arg(long)]
    clients: Option<u32>,
    /// With --seed: so many steps.
    #[arg(long)]
    steps: Option<u32>,
    /// With --seed: where to write the history, one line of JSON an event.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Also switches on each planted bug, which must be found. Needs the feature planted-bugs.
    #[arg(long)]
    museum: bool,
    /// What a change must pass: 20,000 histories over all scenarios, and the museum if it was built in.
    #[arg(long)]
    ci: bool,
    /// How many threads; as many as there are cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Where to write the figures as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where to write the report as Markdown.
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Simulate {
    pub(crate) fn execute(&self) -> ExitCode {
        let worked = match self.seed {
            Some(seed) => self.one(seed),
            None => self.many(),
        };
        match worked {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(message) => {
                tell!("{message}");
                ExitCode::FAILURE
            }
        }
    }

    fn chosen(&self) -> Result<Vec<&'static Scenario>, String> {
        let Some(name) = &self.scenario else { return Ok(scenarios::ALL.to_vec()) };
        let found: Vec<_> = scenarios::ALL.iter().copied().filter(|one| one.name == name).collect();
        if found.is_empty() {
            let names: Vec<_> = scenarios::ALL.iter().map(|one| one.name).collect();
            return Err(format!("no scenario is named {name}; there are {}", names.join(", ")));
        }
        Ok(found)
    }

    /// One run in all detail.
    fn one(&self, seed: u64) -> Result<bool, String> {
        let mut held = true;
        for scenario in self.chosen()? {
            let mut setup = Setup::of(scenario, seed);
            setup.faults = self.faults.unwrap_or(setup.faults);
            setup.clients = self.clients.unwrap_or(setup.clients);
            setup.steps = self.steps.unwrap_or(setup.steps);
            let run = run(&setup).map_err(|e| e.to_string())?;
            say!("{setup}\nfaults: {}", setup.faults);
            say!("{} calls, {} unknown, {:?} simulated", run.tally.calls, run.tally.unknown, run.simulated);
            if let Some(path) = &self.trace {
                let lines = run.history.to_json_lines().map_err(|e| e.to_string())?;
                fs::write(path, lines).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            for violation in &run.violations {
                held = false;
                say!("VIOLATION {}", violation.explain(&run.history));
            }
            if let Some(violation) = run.violations.first() {
                show_shrunk(setup, violation);
            }
        }
        Ok(held)
    }

    /// Many runs of each scenario.
    fn many(&self) -> Result<bool, String> {
        let threads = match self.threads {
            Some(threads) => threads,
            None => std::thread::available_parallelism().map_err(|e| e.to_string())?.get(),
        };
        let chosen = self.chosen()?;
        let seeds = if self.ci { CI_HISTORIES.div_ceil(chosen.len() as u64) } else { self.seeds };
        let mut report = Report::new(threads, self.from, seeds);
        for scenario in chosen {
            let began = Instant::now();
            let all = self.from..self.from + seeds;
            let totals = batch(scenario, all, threads, ENOUGH_FAILURES, &|| ()).map_err(|e| e.to_string())?;
            let outcome = Outcome::new(scenario, &totals, began.elapsed());
            tell!("{outcome}");
            for missing in &outcome.vacuous {
                tell!("  VACUOUS {missing}");
            }
            show_failures(scenario, &totals);
            report.add(outcome);
        }
        if self.museum || (self.ci && cfg!(feature = "planted-bugs")) {
            report.museum = museum(threads)?;
        }
        tell!("{report}");
        if let Some(path) = &self.json {
            let json = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
            fs::write(path, json + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
        }
        if let Some(path) = &self.out {
            fs::write(path, report.markdown()).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(report.holds())
    }
}

fn show_failures(scenario: &'static Scenario, totals: &Totals) {
    let Some((seed, violation)) = totals.failures.first() else { return };
    for (seed, violation) in &totals.failures {
        tell!("  VIOLATION seed {seed}: {violation}");
    }
    let setup = Setup::of(scenario, *seed);
    tell!("  replay: cargo run --release -p coord-conformance -- {setup}");
    show_shrunk(setup, violation);
}

/// Makes the run smaller and shows what is left.
fn show_shrunk(setup: Setup, violation: &Violation) {
    let setup = shrink(setup, violation.rule);
    let Ok(Run { history, violations, .. }) = run(&setup) else { return };
    say!("shrunk: cargo run --release -p coord-conformance -- {setup}");
    let violation = violations.iter().find(|found| found.rule == violation.rule);
    let last = violation.and_then(|violation| violation.events.last().copied());
    let end = last.map_or(history.events().len(), |last| last + 1);
    let renewal = |what: &What| matches!(what, What::Session(Session::Renewed { .. }));
    let events: Vec<_> = history.events()[..end].iter().filter(|event| !renewal(&event.what)).collect();
    for event in &events[events.len().saturating_sub(SHOWN)..] {
        say!("  {:>11.3?} client {}: {:?}", event.at, event.client, event.what);
    }
    if let Some(violation) = violation {
        say!("  {violation}");
    }
}

#[cfg(not(feature = "planted-bugs"))]
fn museum(_: usize) -> Result<Vec<Piece>, String> {
    Err("the museum needs --features planted-bugs".to_owned())
}

#[cfg(feature = "planted-bugs")]
fn museum(threads: usize) -> Result<Vec<Piece>, String> {
    use coord_conformance::sim::museum::{Exhibit, tour};

    let piece = |exhibit: &Exhibit| Piece {
        bug: exhibit.bug.clone(),
        about: exhibit.about,
        caught: exhibit.caught.as_ref().map(|catch| (catch.scenario, catch.seed, catch.rule)),
    };
    let exhibits = tour(threads, |exhibit| tell!("{}", piece(exhibit))).map_err(|e| e.to_string())?;
    Ok(exhibits.iter().map(piece).collect())
}
