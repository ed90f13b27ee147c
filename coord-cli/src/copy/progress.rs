//! How far a copy is, on a terminal.

use std::{
    env,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// How often it is told.
const OFTEN: Duration = Duration::from_millis(100);

/// One line of standard error that is written over again and again; nothing where that is no terminal.
#[derive(Debug)]
pub(super) struct Progress {
    enabled: bool,
    told: Option<Instant>,
}

impl Progress {
    pub(super) fn new() -> Self {
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { enabled: io::stderr().is_terminal() && !dumb, told: None }
    }

    /// Tells, unless it was told a moment ago. Short, so that it fits into a narrow terminal.
    pub(super) fn tell(&mut self, what: &str, done: usize, all: Option<usize>) {
        if !self.enabled || self.told.is_some_and(|told| told.elapsed() < OFTEN) {
            return;
        }
        self.told = Some(Instant::now());
        let all = all.map_or_else(String::new, |all| format!(" of {all}"));
        // Back to the beginning, the text, and nothing behind it.
        let _ = write!(io::stderr(), "\r{what}: {done}{all}\x1b[K");
    }

    /// Takes the line away, for what is said next.
    pub(super) fn clear(&mut self) {
        if self.told.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
