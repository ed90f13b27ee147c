//! One run: one scenario, one seed.

use std::{fmt, sync::Arc, time::Duration};

use coord_api::Result;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::{
    client::{Client, TTL},
    faults::{Faults, Kind},
    link::LATEST,
    node::Node,
    plan::{WINDOW, choose, first_revision, strikes},
    recorder::{Ledger, Tally},
    weather::blow,
    world::World,
};
use crate::checkers::{
    History, Stats, Verdict, Violation,
    facts::{Leftover, LeftoverKind},
};

/// How long everybody may need to finish once everything is healed.
const SETTLE: Duration = Duration::from_secs(120);

/// The workload of one recipe, and the rules that its histories are judged by.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// What it shows, in a few words.
    pub about: &'static str,
    /// How many clients, at most.
    pub clients: u32,
    /// How often each does its work, at most.
    pub steps: u32,
    /// Which faults it is exposed to.
    pub faults: Faults,
    /// The directories in which an operator deletes.
    pub(crate) dirs: &'static [&'static str],
    pub(crate) ledger: Ledger,
    /// What a client does.
    pub(crate) client: fn(Client) -> BoxFuture<'static, ()>,
    /// What is read at the end, when nothing fails any more.
    pub(crate) last_look: fn(Arc<World>) -> BoxFuture<'static, Result<()>>,
    /// Whether a key may stay.
    pub(crate) keeps: fn(&str) -> bool,
    /// The rules, by name.
    pub(crate) rules: &'static [(&'static str, Rule)],
    /// Rules whose facts never contend by their nature.
    pub(crate) quiet: &'static [&'static str],
}

/// A rule that a history must keep.
pub(crate) type Rule = fn(&History) -> Verdict;

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}

/// One thing that happens to the first client at one exact place, for sweeps over all places.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sweep {
    /// The reply of its nth call to the store is lost; 1 is the first.
    pub lose_reply: Option<u64>,
    /// Its nth call of the recipe (from 1) is dropped after so many polls.
    pub drop_after: Option<(u64, usize)>,
    /// Its calls of the recipe are dropped after this time: while they back off, if their first reply is lost.
    pub drop_at: Option<Duration>,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// The seed, which decides everything.
    pub seed: u64,
    /// The faults; those that the seed chose, or fewer.
    pub faults: Faults,
    /// How many clients.
    pub clients: u32,
    /// How often each does its work.
    pub steps: u32,
    /// What happens at one exact place.
    pub sweep: Sweep,
}

impl Setup {
    /// The run of this seed.
    #[must_use]
    pub fn of(scenario: &'static Scenario, seed: u64) -> Self {
        let faults = choose(seed, scenario.faults);
        let (clients, steps) = (scenario.clients, scenario.steps);
        Self { scenario, seed, faults, clients, steps, sweep: Sweep::default() }
    }

    /// A run without faults, but for what happens at one exact place.
    #[must_use]
    pub fn calm(scenario: &'static Scenario, seed: u64, sweep: Sweep) -> Self {
        Self { faults: Faults::NONE, steps: scenario.steps.min(2), sweep, ..Self::of(scenario, seed) }
    }
}

impl fmt::Display for Setup {
    /// The line that replays it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::of(self.scenario, self.seed);
        write!(f, "simulate --scenario {} --seed {}", self.scenario.name, self.seed)?;
        if self.faults != plain.faults {
            write!(f, " --faults {}", self.faults)?;
        }
        if self.clients != plain.clients {
            write!(f, " --clients {}", self.clients)?;
        }
        if self.steps != plain.steps {
            write!(f, " --steps {}", self.steps)?;
        }
        Ok(())
    }
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Run {
    /// What happened.
    pub history: History,
    /// The rules that are broken.
    pub violations: Vec<Violation>,
    /// What each rule looked at.
    pub stats: Vec<Stats>,
    /// How much happened.
    pub tally: Tally,
    /// How long it took by the simulated clock.
    pub simulated: Duration,
}

/// Runs it. The same setup gives the same run.
///
/// # Errors
/// If the run could not be made: no runtime, or a store that fails without a fault. That is a bug in the simulation.
pub fn run(setup: &Setup) -> Result<Run> {
    let mut run = runtime()?.block_on(simulate(setup))?;
    for (_, rule) in setup.scenario.rules {
        match rule(&run.history) {
            Ok(stats) => run.stats.push(stats),
            Err(violation) => {
                run.violations.push(violation);
                run.stats.push(Stats::default());
            }
        }
    }
    Ok(run)
}

/// Runs it for `time` and shuts the runtime down under it. Everything that is dropped must bear that.
///
/// # Errors
/// As [`run`].
pub fn shut_down_at(setup: &Setup, time: Duration) -> Result<()> {
    runtime()?.block_on(async {
        match tokio::time::timeout(time, simulate(setup)).await {
            Ok(ended) => ended.map(drop),
            Err(_) => Ok(()),
        }
    })
}

