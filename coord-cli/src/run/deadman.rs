//! A deadman's switch: a second process that kills the command's group when coord no longer can.
//!
//! coord tells it through a pipe until when the lock surely holds. If the pipe closes without a goodbye (coord was
//! killed) or that moment passes without another (coord is frozen), it kills the whole group: the lock may be granted to
//! another then. It is in a process group of its own, out of the way of the terminal's signals.

use std::{
    ffi::OsString,
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};
use tokio::time::Instant;

use super::child::own_program;
use crate::{code, exit::say};

/// The first argument of the process.
pub(super) const HELPER: &str = "__deadman";

/// Time that all processes of this machine share. It goes on while the machine is suspended.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

fn now() -> io::Result<Duration> {
    Ok(Duration::from(clock_gettime(CLOCK)?))
}

/// coord's end of the switch.
#[derive(Debug)]
pub(super) struct Deadman {
    process: Child,
    pipe: ChildStdin,
    told: Option<Instant>,
    gone: bool,
}

impl Deadman {
    /// Starts the process, with nobody to watch over yet.
    pub(super) fn start() -> io::Result<Self> {
        let mut process = Command::new(own_program()?)
            .arg(HELPER)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = process.stdin.take().ok_or_else(|| io::Error::other("no pipe to the deadman"))?;
        Ok(Self { process, pipe, told: None, gone: false })
    }

    /// Whom to kill.
    pub(super) fn watch_over(&mut self, group: Pid) {
        self.send(&Message::Group(group));
    }

    /// When to kill, unless told otherwise before.
    pub(super) fn kill_at(&mut self, at: Instant) {
        if self.told == Some(at) {
            return;
        }
        if let Ok(now) = now() {
            self.told = Some(at);
            self.send(&Message::Until(now + at.saturating_duration_since(Instant::now())));
        }
    }

    /// The command ended: nobody is to be killed any more.
    pub(super) fn goodbye(mut self) {
        self.send(&Message::Goodbye);
        drop(self.pipe);
        // It ends at once, and must not stay a zombie.
        if let Err(error) = self.process.wait() {
            tracing::debug!(%error, "the deadman");
        }
    }

    fn send(&mut self, message: &Message) {
        let line = match message {
            Message::Group(group) => format!("group {group}\n"),
            Message::Until(at) => format!("until {}\n", at.as_nanos()),
            Message::Goodbye => "goodbye\n".to_owned(),
        };
        if self.gone {
            return;
        }
        if let Err(error) = self.pipe.write_all(line.as_bytes()) {
            self.gone = true;
            // Only its end closes its side of the pipe, so this does not wait.
            match self.process.wait() {
                // Our side was open all the time: its moment came, and coord did not tell another.
                Ok(status) if status.code() == Some(code::LOST.into()) => {
                    say("the deadman stopped the command while coord was frozen");
                }
                _ => {
                    tracing::warn!(%error, "the deadman is gone: nobody stops the command if coord is killed");
                }
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Message {
    Group(Pid),
    Until(Duration),
    Goodbye,
}

impl Message {
    fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            None if line == "goodbye" => Some(Self::Goodbye),
            Some(("group", number)) => number
                .parse()
                .ok()
                .filter(|number| *number > 1)
                .map(|number| Self::Group(Pid::from_raw(number))),
            Some(("until", nanos)) => {
                nanos.parse().ok().map(|nanos| Self::Until(Duration::from_nanos(nanos)))
            }
            _ => None,
        }
    }
}

/// The process.
pub(super) fn watch_over(_: &[OsString]) -> u8 {
    let (sender, messages) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Some(message) = Message::parse(&line)
                && sender.send(message).is_err()
            {
                return;
            }
        }
    });
    let (mut group, mut until) = (None, None);
    loop {
        let message = match until {
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => {
                let left = now().map_or(Duration::ZERO, |now| Duration::saturating_sub(at, now));
                messages.recv_timeout(left)
            }
        };
        match message {
            Ok(Message::Group(pid)) => group = Some(pid),
            Ok(Message::Until(at)) => until = Some(at),
            Ok(Message::Goodbye) => return code::YES,
            Err(_) => {
                if let Some(group) = group {
                    // Fails if all of them are gone already.
                    let _ = killpg(group, Signal::SIGKILL);
                }
                return code::LOST;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_a_group_of_everybody_is_not() {
        assert_eq!(Message::parse("group 4711"), Some(Message::Group(Pid::from_raw(4711))));
        assert_eq!(Message::parse("until 1500000000"), Some(Message::Until(Duration::from_millis(1500))));
        assert_eq!(Message::parse("goodbye"), Some(Message::Goodbye));
        for bad in ["", "group", "group 0", "group 1", "group -1", "until x", "until -1", "goodbye 1", "x"] {
            assert_eq!(Message::parse(bad), None, "{bad}");
        }
    }
}
