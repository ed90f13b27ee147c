//! What etcd and its driver say, as coord's errors.

use coord_api::{Error, ErrorKind, Result, Retry};

/// gRPC status codes.
mod code {
    pub(super) const CANCELLED: i32 = 1;
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const DEADLINE_EXCEEDED: i32 = 4;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAVAILABLE: i32 = 14;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// What kind of call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Changes nothing: it may always be sent again.
    Read,
    /// May have been applied if the reply was lost.
    Write,
}

/// A failed call, still with what the callers inside of this crate decide by.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The endpoint is to blame: try another.
    pub(crate) rotate: bool,
    /// Nothing came back in time: the connection may be half open.
    pub(crate) silent: bool,
    /// The answer was larger than the decode limit.
    pub(crate) too_large: bool,
    /// The revision asked for is compacted.
    pub(crate) compacted: bool,
    /// A put that keeps the key's lease found no key.
    pub(crate) no_key: bool,
    /// The connection ended in a way that says nothing, as when one side speaks TLS and the other does not.
    pub(crate) inconclusive: bool,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// The kind and retry class of a gRPC status.
///
/// `etcdserver:` messages are matched by their text: etcd maps many different errors to one code.
pub(crate) fn classify(status: i32, message: &str, call: Call) -> (ErrorKind, Retry) {
    let says = |text: &str| message.contains(text);
    // The reply was lost: a read may be sent again, a write may have been applied.
    let lost = (
        ErrorKind::Unavailable,
        match call {
            Call::Read => Retry::Safe,
            Call::Write => Retry::Ambiguous,
        },
    );
    let refused = (ErrorKind::Unavailable, Retry::Safe);
    if says("invalid peer certificate") || says("received fatal alert") || says("InvalidContentType") {
        return (ErrorKind::Tls, Retry::Never);
    }
    match status {
        code::INVALID_ARGUMENT => {
            if says("authentication failed") || says("user name is empty") || says("user name not found") {
                (ErrorKind::Unauthenticated, Retry::Never)
            } else if says("revision of auth store is old") {
                refused
            } else if says("too large") || says("too many operations") {
                (ErrorKind::LimitExceeded, Retry::Never)
            } else {
                (ErrorKind::InvalidArgument, Retry::Never)
            }
        }
        code::NOT_FOUND if says("lease not found") => (ErrorKind::SessionLost, Retry::Never),
        code::PERMISSION_DENIED => (ErrorKind::PermissionDenied, Retry::Never),
        code::UNAUTHENTICATED => (ErrorKind::Unauthenticated, Retry::Never),
        code::FAILED_PRECONDITION => {
            if says("authentication is not enabled") {
                (ErrorKind::Unauthenticated, Retry::Never)
            } else if says("not leader") {
                refused
            } else {
                (ErrorKind::Unexpected, Retry::Never)
            }
        }
        code::RESOURCE_EXHAUSTED => {
            if says("database space exceeded") {
                // Passes only when somebody compacts and defragments.
                (ErrorKind::Unavailable, Retry::Never)
            } else if says("larger than max") {
                (ErrorKind::LimitExceeded, Retry::Never)
            } else if says("too many requests") {
                refused
            } else {
                lost
            }
        }
        code::OUT_OF_RANGE => {
            if says("has been compacted") || says("future revision") {
                refused
            } else {
                // Larger than the decode limit.
                (ErrorKind::LimitExceeded, lost.1)
            }
        }
        code::UNAVAILABLE if says("tcp connect error") || says("dns error") || says("no leader") => refused,
        // What hyper says of a request that it gives back unsent.
        code::CANCELLED
            if says("operation was canceled")
                && (says("connection closed") || says("connection was not ready")) =>
        {
            refused
        }
        code::UNAVAILABLE | code::CANCELLED | code::DEADLINE_EXCEEDED => lost,
        // Unknown is what the driver makes of broken connections, besides of what it does not know.
        code::UNKNOWN if !says("etcdserver:") => lost,
        code::UNIMPLEMENTED => (ErrorKind::Unexpected, Retry::Never),
        _ => (ErrorKind::Unexpected, lost.1),
    }
}

