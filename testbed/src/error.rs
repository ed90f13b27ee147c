//! What can go wrong while providing a server.

use std::{error::Error, fmt, io, net::SocketAddr, path::PathBuf, time::Duration};

use crate::Kind;

/// Why a server could not be provided or handled.
///
/// The message of each variant is meant for the person who reads a failed test: it says what was
/// tried and, where there is one, the way to fix it.
#[derive(Debug)]
#[non_exhaustive]
pub enum TestbedError {
    /// The environment variable holds something that is not a provider.
    UnknownProvider {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: String,
    },
    /// The variable is not set, and no way to get a server was found.
    NoProvider {
        /// The kind asked for.
        kind: Kind,
        /// Why Docker was not it.
        docker: String,
        /// Where binaries were looked for.
        searched: Vec<PathBuf>,
    },
    /// The variable says `off`: the case must be reported as ignored, not as passed.
    Off {
        /// The kind asked for.
        kind: Kind,
    },
    /// The folder of local servers has no such server.
    MissingBinary {
        /// The kind asked for.
        kind: Kind,
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// The server did not answer a handshake in time.
    NotReady {
        /// The kind started.
        kind: Kind,
        /// Its address.
        addr: SocketAddr,
        /// How long it was waited for.
        waited: Duration,
        /// What the last attempt met.
        last: String,
        /// The end of the server's log.
        log: String,
    },
    /// The server ended by itself before it answered.
    Exited {
        /// The kind started.
        kind: Kind,
        /// How it ended.
        status: String,
        /// The end of the server's log.
        log: String,
    },
    /// This provider or kind of server cannot do that.
    Unsupported {
        /// What was asked.
        what: &'static str,
        /// Who cannot do it.
        by: &'static str,
    },
    /// The container engine refused, is not there, or has no such image.
    Docker {
        /// What was being done.
        what: String,
        /// What the engine said.
        message: String,
    },
    /// A set-up step after the start failed, such as turning authentication on.
    Setup {
        /// What was being done.
        what: String,
        /// What went wrong.
        message: String,
    },
    /// The URL given for a server cannot be used.
    BadUrl {
        /// The URL, without credentials.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system refused something.
    Io {
        /// What was being done.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

impl TestbedError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> TestbedError {
        let what = what.into();
        move |source| TestbedError::Io { what, source }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProvider { variable, value } => write!(
                f,
                "{variable}={value:?} names no provider; known are: docker, local, local:DIR, url:URL, off"
            ),
            Self::NoProvider { kind, docker, searched } => write!(
                f,
                "no {kind} server to test with. Docker: {docker}. Local: no {} in {}. Do one of: \
                 run scripts/fetch-servers.sh; make the image available ({}, scripts/build-images.sh) \
                 and set {var}=docker; set {var}=url:{}://HOST:PORT; or set {var}=off to leave these \
                 tests out",
                kind.binary(),
                list(searched),
                kind.image_variable(),
                kind.scheme(),
                var = kind.variable(),
            ),
            Self::Off { kind } => write!(f, "{}=off: tests with {kind} are left out", kind.variable()),
            Self::MissingBinary { kind, searched } => write!(
                f,
                "no {} in {}; run scripts/fetch-servers.sh or set {}=local:DIR",
                kind.binary(),
                list(searched),
                kind.variable()
            ),
            Self::NotReady { kind, addr, waited, last, log } => {
                write!(f, "{kind} at {addr} did not answer a handshake within {waited:?}: {last}\n{log}")
            }
            Self::Exited { kind, status, log } => {
                write!(f, "{kind} ended before it was ready ({status})\n{log}")
            }
            Self::Unsupported { what, by } => write!(f, "{by} cannot {what}"),
            Self::Docker { what, message } => write!(f, "docker: {what}: {message}"),
            Self::Setup { what, message } => write!(f, "{what}: {message}"),
            Self::BadUrl { url, reason } => write!(f, "{url}: {reason}"),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl Error for TestbedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
