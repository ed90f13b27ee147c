//! The command line of `peers`, and of the processes that it starts.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

use crate::args::{Data, StoreName};

/// What to measure against other clients, and for how long.
#[derive(Args, Clone, Debug)]
pub(crate) struct PeersArgs {
    /// Every measure once and briefly: proves that they work. Leaves out peers that are not installed
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Only these measures
    #[arg(long, value_enum, value_delimiter = ',')]
    measures: Vec<Measure>,
    /// Only these stores
    #[arg(long, value_enum, value_delimiter = ',')]
    stores: Vec<StoreName>,
    /// Where servers keep their data
    #[arg(long, value_enum, default_value = "disk")]
    pub(crate) data: Data,
    /// Interleaved repetitions [default: 3; 1 with --smoke]
    #[arg(long)]
    pairs: Option<usize>,
    /// Factor on the length of every timed measurement
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// The Python that has redis-py and kazoo
    #[arg(long, default_value = "python3")]
    pub(crate) python: String,
    /// Where `peers-DATA.json` and `peers-DATA.md` go [default: nowhere]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Cycles of a lock that nobody contends
    Uncontended,
    /// 8 and 64 contenders in one process
    Contended,
    /// The same on Redis, with work inside the lock and between cycles
    Held,
    /// 8 and 64 contenders in a process each
    Processes,
    /// Acquisitions of the luckiest contender less those of the unluckiest
    Fairness,
    /// 1,000 watchers of one key
    Watchers,
    /// 2,000 updates at once, 100 watchers
    Burst,
    /// 1,000 registrations
    Bulk,
    /// Memory and start-up of a client that has taken a lock
    Idle,
}

impl PeersArgs {
    pub(crate) fn on(&self, store: StoreName) -> bool {
        self.stores.is_empty() || self.stores.contains(&store)
    }

    pub(crate) fn measures(&self) -> Vec<Measure> {
        if self.measures.is_empty() { Measure::value_variants().to_vec() } else { self.measures.clone() }
    }

    pub(crate) fn pairs(&self) -> usize {
        self.pairs.unwrap_or(if self.smoke { 1 } else { 3 }).max(1)
    }

    /// What it is usually, or in a smoke run.
    pub(crate) fn pick<T>(&self, usual: T, smoke: T) -> T {
        if self.smoke { smoke } else { usual }
    }

    /// The length of a part of a measurement: usually so many seconds, in a smoke run a moment.
    pub(crate) fn span(&self, usual: f64) -> Duration {
        let seconds = self.pick(usual, usual.min(0.3)) * self.scale;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(1))
    }
}

/// One process of a comparison that is written in Rust.
#[derive(Args, Clone, Debug)]
pub(crate) struct SideArgs {
    #[arg(value_enum)]
    pub(crate) library: Library,
    /// URL of the server
    pub(crate) url: String,
    #[command(subcommand)]
    pub(crate) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Library {
    Coord,
    /// The server's own lock service, and a watch for each watcher
    EtcdClient,
}

/// What a process does. Each line of its input is one repetition.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Role {
    /// Contends for a lock; a line is SETTLE_MS SPAN_MS
    Lock { name: String, contenders: usize, hold_ms: u64, think_ms: u64 },
    /// Watches one key many times; a line is UPDATES PACE_US
    Watch { watchers: usize },
    /// Registers instances of a service; a line is their number
    Register,
    /// Takes a lock once and gives it back
    FirstLock,
}

impl Role {
    /// A lock with nothing done inside it or between cycles.
    pub(crate) fn lock(name: &str, contenders: usize) -> Role {
        Role::Lock { name: name.to_owned(), contenders, hold_ms: 0, think_ms: 0 }
    }

    /// As arguments of a process, in any language.
    pub(crate) fn words(&self) -> Vec<String> {
        match self {
            Role::Lock { name, contenders, hold_ms, think_ms } => {
                let numbers = [contenders.to_string(), hold_ms.to_string(), think_ms.to_string()];
                ["lock".to_owned(), name.clone()].into_iter().chain(numbers).collect()
            }
            Role::Watch { watchers } => vec!["watch".to_owned(), watchers.to_string()],
            Role::Register => vec!["register".to_owned()],
            Role::FirstLock => vec!["first-lock".to_owned()],
        }
    }
}
