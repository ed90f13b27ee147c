//! The arguments.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use coord::{Dir, Key};

use crate::{
    bench::BenchArgs,
    config::args::ConfigArgs,
    copy::CopyArgs,
    explain::ExplainArgs,
    generate::{CompletionsArgs, ManArgs},
    output::Format,
    run::args::{BarrierArgs, ElectArgs, LockArgs, OnceArgs, SemaphoreArgs},
    service::args::ServiceArgs,
    txn::TxnArgs,
};

const EXIT_CODES: &str = "\
Exit codes:
  0    yes, done
  1    no: the key, service, instance, holder or barrier is absent, or doctor found something wrong
  2    the arguments are wrong
  3    conflict: the key is in another version, or exists already; a condition does not hold; the instance is
       somebody else's; the barrier is set already
  125  coord itself failed: configuration, store, time-out of a call

Exit codes of `coord lock`, and of `elect`, `semaphore`, `once` and `barrier --parties`:
  the command's own; 128+n if signal n ended it, or ended the waiting
  0    once: somebody has run it for this period (another code with -E)
  1    once: somebody began it for this period and did not finish
  123  the lock was lost and the command stopped; elect stands again instead
  124  the lock was not acquired in time (another code with -E)
  125  coord itself failed
  126  the command cannot be executed
  127  the command was not found

The store: --url or --config, else COORD_URL, else COORD_CONFIG, else ./coord.toml, else
$XDG_CONFIG_HOME/coord/config.toml, else sqlite:, a file of this user on this host. Options of the store come from the
URL, from COORD_NAME=value and from the file, in this order. COORD_LOG=debug shows what is going on.";

/// The heading of the options that every command has.
const STORE_AND_OUTPUT: &str = "Store and output";

/// Distributed coordination from the shell: locks, keys and watches over ZooKeeper, etcd, Redis or a file of this host.
#[derive(Debug, Parser)]
#[command(name = "coord", version, after_help = EXIT_CODES, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// The store, such as zk://h1:2181,h2:2181/app, etcd://h1:2379/app or redis://h1:6379/app [env: COORD_URL]
    ///
    /// Other users of this machine can see arguments: give a password by COORD_PASSWORD or in a file instead.
    #[arg(long, global = true, value_name = "URL", help_heading = STORE_AND_OUTPUT)]
    pub url: Option<String>,

    /// A configuration file, instead of coord.toml [env: COORD_CONFIG]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "url", help_heading = STORE_AND_OUTPUT)]
    pub config: Option<PathBuf>,

    /// How data is written: a table on a terminal and plain text elsewhere, unless told otherwise
    #[arg(short, long, visible_short_alias = 'w', global = true, value_enum, default_value_t)]
    #[arg(help_heading = STORE_AND_OUTPUT)]
    pub output: Format,

    /// Say more on standard error
    #[arg(short, long, global = true, help_heading = STORE_AND_OUTPUT)]
    pub verbose: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while holding a lock
    ///
    /// Waits for the lock in a fair line, runs the command without a shell, passes signals on to it, and gives the lock
    /// back after it ended. The command finds COORD_LOCK_NAME, COORD_LOCK_KEY, COORD_FENCING_TOKEN and COORD_SESSION in
    /// its environment, and no credentials. If the lock is about to be lost, the command is stopped before anybody else
    /// can be granted it.
    Lock(LockArgs),
    /// Run a command while leading; stand again after each loss
    ///
    /// Stands in the election, runs the command without a shell while leading, and stops it before anybody else can lead.
    /// Stands again after that. When the command ends by itself, coord resigns and ends with its exit code. The command
    /// finds COORD_ELECTION_NAME, COORD_ELECTION_KEY, COORD_EPOCH, COORD_CANDIDATE, COORD_FENCING_TOKEN (the epoch) and
    /// COORD_SESSION in its environment, and no credentials.
    Elect(ElectArgs),
    /// Run a command while holding a permit of a semaphore
    ///
    /// So many commands run at once as there are permits; others wait in a fair line. All as with `lock`; the command
    /// finds COORD_SEMAPHORE_NAME, COORD_SEMAPHORE_KEY, COORD_FENCING_TOKEN and COORD_SESSION in its environment.
    Semaphore(SemaphoreArgs),
    /// Run a command once for each period, on whichever host comes first, as from cron on many
    ///
    /// The others wait until it is done, and end with 0. If it failed, or its host died, they end with 1; with --retry one
    /// of them runs it again. The command finds COORD_ONCE_NAME, COORD_ONCE_KEY, COORD_ONCE_PERIOD, COORD_EPOCH,
    /// COORD_FENCING_TOKEN (the epoch) and COORD_SESSION in its environment, and no credentials. It is stopped before
    /// anybody else can run it.
    Once(OnceArgs),
    /// Wait at a barrier, set it or remove it; or begin and end a command together with others
    ///
    /// With --parties N: waits until N have come, runs the command if there is one, and ends when all of them are done.
    /// The command finds COORD_BARRIER_NAME, COORD_BARRIER_KEY, COORD_BARRIER_MEMBERS, COORD_FENCING_TOKEN and
    /// COORD_SESSION in its environment, and no credentials.
    Barrier(BarrierArgs),
    /// Print the value of a key; exit 1 if it is absent
    Get(GetArgs),
    /// Write a key; exit 3 if a condition does not hold
    Put(PutArgs),
    /// List the names in a directory
    Ls(DirArgs),
    /// Follow the changes of a directory and everything below, one JSON object a line
    Watch(WatchArgs),
    /// Delete a key; exit 1 if it is absent, 3 if it is in another version
    Del(DelArgs),
    /// Apply checks and writes together or not at all; exit 3 if a condition does not hold
    Txn(TxnArgs),
    /// Tell who holds a lock, leads, or has permits, and who waits; exit 1 if nobody holds it
    Explain(ExplainArgs),
    /// List the sessions that own keys in a directory and below; exit 1 if there are none
    Sessions(DirArgs),
    /// Copy keys to another store or directory and compare digests afterwards; exit 3 if something is there already
    ///
    /// What belongs to sessions is listed and not copied.
    Copy(Box<CopyArgs>),
    /// Publish configuration and see what runs: atomic releases, gray rules, history, rollback
    ///
    /// Secrets are masked unless --show-secrets is given.
    Config(Box<ConfigArgs>),
    /// Register services and find them, also in the layouts of Curator and Dubbo
    Service(ServiceArgs),
    /// Give out numbers of a store for Prometheus, at /metrics, until it is stopped
    ///
    /// Each time when it is asked it looks at the store: whether and how fast it answers, and what is in the directories
    /// that are named. It writes nothing. Whoever can reach the address can read the page.
    ServeMetrics(ServeMetricsArgs),
    /// Connect, and tell what the store is, what it promises, how fast it answers, and what is wrong
    Doctor,
    /// Measure get, put, a lock and the delay of a watch, for a few seconds
    Bench(BenchArgs),
    /// Check every promise on the store of the URL, below /conformance, and print the matrix
    #[cfg(feature = "conformance")]
    Conformance(crate::conformance::ConformanceArgs),
    /// Tell where the store may be named, and which of these places counts
    ConfigPath,
    /// Print the script that completes these commands in a shell
    Completions(CompletionsArgs),
    /// Print the manual page of a command, or write all pages into a directory
    Man(ManArgs),
}

