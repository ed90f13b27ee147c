//! How the command ends.

use std::{fmt, io, io::Write};

use coord::{Error, ErrorKind};
use nix::sys::signal::Signal;

/// Exit codes.
pub mod code {
    /// Yes, done.
    pub const YES: u8 = 0;
    /// No: absent, or something is wrong.
    pub const NO: u8 = 1;
    /// The arguments are wrong; clap's.
    pub const USAGE: u8 = 2;
    /// The key is in another version, or there already.
    pub const CONFLICT: u8 = 3;
    /// The lock was lost and the command stopped.
    pub const LOST: u8 = 123;
    /// The lock was not acquired in time; that of timeout(1).
    pub const NOT_ACQUIRED: u8 = 124;
    /// coord itself failed.
    pub const FAILED: u8 = 125;
    /// The command cannot be executed.
    pub const CANNOT_EXECUTE: u8 = 126;
    /// The command was not found.
    pub const NOT_FOUND: u8 = 127;

    /// The code of a command that signal `number` ended.
    #[must_use]
    pub fn of_signal(number: i32) -> u8 {
        u8::try_from(number).map_or(FAILED, |number| 128_u8.saturating_add(number))
    }
}

/// Why coord itself failed, or went no further.
#[derive(Debug)]
pub enum Failure {
    /// The store or its configuration.
    Store(Error),
    /// The system.
    System(io::Error),
    /// The configuration of the command.
    Setup(String),
    /// A signal ended the waiting, as it should.
    Signal(Signal),
}

impl Failure {
    /// Whether whoever read our output went away, which is their right.
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::System(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<nix::Error> for Failure {
    fn from(error: nix::Error) -> Self {
        Self::System(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::System(error) => error.fmt(f),
            Self::Setup(text) => f.write_str(text),
            Self::Signal(signal) => write!(f, "ended by {signal}"),
        }
    }
}

/// Tells the user, and returns the exit code.
pub(crate) fn report(failure: &Failure) -> u8 {
    if failure.is_broken_pipe() {
        return code::YES;
    }
    if let Failure::Signal(signal) = failure {
        return code::of_signal(*signal as i32);
    }
    say(&failure.to_string());
    if let Failure::Store(error) = failure
        && let Some(step) = next_step(error.kind())
    {
        // Not among the steps: doctor tells them too.
        let closer = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Timeout => "; `coord doctor` looks closer",
            _ => "",
        };
        say(&format!("next: {step}{closer}"));
    }
    code::FAILED
}

/// One line on standard error.
pub(crate) fn say(text: &str) {
    // Standard error may be closed; there is nobody left to tell then.
    let _ = writeln!(io::stderr(), "coord: {text}");
}

/// What the user can do about it.
pub(crate) const fn next_step(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Unavailable | ErrorKind::Timeout => {
            Some("see that the server runs and that host and port are right")
        }
        ErrorKind::Unauthenticated => Some(
            "give the user in the URL or COORD_USERNAME, the password in COORD_PASSWORD or password_file",
        ),
        ErrorKind::PermissionDenied => Some("give this user the right to these keys, or use another user"),
        ErrorKind::Tls => Some(
            "see that the server speaks TLS on this port and that its certificate is trusted and names this host; \
             zks, etcds and rediss are the schemes with TLS, zk, etcd and redis those without",
        ),
        _ => None,
    }
}