/// The failure that a driver's error stands for.
pub(crate) fn failure(error: etcd_client::Error, call: Call) -> Failure {
    use etcd_client::Error as Driver;
    match error {
        Driver::GRpcStatus(status) => {
            let number = i32::from(status.code());
            // Causes may say more than the status, such as which certificate was refused.
            let mut message = status.message().to_owned();
            let mut source = std::error::Error::source(&status);
            while let Some(cause) = source {
                let text = cause.to_string();
                if !message.contains(&text) {
                    message = format!("{message}: {text}");
                }
                source = cause.source();
            }
            by_status(number, message, call)
        }
        // Of the driver itself, before or beside the server. Their text holds no credentials.
        Driver::InvalidArgs(message) => Failure::plain(Error::config(message)),
        Driver::InvalidUri(_) => Failure::plain(Error::config("a host of the URL is no valid address")),
        // Not its text: it may quote the token.
        Driver::InvalidMetadataValue(_) => {
            Failure::plain(Error::new(ErrorKind::Unauthenticated, "the server's token cannot be sent"))
        }
        other => by_status(code::UNAVAILABLE, other.to_string(), call),
    }
}

impl Failure {
    /// A failure that says all by its error.
    pub(crate) fn plain(error: Error) -> Self {
        Self {
            error,
            rotate: false,
            silent: false,
            too_large: false,
            compacted: false,
            no_key: false,
            inconclusive: false,
        }
    }
}

fn by_status(number: i32, message: String, call: Call) -> Failure {
    let (kind, retry) = classify(number, &message, call);
    let too_large = number == code::OUT_OF_RANGE && kind == ErrorKind::LimitExceeded;
    let compacted = number == code::OUT_OF_RANGE && message.contains("has been compacted");
    let no_key = number == code::INVALID_ARGUMENT && message.contains("etcdserver: key not found");
    let silent = message.contains("Timeout expired");
    let server = message.contains("etcdserver:") || message.contains("mvcc:");
    Failure {
        error: Error::new(kind, said(kind, retry)).with_retry(retry).with_source(message),
        rotate: kind == ErrorKind::Unavailable && retry != Retry::Never && !compacted,
        silent,
        too_large,
        compacted,
        no_key,
        inconclusive: !server && matches!(number, code::CANCELLED | code::UNKNOWN | code::UNAVAILABLE),
    }
}

fn said(kind: ErrorKind, retry: Retry) -> &'static str {
    match (kind, retry) {
        (ErrorKind::Unavailable, Retry::Ambiguous) => "lost the connection to etcd before the reply",
        (ErrorKind::Unavailable, _) => "etcd cannot be reached or refuses for now",
        (ErrorKind::Tls, _) => "the TLS handshake with etcd failed",
        (ErrorKind::Unauthenticated, _) => "etcd does not accept the user or password",
        (ErrorKind::PermissionDenied, _) => "the user may not do that in etcd",
        (ErrorKind::SessionLost, _) => "the session's lease is gone",
        (ErrorKind::LimitExceeded, _) => "larger than etcd or the driver takes",
        _ => "etcd refused the call",
    }
}

/// Shorthand for calls of which only the error matters.
pub(crate) fn read<T>(result: Result<T, etcd_client::Error>) -> Result<T, Failure> {
    result.map_err(|e| failure(e, Call::Read))
}

