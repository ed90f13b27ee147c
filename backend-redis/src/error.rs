//! What the driver and the server say, as errors of coord: one table.

use coord_api::{Error, ErrorKind, Retry};
use redis::{ErrorKind as Driver, RedisError};

/// What was being done when an error came: it decides what a lost reply means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum During {
    /// A connection was being made: nothing of the caller's was sent.
    Connect {
        /// With TLS: bytes that make no sense are then a failed handshake.
        tls: bool,
    },
    /// A call that changes nothing.
    Read,
    /// A call that may change something.
    Write,
}

/// An error, and whether the connection it came over is of no more use.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    pub(crate) reconnect: bool,
}

/// The table.
///
/// The server's own text is quoted only for codes whose text is fixed by the server: others may quote what was
/// sent, and that may be a password.
pub(crate) fn classify(error: &RedisError, during: During) -> Fault {
    match error.kind() {
        Driver::Server(_) | Driver::Extension => server(error),
        Driver::AuthenticationFailed => {
            keep(Error::new(ErrorKind::Unauthenticated, "the server does not accept the user or password"))
        }
        Driver::Io => io(error, during),
        Driver::Client if matches!(during, During::Connect { tls: true }) => tls(error),
        Driver::InvalidClientConfig => {
            keep(Error::config("the driver refuses the settings of the connection"))
        }
        Driver::RESP3NotSupported => keep(Error::config(
            "the server does not speak RESP3: Redis 7.0 or Valkey 7.2 is the oldest that works",
        )),
        // A reply that cannot be read: where the next one begins is not known either.
        _ => lost("the reply of the server cannot be read", during),
    }
}

fn keep(error: Error) -> Fault {
    Fault { error, reconnect: false }
}

fn replace(error: Error) -> Fault {
    Fault { error, reconnect: true }
}

/// No reply, or one that cannot be read.
fn lost(what: &'static str, during: During) -> Fault {
    replace(if during == During::Write { Error::ambiguous(what) } else { Error::unavailable(what) })
}

/// A server that does not answer: whatever comes yet, the connection is given up.
pub(crate) fn silence(during: During) -> Error {
    lost("the server did not answer in time", during).error
}

fn io(error: &RedisError, during: During) -> Fault {
    use std::io::ErrorKind as Io;
    if error.is_timeout() {
        return replace(silence(during));
    }
    if error.is_connection_refusal() {
        return replace(Error::unavailable("the connection was refused"));
    }
    let cause = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    match (cause.map(std::io::Error::kind), during) {
        (Some(Io::InvalidData), During::Connect { tls: true }) => tls(error),
        (Some(Io::InvalidInput), During::Connect { .. }) => keep(Error::config("a host name that is none")),
        (_, During::Connect { tls: true }) if cause.is_none() && !error.is_connection_dropped() => tls(error),
        (_, During::Connect { .. }) => replace(Error::unavailable("the server cannot be reached")),
        _ => lost("the connection was lost before the reply", during),
    }
}

/// Certificates and names are no secrets, and without the cause nobody can help himself.
fn tls(error: &RedisError) -> Fault {
    keep(Error::new(ErrorKind::Tls, "the TLS handshake failed").with_context("cause", error))
}

fn server(error: &RedisError) -> Fault {
    let code = error.code().unwrap_or("ERR");
    let detail = error.detail().unwrap_or("");
    let refused = |why: &'static str| Error::unavailable(why).with_context("server", code);
    match code {
        "COORD" => keep(ours(detail)),
        "LOADING" => replace(refused("the server is loading its data")),
        "BUSY" => keep(refused("the server is busy with a script")),
        "READONLY" => replace(refused("the server is a replica")),
        "UNBLOCKED" => replace(refused("the server became a replica")),
        "MASTERDOWN" => replace(refused("the server is a replica without its primary")),
        "MOVED" | "ASK" | "CLUSTERDOWN" | "TRYAGAIN" => {
            replace(refused("this node of the cluster does not serve the namespace"))
        }
        "NOREPLICAS" => keep(refused("the server has too few replicas to write (min-replicas-to-write)")),
        "OOM" => keep(refused("the server is out of memory (maxmemory)")),
        "MISCONF" => keep(refused("the server cannot save its data to disk and refuses writes")),
        "NOSCRIPT" => keep(refused("the server forgot the script again")),
        "NOAUTH" | "WRONGPASS" => keep(
            Error::new(ErrorKind::Unauthenticated, "the server does not accept the user or password")
                .with_context("server", code),
        ),
        "NOPERM" => keep(
            Error::new(ErrorKind::PermissionDenied, "the user may not do what coord needs")
                .with_context("server", code),
        ),
        "WRONGTYPE" => {
            keep(Error::new(ErrorKind::Malformed, "others made a key of the namespace, with another type"))
        }
        "CROSSSLOT" => keep(
            Error::new(ErrorKind::Unexpected, "the keys are not in one slot").with_context("server", code),
        ),
        // Redis 7.0 tells what is refused inside of a script by a text behind ERR.
        _ if detail.contains("ACL failure in script")
            || detail.contains("can't run this command or subcommand") =>
        {
            keep(Error::new(ErrorKind::PermissionDenied, "the user may not do what coord needs"))
        }
        _ if detail.contains("max number of clients") => replace(refused("the server has too many clients")),
        // A script that failed in the middle may have written.
        _ => keep(
            Error::new(ErrorKind::Unexpected, "the server refused the call")
                .with_retry(Retry::Ambiguous)
                .with_context("server", code),
        ),
    }
}

/// What our own scripts say.
fn ours(detail: &str) -> Error {
    // Servers add where in the script it was.
    let detail = detail.rsplit_once(" script: ").map_or(detail, |(said, _)| said);
    let (what, about) = detail.split_once(' ').unwrap_or((detail, ""));
    match what {
        "SESSIONLOST" => Error::session_lost("the session is over: open a new one"),
        "SCHEMA" => Error::config(
            "the namespace was written by a newer coord: use that version, or another namespace",
        )
        .with_context("schema", about),
        "STATELESS" => {
            Error::unavailable("the namespace is empty on this server").with_context("server", STATELESS)
        }
        _ => Error::new(ErrorKind::Malformed, "a record in the store is not of our form")
            .with_context("key", about),
    }
}

const STATELESS: &str = "STATELESS";

/// Whether a read found no namespace at all: it was flushed, and the next tick begins it again.
pub(crate) fn is_stateless(error: &Error) -> bool {
    error.context().any(|(name, value)| name == "server" && value == STATELESS)
}

/// The handle was closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the handle was closed")
}

/// Whether trying again cannot help until somebody changes something.
pub(crate) fn is_final(error: &Error) -> bool {
    error.retry() == Retry::Never
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
