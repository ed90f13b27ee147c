//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use coord_testbed::Kind;
use serde::Serialize;

use crate::{
    peers::{PeersArgs, SideArgs},
    run::{ChildArgs, Run},
};

/// Benchmarks of coord on real servers that it starts itself
#[derive(Debug, Parser)]
#[command(name = "coord-benches", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure what is promised about speed, against raw drivers
    Speed(Speed),
    /// Measure locks, watches and registrations against other clients on the same servers
    Peers(PeersArgs),
    /// Measure the stores beside each other, and write results, a report and charts
    Run(Run),
    /// One process of a run (started by `run`)
    #[command(hide = true)]
    Child(ChildArgs),
    /// One process of a comparison (started by `peers`)
    #[command(hide = true)]
    Side(SideArgs),
    /// One process with many waiters on one lock; prints its memory (started by `speed`)
    #[command(hide = true)]
    Waiters(Waiters),
}

/// What to measure, and for how long.
#[derive(Args, Clone, Debug)]
pub(crate) struct Speed {
    /// Every suite once and briefly: proves that they work, and asserts the exact counts
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Only these suites
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) suites: Vec<Suite>,
    /// Only these stores
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) stores: Vec<StoreName>,
    /// Where servers keep their data
    #[arg(long, value_enum, default_value = "disk")]
    pub(crate) data: Data,
    /// Interleaved repetitions [default: 5; 1 with --smoke]
    #[arg(long)]
    pub(crate) pairs: Option<usize>,
    /// Length of one repetition of one side, in seconds [default: 2; a fraction with --smoke]
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Contenders on one lock
    #[arg(long, default_value_t = 8)]
    pub(crate) contenders: usize,
    /// Where `speed-DATA.json` and `speed-DATA.md` go [default: nowhere]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// Many waiters in one process.
#[derive(Args, Clone, Debug)]
pub(crate) struct Waiters {
    /// The store
    #[arg(long)]
    pub(crate) url: String,
    /// How many wait
    #[arg(long)]
    pub(crate) count: usize,
    /// A session for each waiter instead of one for all
    #[arg(long)]
    pub(crate) own_sessions: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// Round trips and requests of an acquire that nobody contends
    RoundTrips,
    /// get and put against the raw driver
    Throughput,
    /// Server work of an acquisition among several contenders
    Contended,
    /// Memory of idle waiters
    Waiters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum StoreName {
    Memory,
    Zk,
    Etcd,
    Redis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Data {
    /// On the disk, synced before a write is acknowledged
    Disk,
    /// In memory, not synced
    Memory,
}

impl Data {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Data::Disk => "disk",
            Data::Memory => "memory",
        }
    }
}

/// The stores with a server, in the order of reports.
pub(crate) const SERVERS: [(StoreName, Kind); 3] =
    [(StoreName::Zk, Kind::ZooKeeper), (StoreName::Etcd, Kind::Etcd), (StoreName::Redis, Kind::Redis)];

impl Speed {
    pub(crate) fn has(&self, suite: Suite) -> bool {
        self.suites.is_empty() || self.suites.contains(&suite)
    }

    pub(crate) fn on(&self, store: StoreName) -> bool {
        self.stores.is_empty() || self.stores.contains(&store)
    }

    pub(crate) fn pairs(&self) -> usize {
        self.pairs.unwrap_or(if self.smoke { 1 } else { 5 }).max(1)
    }

    /// The length of one repetition, given what it is by default and in a smoke run.
    pub(crate) fn span(&self, usual: f64, smoke: f64) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.smoke { smoke } else { usual });
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(1))
    }
}
