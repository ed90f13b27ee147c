//! The one table from the driver's errors to ours.

use coord_api::{Error, ErrorKind, SessionId};

use crate::client::ClientError;

/// Whether a call changes the store: only then is a lost reply ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Read,
    Write,
}

/// What an error of the driver means. What is not surely unapplied is ambiguous.
pub(crate) fn classify(error: ClientError, call: Call) -> Error {
    match (error, call) {
        (ClientError::NotSent, _) => Error::unavailable("the store is not reachable"),
        (ClientError::NoReply, Call::Read) => Error::unavailable("the reply was lost"),
        (ClientError::NoReply, Call::Write) => Error::ambiguous("the reply was lost"),
        (ClientError::NoSession, _) => Error::session_lost("the store does not know the session any more"),
    }
}

/// The error of a handle that was closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store's handle was closed")
}

/// The error of a call for a session that its owner may not believe in any more.
pub(crate) fn over(id: &SessionId) -> Error {
    Error::session_lost("the session is over: open a new one").with_context("session", id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_api::Retry;

    #[test]
    fn every_error_has_its_kind_and_retry() {
        for (error, call, kind, retry) in [
            (ClientError::NotSent, Call::Read, ErrorKind::Unavailable, Retry::Safe),
            (ClientError::NotSent, Call::Write, ErrorKind::Unavailable, Retry::Safe),
            (ClientError::NoReply, Call::Read, ErrorKind::Unavailable, Retry::Safe),
            (ClientError::NoReply, Call::Write, ErrorKind::Unavailable, Retry::Ambiguous),
            (ClientError::NoSession, Call::Write, ErrorKind::SessionLost, Retry::Never),
        ] {
            let told = classify(error, call);
            assert_eq!((told.kind(), told.retry()), (kind, retry), "{error:?}, {call:?}");
        }
    }
}
