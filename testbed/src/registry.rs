//! A record of what runs, on disk, so that what a killed test run left behind can be found.
//!
//! Each server has a file in the run folder with the process that owns it, the process that is it,
//! and its data. A process is named by its number and its start time: numbers are used again.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
};

use rustix::process::{Pid, Signal, getuid, kill_process};

use crate::{Result, TestbedError};

/// The start of the name of every folder with data, checked before one is removed.
pub(crate) const DATA_PREFIX: &str = "coord-testbed-";

/// A process, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In clock ticks since the boot.
    pub(crate) started: u64,
}

impl Process {
    /// The live process with this number. `None` if there is none, if it has ended and waits to
    /// be reaped, or if the system has no `/proc` to tell.
    pub(crate) fn find(pid: u32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the program's name in parentheses and may hold anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Process { pid, started })
    }

    pub(crate) fn alive(self) -> bool {
        Process::find(self.pid) == Some(self)
    }

    fn parse(line: &str) -> Option<Process> {
        let (pid, started) = line.split_once(' ')?;
        Some(Process { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }
}

/// The record of one server; removed when dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    path: PathBuf,
    data: PathBuf,
}

fn folder() -> PathBuf {
    env::temp_dir().join(format!("coord-testbed-run-{}", getuid().as_raw()))
}

impl Entry {
    /// Records that this process is about to have a server with its data there.
    pub(crate) fn new(data: &Path) -> Result<Entry> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = folder();
        fs::create_dir_all(&folder).map_err(TestbedError::io(format!("create {}", folder.display())))?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}", std::process::id()));
        let entry = Entry { path, data: data.to_owned() };
        entry.write(None)?;
        Ok(entry)
    }

    /// Adds the process that is the server.
    pub(crate) fn running(&self, pid: u32) -> Result<()> {
        self.write(Process::find(pid))
    }

    fn write(&self, server: Option<Process>) -> Result<()> {
        let line = |process: Option<Process>| match process {
            Some(Process { pid, started }) => format!("{pid} {started}"),
            None => String::new(),
        };
        let owner = line(Process::find(std::process::id()));
        let text = format!("{owner}\n{}\n{}\n", line(server), self.data.display());
        // Moved into place, or a sweep could read half of it.
        let whole = self.path.with_extension("new");
        fs::write(&whole, text)
            .and_then(|()| fs::rename(&whole, &self.path))
            .map_err(TestbedError::io(format!("write {}", self.path.display())))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Ends what test runs that were killed have left: server processes, their data and, with the
/// feature `docker`, containers. Servers of runs that are still alive are not touched. Gives the
/// number of servers removed.
///
/// The first server each process starts does this by itself.
///
/// # Errors
/// If the record of what runs cannot be read, or the container engine refuses; that there is no
/// engine is no error.
pub async fn sweep() -> Result<usize> {
    let local = sweep_processes().map_err(TestbedError::io("sweep stale servers"))?;
    Ok(local + sweep_containers().await?)
}

#[cfg(feature = "docker")]
use crate::docker::sweep as sweep_containers;

#[cfg(not(feature = "docker"))]
#[expect(clippy::unused_async, reason = "the same signature as with the feature")]
async fn sweep_containers() -> Result<usize> {
    Ok(0)
}

/// Sweeps local processes, once in the life of this process.
pub(crate) fn sweep_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(error) = sweep_processes() {
            tracing::warn!(%error, "could not sweep stale servers");
        }
    });
}

fn sweep_processes() -> io::Result<usize> {
    let mut swept = 0;
    let files = match fs::read_dir(folder()) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    for file in files {
        let path = file?.path();
        // Another sweep may be faster: a file that is gone is swept.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let mut lines = text.lines();
        let owner = lines.next().and_then(Process::parse);
        // Without /proc no owner is known, and nothing is ever taken for stale.
        if owner.is_none_or(Process::alive) {
            continue;
        }
        if let Some(server) = lines.next().and_then(Process::parse)
            && server.alive()
            && let Some(pid) = i32::try_from(server.pid).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
        if let Some(data) = lines.next().map(Path::new)
            && data.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DATA_PREFIX))
        {
            let _ = fs::remove_dir_all(data);
        }
        let _ = fs::remove_file(&path);
        swept += 1;
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_its_number_and_its_start() {
        let me = Process::find(std::process::id()).unwrap();
        assert!(me.alive());
        assert!(!Process { started: me.started + 1, ..me }.alive());
        assert_eq!(Process::parse(&format!("{} {}", me.pid, me.started)), Some(me));
        assert_eq!(Process::parse(""), None);
    }
}
