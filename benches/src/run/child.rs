//! Processes that a run starts: to be killed, or to be weighed.

use std::{
    env,
    process::Stdio,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::{
    Result,
    run::{Store, store::open_at},
    say,
    suites::{election, footprint},
};

/// Where the child finds the URL of its store: arguments are seen by everybody, and it may hold a password.
const URL: &str = "COORD_BENCHES_URL";
/// How long a child may take to do what it is for.
const PATIENCE: Duration = Duration::from_secs(120);

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
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// When it was started.
    pub(crate) began: Instant,
}

impl Running {
    pub(crate) fn start(store: &Store, what: Task, count: usize) -> Result<Running> {
        let name = what.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut command = Command::new(env::current_exe()?);
        command.args(["child", &name, &count.to_string()]).env(URL, store.url());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let began = Instant::now();
        let mut process = command.spawn()?;
        let output = process.stdout.take().ok_or("the process has no output")?;
        Ok(Running { process, lines: BufReader::new(output).lines(), began })
    }

    /// The next line that it prints.
    pub(crate) async fn line(&mut self) -> Result<String> {
        match tokio::time::timeout(PATIENCE, self.lines.next_line()).await {
            Ok(line) => match line? {
                Some(line) => Ok(line),
                None => {
                    let mut why = String::new();
                    if let Some(mut errors) = self.process.stderr.take() {
                        errors.read_to_string(&mut why).await?;
                    }
                    Err(format!("a process of the run has ended: {}", why.trim()).into())
                }
            },
            Err(_) => Err(format!("a process of the run said nothing for {PATIENCE:?}").into()),
        }
    }

    /// Kills it with SIGKILL, and returns when it is gone.
    pub(crate) async fn kill(mut self) -> Result<()> {
        // It may have ended by itself.
        let _ = self.process.start_kill();
        self.process.wait().await?;
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
