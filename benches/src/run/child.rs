//! Processes that a run starts: to be killed, or to be weighed.

use std::{
    env,
    process::Stdio,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use tokio::process::Command;

use crate::{
    Result,
    process::Process,
    run::{Store, store::open_at},
    say,
    suites::{election, footprint},
};

/// Where the child finds the URL of its store: arguments are seen by everybody, and it may hold a password.
const URL: &str = "COORD_BENCHES_URL";

/// One process of a run.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChildArgs {
    #[arg(value_enum)]
    what: Task,
    /// How many of them
    #[arg(default_value_t = 1)]
    count: usize,
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Leads an election, with a session of so many milliseconds.
    Lead,
    /// Takes a lock once.
    FirstLock,
    /// Weighs idle waiters on one lock.
    Waiters,
    /// Weighs idle watchers of one directory.
    Watchers,
    /// Weighs idle sessions.
    Sessions,
}

/// A child that runs. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    process: Process,
    /// When it was started.
    pub(crate) began: Instant,
}

impl Running {
    pub(crate) fn start(store: &Store, what: Task, count: usize) -> Result<Running> {
        let name = what.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut command = Command::new(env::current_exe()?);
        command.args(["child", &name, &count.to_string()]).env(URL, store.url());
        command.stdin(Stdio::null());
        let began = Instant::now();
        Ok(Running { process: Process::start(command)?, began })
    }

    /// The next line that it prints.
    pub(crate) async fn line(&mut self) -> Result<String> {
        self.process.line().await
    }

    /// Kills it with SIGKILL, and returns when it is gone.
    pub(crate) async fn kill(mut self) -> Result<()> {
        // It may have ended by itself.
        let _ = self.process.child.start_kill();
        self.process.child.wait().await?;
        Ok(())
    }
}

/// The whole of a child.
pub(crate) async fn child(args: &ChildArgs) -> Result<()> {
    let coord = open_at(&env::var(URL)?).await?;
    match args.what {
        Task::Lead => election::lead(&coord, Duration::from_millis(u64::try_from(args.count)?)).await,
        Task::FirstLock => say(&footprint::first_lock(&coord).await?),
        Task::Waiters => say(&footprint::waiters(&coord, args.count).await?),
        Task::Watchers => say(&footprint::watchers(&coord, args.count).await?),
        Task::Sessions => say(&footprint::sessions(&coord, args.count).await?),
    }
}
