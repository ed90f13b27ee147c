//! The command line of `run`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::args::Data;

/// The stores that are compared where none is named.
const USUAL: [&str; 5] = ["memory:", "sqlite:", "local:zookeeper", "local:etcd", "local:redis"];

/// What to measure, where, and for how long.
#[derive(Args, Clone, Debug)]
pub(crate) struct Run {
    /// These suites; what others found stays in the results
    #[arg(long = "suite", value_enum, value_delimiter = ',', num_args = 1..)]
    #[arg(required_unless_present_any = ["all", "smoke"], conflicts_with = "all")]
    pub(crate) suites: Vec<SuiteName>,
    /// Every suite; the results begin anew
    #[arg(long)]
    pub(crate) all: bool,
    /// Stores to compare: `memory:`, `sqlite:`, the URL of a running store, or `local:NAME` for a server that is
    /// started for the run (zookeeper, zookeeper38, etcd, redis, valkey), `local:etcd*3` for three [default: one of each]
    #[arg(long = "backend", num_args = 1..)]
    backends: Vec<String>,
    /// Every suite for a moment, on small sizes: proves that they work, and judges no time
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Where servers that are started keep their data, and whether a write waits for the disk
    #[arg(long, value_enum, default_value = "disk")]
    pub(crate) data: Data,
    /// Interleaved repetitions [default: 3; 1 with --smoke]
    #[arg(long)]
    repetitions: Option<usize>,
    /// Factor on the length of every timed measurement
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Where results, report and charts go
    #[arg(long, default_value = "docs/benchmarks")]
    pub(crate) out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SuiteName {
    /// Writes a second by size of the value
    Write,
    /// One-shot and streaming watches
    Watch,
    /// get, put, compare-and-set and transactions against the raw driver
    Overhead,
    /// Uncontended and contended locks, fair against naive
    Lock,
    /// Failover and clean hand-over
    Election,
    /// Registrations, their propagation, and publications of configuration
    Registry,
    /// Memory and tasks of what is idle, and start-up
    Footprint,
    /// Operations, requests and round trips of every call
    Cost,
}

impl SuiteName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            SuiteName::Write => "write",
            SuiteName::Watch => "watch",
            SuiteName::Overhead => "overhead",
            SuiteName::Lock => "lock",
            SuiteName::Election => "election",
            SuiteName::Registry => "registry",
            SuiteName::Footprint => "footprint",
            SuiteName::Cost => "cost",
        }
    }

    /// What does not vary between repetitions, or takes too long to be repeated, is measured once.
    pub(crate) fn repeats(self) -> bool {
        !matches!(self, SuiteName::Footprint | SuiteName::Cost)
    }
}

impl Run {
    pub(crate) fn suites(&self) -> Vec<SuiteName> {
        if self.suites.is_empty() {
            return SuiteName::value_variants().to_vec();
        }
        let mut suites = self.suites.clone();
        suites.sort();
        suites.dedup();
        suites
    }

    pub(crate) fn backends(&self) -> Vec<String> {
        if self.backends.is_empty() { USUAL.map(str::to_owned).into() } else { self.backends.clone() }
    }

    pub(crate) fn plan(&self) -> Plan {
        let repetitions = self.repetitions.unwrap_or(if self.smoke { 1 } else { 3 }).max(1);
        Plan { smoke: self.smoke, scale: self.scale, repetitions, is_first: true }
    }
}

/// How long and how large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) smoke: bool,
    pub(crate) repetitions: usize,
    /// Whether this is the first repetition: what takes long is done in it only.
    pub(crate) is_first: bool,
    scale: f64,
}

impl Plan {
    /// The plan of one repetition, counted from 1.
    pub(crate) fn of(self, repetition: usize) -> Plan {
        Plan { is_first: repetition == 1, ..self }
    }

    /// What it is usually, or in a smoke run.
    pub(crate) fn pick<T>(self, usual: T, smoke: T) -> T {
        if self.smoke { smoke } else { usual }
    }

    /// The length of one measurement: usually this many seconds, in a smoke run a moment.
    pub(crate) fn span(self, usual: f64) -> Duration {
        let seconds = self.pick(usual, usual.min(0.05)) * self.scale;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(1))
    }

    /// How long a measurement runs before it counts.
    pub(crate) fn settle(self) -> Duration {
        self.span(0.1)
    }
}