/// An answer that breaks the protocol.
pub(crate) fn broken(what: &'static str) -> Error {
    Error::new(ErrorKind::Unexpected, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row each of the table of what was seen on real servers.
    #[test]
    fn every_answer_seen_has_its_kind_and_retry() {
        use Call::{Read, Write};
        use ErrorKind as K;
        use Retry::{Ambiguous, Never, Safe};
        let rows = [
            (14, "tcp connect error", Write, K::Unavailable, Safe),
            (14, "tcp connect error: Connection refused (os error 111)", Read, K::Unavailable, Safe),
            (14, "dns error", Write, K::Unavailable, Safe),
            (2, "transport error", Write, K::Unavailable, Ambiguous),
            (2, "transport error", Read, K::Unavailable, Safe),
            (2, "h2 protocol error: error reading a body from connection", Write, K::Unavailable, Ambiguous),
            (1, "Timeout expired", Write, K::Unavailable, Ambiguous),
            (1, "Timeout expired", Read, K::Unavailable, Safe),
            (1, "operation was canceled", Write, K::Unavailable, Ambiguous),
            (1, "operation was canceled: connection closed", Write, K::Unavailable, Safe),
            (1, "operation was canceled: connection was not ready", Write, K::Unavailable, Safe),
            (14, "http2 error", Write, K::Unavailable, Ambiguous),
            (14, "etcdserver: no leader", Write, K::Unavailable, Safe),
            (14, "etcdserver: request timed out", Write, K::Unavailable, Ambiguous),
            (14, "etcdserver: request timed out", Read, K::Unavailable, Safe),
            (
                14,
                "etcdserver: request timed out, possibly due to previous leader failure",
                Write,
                K::Unavailable,
                Ambiguous,
            ),
            (14, "etcdserver: leader changed", Write, K::Unavailable, Ambiguous),
            (14, "etcdserver: server stopped", Write, K::Unavailable, Ambiguous),
            (4, "context deadline exceeded", Write, K::Unavailable, Ambiguous),
            (9, "etcdserver: not leader", Write, K::Unavailable, Safe),
            (5, "etcdserver: requested lease not found", Write, K::SessionLost, Never),
            (11, "etcdserver: mvcc: required revision has been compacted", Read, K::Unavailable, Safe),
            (11, "etcdserver: mvcc: required revision is a future revision", Read, K::Unavailable, Safe),
            (11, "Error, decoded message length too large: found 9 bytes", Read, K::LimitExceeded, Safe),
            (3, "etcdserver: request is too large", Write, K::LimitExceeded, Never),
            (3, "etcdserver: too many operations in txn request", Write, K::LimitExceeded, Never),
            (3, "etcdserver: duplicate key given in txn request", Write, K::InvalidArgument, Never),
            (3, "etcdserver: key not found", Write, K::InvalidArgument, Never),
            (8, "grpc: received message larger than max (3 vs. 2)", Write, K::LimitExceeded, Never),
            (8, "etcdserver: mvcc: database space exceeded", Write, K::Unavailable, Never),
            (8, "etcdserver: too many requests", Write, K::Unavailable, Safe),
            (16, "etcdserver: invalid auth token", Write, K::Unauthenticated, Never),
            (
                3,
                "etcdserver: authentication failed, invalid user ID or password",
                Read,
                K::Unauthenticated,
                Never,
            ),
            (3, "etcdserver: user name is empty", Write, K::Unauthenticated, Never),
            (3, "etcdserver: revision of auth store is old", Write, K::Unavailable, Safe),
            (9, "etcdserver: authentication is not enabled", Read, K::Unauthenticated, Never),
            (7, "etcdserver: permission denied", Write, K::PermissionDenied, Never),
            (14, "invalid peer certificate: UnknownIssuer", Write, K::Tls, Never),
            (14, "received corrupt message of type InvalidContentType", Read, K::Tls, Never),
            (2, "received fatal alert: CertificateRequired", Read, K::Tls, Never),
            (12, "unknown service", Read, K::Unexpected, Never),
            (13, "internal", Write, K::Unexpected, Ambiguous),
            (2, "etcdserver: corrupt cluster", Write, K::Unexpected, Ambiguous),
        ];
        for (status, message, call, kind, retry) in rows {
            assert_eq!(classify(status, message, call), (kind, retry), "{status} {message:?} {call:?}");
        }
    }

    #[test]
    fn only_etcd_itself_says_that_a_key_is_absent() {
        for (status, message, no_key) in [
            (3, "etcdserver: key not found", true),
            (3, "etcdserver: duplicate key given in txn request", false),
            (2, "etcdserver: key not found", false),
            (14, "transport error", false),
        ] {
            assert_eq!(by_status(status, message.into(), Call::Write).no_key, no_key, "{message}");
        }
    }

    #[test]
    fn only_trouble_with_the_endpoint_moves_to_another() {
        for (status, message, rotate) in [
            (14, "tcp connect error", true),
            (1, "Timeout expired", true),
            (2, "transport error", true),
            (5, "etcdserver: requested lease not found", false),
            (7, "etcdserver: permission denied", false),
            (11, "etcdserver: mvcc: required revision has been compacted", false),
            (8, "etcdserver: mvcc: database space exceeded", false),
        ] {
            assert_eq!(by_status(status, message.into(), Call::Write).rotate, rotate, "{message}");
        }
    }
}
