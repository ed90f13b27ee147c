//! Where and on what the figures were taken.

use std::{fs, path::Path, process::Command};

use serde::Serialize;

use crate::args::Data;

/// What a reader must know to judge the figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) build: &'static str,
    pub(crate) compiler: String,
    pub(crate) machine: String,
    pub(crate) system: String,
    /// Before the first measurement: other load makes figures worse and spreads them.
    pub(crate) load_average: String,
    pub(crate) data: &'static str,
    pub(crate) pairs: usize,
    pub(crate) drivers: Vec<String>,
    /// Filled as they start.
    pub(crate) servers: Vec<String>,
}

impl Facts {
    pub(crate) fn gather(data: Data, pairs: usize) -> Facts {
        let first = |path: &str, key: &str, separator: char| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let found = text.lines().find(|line| line.starts_with(key));
            let value = found.and_then(|line| line.split_once(separator)).map(|(_, value)| value);
            value.unwrap_or("unknown").trim().trim_matches('"').to_owned()
        };
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let memory = first("/proc/meminfo", "MemTotal", ':');
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Facts {
            date: said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            commit: commit(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            compiler: said("rustc", &["--version"]),
            machine: format!("{cores} × {}, {memory}", first("/proc/cpuinfo", "model name", ':')),
            system: format!("{}, Linux {}", first("/etc/os-release", "PRETTY_NAME", '='), kernel.trim()),
            load_average: fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned(),
            data: data.name(),
            pairs,
            drivers: ["zookeeper-client", "etcd-client", "redis", "tokio"].map(locked).into(),
            servers: Vec::new(),
        }
    }
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success());
    output.map_or("unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn commit() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let root = root.display().to_string();
    let head = said("git", &["-C", &root, "rev-parse", "--short=12", "HEAD"]);
    let changed = said("git", &["-C", &root, "status", "--porcelain", "--untracked-files=no"]);
    if changed.is_empty() { head } else { format!("{head} with uncommitted changes") }
}

/// A package and its version in the lock file of this build.
pub(crate) fn locked(name: &str) -> String {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let after = LOCK.split_once(&format!("name = \"{name}\"\nversion = \"")).map_or("", |(_, after)| after);
    format!("{name} {}", after.split('"').next().unwrap_or("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let version = locked("tokio");
        assert!(version.starts_with("tokio 1."), "{version}");
    }
}
