//! What SQLite and the system say, as errors of coord: one table.

use std::io;

use coord_api::{Error, ErrorKind, Retry};
use rusqlite::{ErrorCode, ffi};

/// What was being done when an error came: it decides whether something may have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum During {
    /// Anything before the commit: a transaction that was begun is rolled back.
    Work,
    /// The commit itself.
    Commit,
}

/// Why a job failed: refused by what the store holds, or the driver could not.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The answer of this job alone, which changed nothing.
    Refused(Error),
    /// The whole transaction is rolled back.
    Driver(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Fault {
    /// As an error of a call that wrote nothing.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Driver(error) => classify(&error, During::Work),
        }
    }
}

/// Whether somebody else has the lock that is needed.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The table.
pub(crate) fn classify(error: &rusqlite::Error, during: During) -> Error {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => code(*failure, during),
        rusqlite::Error::Utf8Error(_)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::QueryReturnedNoRows => damaged("a row of the file is not of our form"),
        _ => Error::new(ErrorKind::Unexpected, "the driver refused the call").with_source(error.to_string()),
    }
}

fn code(failure: ffi::Error, during: During) -> Error {
    let error = match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => busy(),
        // The mark that commits is written last: it was not.
        ErrorCode::DiskFull => Error::unavailable("the disk is full"),
        ErrorCode::SystemIoFailure if during == During::Commit => {
            Error::ambiguous("writing the file failed in the middle of the commit")
        }
        ErrorCode::SystemIoFailure => Error::unavailable("the file cannot be read or written"),
        ErrorCode::OutOfMemory => Error::unavailable("there is no memory left"),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            Error::new(ErrorKind::PermissionDenied, "the file cannot be written by this user")
        }
        ErrorCode::CannotOpen => Error::new(
            ErrorKind::PermissionDenied,
            "the file, or those that SQLite keeps beside it, cannot be opened by this user",
        ),
        ErrorCode::DatabaseCorrupt => damaged("the file is damaged"),
        ErrorCode::NotADatabase => damaged("the file is no SQLite database"),
        ErrorCode::TooBig => Error::new(ErrorKind::LimitExceeded, "larger than SQLite takes"),
        // Our own text is right, so the tables are not.
        ErrorCode::Unknown | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch => {
            damaged("the tables of the file are not of our form")
        }
        ErrorCode::FileLockingProtocolFailed => Error::unavailable("the locks of the file are contended"),
        _ => Error::new(ErrorKind::Unexpected, "SQLite refused the call"),
    };
    error.with_context("sqlite", failure.extended_code)
}

fn damaged(what: &'static str) -> Error {
    Error::new(ErrorKind::Malformed, what)
}

/// Somebody else is writing, or stands still while writing.
pub(crate) fn busy() -> Error {
    Error::unavailable("another process holds the write lock of the file")
}

/// What the system says of a file or directory.
pub(crate) fn system(cause: &io::Error, what: &'static str) -> Error {
    use io::ErrorKind as Io;
    let error = match cause.kind() {
        Io::PermissionDenied | Io::ReadOnlyFilesystem => Error::new(ErrorKind::PermissionDenied, what),
        Io::NotFound | Io::NotADirectory | Io::IsADirectory | Io::InvalidInput | Io::InvalidFilename => {
            Error::config(what)
        }
        Io::StorageFull | Io::QuotaExceeded => Error::unavailable(what),
        _ => Error::new(ErrorKind::Unavailable, what),
    };
    error.with_context("cause", cause)
}

/// The file is not the one that was opened.
pub(crate) fn replaced() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the store's file was deleted or replaced while it was open: open the store again",
    )
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
mod tests {
    use coord_api::Outcome;

    use super::*;

    #[test]
    fn every_code_of_the_driver_has_a_verdict() {
        for (sqlite, kind, retry) in [
            (ffi::SQLITE_BUSY, ErrorKind::Unavailable, Retry::Safe),
            (ffi::SQLITE_LOCKED, ErrorKind::Unavailable, Retry::Safe),
            (ffi::SQLITE_FULL, ErrorKind::Unavailable, Retry::Safe),
            (ffi::SQLITE_NOMEM, ErrorKind::Unavailable, Retry::Safe),
            (ffi::SQLITE_IOERR_READ, ErrorKind::Unavailable, Retry::Safe),
            (ffi::SQLITE_PROTOCOL, ErrorKind::Unavailable, Retry::Safe),
            (ffi::SQLITE_READONLY, ErrorKind::PermissionDenied, Retry::Never),
            (ffi::SQLITE_PERM, ErrorKind::PermissionDenied, Retry::Never),
            (ffi::SQLITE_CANTOPEN, ErrorKind::PermissionDenied, Retry::Never),
            (ffi::SQLITE_CORRUPT, ErrorKind::Malformed, Retry::Never),
            (ffi::SQLITE_NOTADB, ErrorKind::Malformed, Retry::Never),
            (ffi::SQLITE_ERROR, ErrorKind::Malformed, Retry::Never),
            (ffi::SQLITE_CONSTRAINT, ErrorKind::Malformed, Retry::Never),
            (ffi::SQLITE_TOOBIG, ErrorKind::LimitExceeded, Retry::Never),
            (ffi::SQLITE_MISUSE, ErrorKind::Unexpected, Retry::Never),
        ] {
            let error = code(ffi::Error::new(sqlite), During::Work);
            assert_eq!((error.kind(), error.retry()), (kind, retry), "{sqlite}");
        }
    }

    #[test]
    fn only_a_commit_that_broke_off_may_have_been_applied() {
        for sqlite in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_FULL, ffi::SQLITE_BUSY] {
            let failed = ffi::Error::new(sqlite);
            assert_eq!(code(failed, During::Work).outcome(), Outcome::NotApplied, "{sqlite}");
            let unknown = failed.code == ErrorCode::SystemIoFailure;
            let outcome = if unknown { Outcome::Unknown } else { Outcome::NotApplied };
            assert_eq!(code(failed, During::Commit).outcome(), outcome, "{sqlite}");
        }
    }
}