/// A runtime for each run: the order of timers depends on how long their clock has been running.
fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().map_err(|error| {
        coord_api::Error::new(coord_api::ErrorKind::Unexpected, "no runtime").with_source(error)
    })
}

async fn simulate(setup: &Setup) -> Result<Run> {
    let Setup { scenario, seed, faults, clients, steps, .. } = *setup;
    let world = World::new(first_revision(seed, faults), faults, scenario.ledger)?;
    let mut nodes = Vec::new();
    let mut programs = Vec::new();
    for id in 1..=clients {
        let sweep = if id == 1 { setup.sweep } else { Sweep::default() };
        let node = Node::new(&world, id, seed, faults, sweep)?;
        programs.push(node.runtime.spawn((scenario.client)(Client::new(&node, seed, steps, clients))));
        nodes.push(node);
    }
    let plan = strikes(seed, faults, clients);
    let weather = world.network().spawn(blow(Arc::clone(&world), nodes.clone(), plan, scenario.dirs));
    let deadline = Instant::now() + WINDOW + SETTLE;
    let mut violations = Vec::new();
    for (node, mut program) in nodes.iter().zip(programs) {
        let ended = ended(node, &mut program, deadline).await;
        if let Some(message) = ended {
            program.abort();
            violations.push(Violation::new("liveness", message, []));
        }
    }
    weather.await.map_err(|e| coord_api::Error::ambiguous("the weather ended early").with_source(e))??;
    let died = nodes.iter().any(|node| node.is_dead());
    // The last late requests arrive, and the sessions that they began end.
    tokio::time::sleep(LATEST + TTL * 2).await;
    let delayed: u64 = nodes.iter().map(|node| node.link().delayed).sum();
    drop(nodes);
    (scenario.last_look)(Arc::clone(&world)).await?;
    if violations.is_empty() {
        record_leftovers(&world, scenario, died).await?;
    }
    let mut recorder = world.recorder();
    recorder.tally.faults[Kind::Delayed as usize] += delayed;
    let (tally, simulated) = (recorder.tally.clone(), recorder.now());
    violations.extend(recorder.complaints.drain(..).map(|message| Violation::new("promise", message, [])));
    let history = recorder.take_history();
    Ok(Run { history, violations, stats: Vec::new(), tally, simulated })
}

/// Waits for the program of a client; why it did not end, if it did not.
async fn ended(
    node: &Arc<Node>,
    program: &mut tokio::task::JoinHandle<()>,
    deadline: Instant,
) -> Option<String> {
    loop {
        let next = deadline.min(Instant::now() + Duration::from_secs(5));
        match tokio::time::timeout_at(next, &mut *program).await {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => return Some(format!("client {} failed: {error}", node.id)),
            Err(_) if node.is_dead() => {
                program.abort();
                return None;
            }
            Err(_) if next == deadline => {
                return Some(format!("client {} did not finish {SETTLE:?} after everything healed", node.id));
            }
            Err(_) => {}
        }
    }
}

async fn record_leftovers(world: &Arc<World>, scenario: &Scenario, died: bool) -> Result<()> {
    let mut keys = Vec::new();
    for key in all_keys(world).await? {
        if !(scenario.keeps)(&key) {
            keys.push(key);
        }
    }
    let sessions = world.store().session_count();
    // Of a client that died, tasks and waits go with its process.
    let waits = if died { 0 } else { world.store().waiting_count() };
    let tasks = if died { 0 } else { tokio::runtime::Handle::current().metrics().num_alive_tasks() };
    for (kind, which, count) in [
        (LeftoverKind::Keys, keys.clone(), keys.len()),
        (LeftoverKind::Sessions, Vec::new(), sessions),
        (LeftoverKind::Watches, Vec::new(), waits),
        (LeftoverKind::Tasks, Vec::new(), tasks),
    ] {
        if count > 0 {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            world.record(0, Leftover { kind, which, count });
        }
    }
    Ok(())
}

async fn all_keys(world: &Arc<World>) -> Result<Vec<String>> {
    use futures::StreamExt;
    let mut events = world.coord().watch("/").await?;
    match events.next().await {
        Some(Ok(coord_api::WatchEvent::Snapshot { entries, .. })) => {
            Ok(entries.into_iter().map(|entry| entry.key.to_string()).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// For scenarios that read nothing at the end.
pub(crate) fn no_last_look(_: Arc<World>) -> BoxFuture<'static, Result<()>> {
    Box::pin(std::future::ready(Ok(())))
}

/// For scenarios whose keys all go.
pub(crate) fn keeps_nothing(_: &str) -> bool {
    false
}

/// Whether any of `kinds` is needed elsewhere.
pub(crate) const fn all_but(kinds: &[Kind]) -> Faults {
    let mut faults = Faults::ALL;
    let mut at = 0;
    while at < kinds.len() {
        faults = faults.without(kinds[at]);
        at += 1;
    }
    faults
}
