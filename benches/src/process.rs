//! A process that a benchmark starts and listens to.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::Result;

/// How long one may say nothing: many JVMs that start together take their time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A process that tells what it does, line by line. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Result<Process> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or("the process has no output")?;
        Ok(Process { child, lines: BufReader::new(output).lines() })
    }

    /// The next line that it prints.
    pub(crate) async fn line(&mut self) -> Result<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        if let Some(line) =
            line.map_err(|_| format!("a process of the run said nothing for {PATIENCE:?}"))??
        {
            return Ok(line);
        }
        let mut why = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            errors.read_to_string(&mut why).await?;
        }
        Err(format!("a process of the run has ended: {}", why.trim()).into())
    }
}
