//! The arguments of the commands that run something while something is held.

use std::{ffi::OsString, time::Duration};

use clap::{Args, ValueEnum};

use crate::args::{duration, key};

/// How long it is held, and what becomes of the command when it is lost.
#[derive(Args, Debug)]
pub struct HoldArgs {
    /// How long the store keeps what is held after coord was last heard of
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub ttl: Duration,

    /// How long the command may take to stop after SIGTERM when what is held is being lost; at most a third of the ttl
    /// [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub grace: Option<Duration>,

    /// What happens to the command when what is held is being lost
    #[arg(long, value_enum, default_value_t)]
    pub on_lost: OnLost,
}

/// How long to wait for it.
#[derive(Args, Debug)]
pub struct WaitArgs {
    /// Wait at most this long, such as 30s; without it, as long as it takes
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,

    /// Do not wait: give up if it cannot be had now
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,

    /// Exit code if it was not acquired, instead of 124
    #[arg(short = 'E', long, value_name = "CODE")]
    pub conflict_exit_code: Option<u8>,
}

impl WaitArgs {
    /// The exit code if it was not acquired.
    pub(super) fn not_acquired(&self) -> u8 {
        self.conflict_exit_code.unwrap_or(crate::code::NOT_ACQUIRED)
    }

    /// The name of one of these that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        match self {
            Self { timeout: Some(_), .. } => Some("--timeout"),
            Self { no_wait: true, .. } => Some("--no-wait"),
            Self { conflict_exit_code: Some(_), .. } => Some("--conflict-exit-code"),
            _ => None,
        }
    }
}

/// What happens to the command when what is held is being lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnLost {
    /// SIGTERM, then SIGKILL after the grace, in time before another can be granted it
    #[default]
    Kill,
    /// SIGTERM at the same moment, and then it is up to the command
    Term,
    /// Nothing: only a warning
    Ignore,
}

/// Arguments of `lock`.
#[derive(Args, Debug)]
pub struct LockArgs {
    /// The lock: a path such as /locks/orders
    #[arg(value_parser = key)]
    pub name: String,

    /// How long to wait.
    #[command(flatten)]
    pub wait: WaitArgs,

    /// How it is held.
    #[command(flatten)]
    pub hold: HoldArgs,

    /// The command and its arguments, behind `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Arguments of `elect`.
#[derive(Args, Debug)]
pub struct ElectArgs {
    /// The election: a path such as /elections/scheduler
    #[arg(value_parser = key)]
    pub name: String,

    /// Who stands, for others to see [default: the name of this host and the process id]
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub id: Option<String>,

    /// Candidates let those of a higher priority pass while they wait
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub priority: u32,

    /// How it is held.
    #[command(flatten)]
    pub hold: HoldArgs,

    /// The command and its arguments, behind `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Arguments of `semaphore`.
#[derive(Args, Debug)]
pub struct SemaphoreArgs {
    /// The semaphore: a path such as /limits/uploads
    #[arg(value_parser = key)]
    pub name: String,

    /// How many permits there are: the first to come sets it, and all others must say the same
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub permits: u32,

    /// How many of them this command takes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub take: u32,

    /// How long to wait.
    #[command(flatten)]
    pub wait: WaitArgs,

    /// How it is held.
    #[command(flatten)]
    pub hold: HoldArgs,

    /// The command and its arguments, behind `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Arguments of `once`.
#[derive(Args, Debug)]
pub struct OnceArgs {
    /// The job: a path such as /jobs/backup
    #[arg(value_parser = key)]
    pub name: String,

    /// What makes two runs the same, such as a date: "$(date +%F)", in a crontab "$(date +\%F)"
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub period: String,

    /// Run it again if an earlier run of the period failed or fell over: at least once, instead of at most once
    #[arg(long)]
    pub retry: bool,

    /// Exit code if the job has run already, instead of 0
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::code::YES)]
    pub done_exit_code: u8,

    /// Wait at most this long while another runs it, such as 30s, and exit 124 then; without it, as long as it takes
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,

    /// Who runs it, for others to see [default: the name of this host and the process id]
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub id: Option<String>,

    /// How it is held.
    #[command(flatten)]
    pub hold: HoldArgs,

    /// The command and its arguments, behind `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Arguments of `barrier`.
#[derive(Args, Debug)]
// A barrier without parties is no place that could be lost.
#[command(mut_args(|arg| match arg.get_id().as_str() {
    "ttl" | "grace" | "on_lost" => arg.requires("parties").conflicts_with("action"),
    _ => arg,
}))]
pub struct BarrierArgs {
    /// The barrier: a path such as /barriers/migration
    #[arg(value_parser = key)]
    pub name: String,

    /// What to do with it
    #[arg(value_enum, default_value_t, conflicts_with = "parties")]
    pub action: BarrierAction,

    /// Wait until N are here, run the command with them if there is one, and wait until all of them are done
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub parties: Option<u8>,

    /// How long to wait.
    #[command(flatten)]
    pub wait: WaitArgs,

    /// How it is held.
    #[command(flatten)]
    pub hold: HoldArgs,

    /// The command and its arguments, behind `--`; only with --parties
    #[arg(last = true, requires = "parties", value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// What to do with a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BarrierAction {
    /// Wait until it is not set; at once if it is not
    #[default]
    Wait,
    /// Set it: from now on everybody waits; exit 3 if it is set already
    Set,
    /// Remove it: everybody goes; exit 1 if it is not set
    Remove,
}