/// Arguments of `get`.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// The key
    #[arg(value_parser = key)]
    pub key: String,
}

/// Arguments of `put`.
#[derive(Args, Debug)]
pub struct PutArgs {
    /// The key
    #[arg(value_parser = key)]
    pub key: String,

    /// The value; without it or with - it is read from standard input
    pub value: Option<String>,

    /// Write only if the key is in this version
    #[arg(long, value_name = "N")]
    pub version: Option<u64>,

    /// Write only if the key is absent
    #[arg(long, conflicts_with = "version")]
    pub create: bool,
}

/// Arguments of `del`.
#[derive(Args, Debug)]
pub struct DelArgs {
    /// The key
    #[arg(value_parser = key)]
    pub key: String,

    /// Delete only if the key is in this version
    #[arg(long, value_name = "N")]
    pub version: Option<u64>,
}

/// Arguments of `ls`.
#[derive(Args, Debug)]
pub struct DirArgs {
    /// The directory
    #[arg(default_value = "/", value_parser = dir)]
    pub dir: String,
}

/// Arguments of `serve-metrics`.
#[derive(Args, Debug)]
pub struct ServeMetricsArgs {
    /// The address to listen on; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    pub listen: SocketAddr,

    /// A directory to tell of: its keys, sessions, and places in line; may be given several times
    ///
    /// All keys below are read each time: name small ones, such as those of locks and services.
    #[arg(long = "dir", value_name = "DIR", value_parser = dir)]
    pub dirs: Vec<String>,
}

/// Arguments of `watch`.
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// The directory
    #[arg(default_value = "/", value_parser = dir)]
    pub dir: String,

    /// Tell also that the store went on while nothing changed here
    #[arg(long)]
    pub progress: bool,
}

/// A key, or a directory that is not the root; as it was given.
pub(crate) fn key(text: &str) -> Result<String, String> {
    Key::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn dir(text: &str) -> Result<String, String> {
    Dir::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    coord::parse_duration(text).ok_or_else(|| "a duration has a unit: 500ms, 10s, 2m or 1h".to_owned())
}
