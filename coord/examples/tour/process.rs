//! A worker as a process: what it says, what it is told, and the signals that happen to it.

use std::{env, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{Result, Tour};

/// Much longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Worker {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts this program once more, as a worker.
    pub(crate) fn start(tour: &Tour, role: &str, name: &'static str) -> Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args([role, name, &tour.url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().ok_or("no input")?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        Ok(Self { name, child, stdin, lines })
    }

    /// Its next line, which must begin with this word; gives back the rest.
    pub(crate) async fn says(&mut self, word: &str) -> Result<String> {
        let line = timeout(PATIENCE, self.lines.next_line())
            .await
            .map_err(|_| format!("{} did not say {word:?}", self.name))??
            .ok_or_else(|| format!("{} has ended and did not say {word:?}", self.name))?;
        let rest = line.strip_prefix(word).ok_or_else(|| format!("{} said {line:?}", self.name))?;
        Ok(rest.trim().to_owned())
    }

    pub(crate) async fn tell(&mut self, line: &str) -> Result<()> {
        Ok(self.stdin.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Stops it, but not in the middle of a write to the file that all share: others would wait for it then.
    pub(crate) async fn freeze(&self, tour: &Tour) -> Result<()> {
        loop {
            self.signal(Signal::STOP)?;
            let probe = timeout(Duration::from_millis(500), tour.store.put("/probe", self.name));
            if probe.await.is_ok_and(|written| written.is_ok()) {
                return Ok(());
            }
            self.thaw()?;
        }
    }

    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Ends its input, and waits until it has ended.
    pub(crate) async fn end(mut self) -> Result<()> {
        drop(self.stdin);
        let status = timeout(PATIENCE, self.child.wait())
            .await
            .map_err(|_| format!("{} does not end", self.name))??;
        if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", self.name).into()) }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().ok_or("it has ended")?;
        let pid = Pid::from_raw(i32::try_from(id)?).ok_or("no process has this number")?;
        Ok(kill_process(pid, signal)?)
    }
}
