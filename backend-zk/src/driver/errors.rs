//! What the driver's errors mean: one table.
//!
//! A whitelist names the failures after which a write was surely not applied; after everything else it may have
//! been. The loss of a connection shows under half a dozen of the driver's names, and it may invent more.

use coord_api::{Error, ErrorKind, Retry};
use zookeeper_client as zk;

use super::{Effect, Role};

/// An answer of the server that the caller decides about, or an error for whoever called us.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The node, or the parent of a node to create, is absent.
    NoNode,
    NodeExists,
    BadVersion,
    /// The node to delete has children.
    NotEmpty,
    /// The parent of the node to create is ephemeral.
    EphemeralParent,
    Error(Error),
}

impl Fault {
    /// As an error, for places that cannot do anything with the answer.
    pub(crate) fn into_error(self) -> Error {
        let message = match self {
            Self::NoNode => "the node is absent",
            Self::NodeExists => "the node is there already",
            Self::BadVersion => "the node is in another version",
            Self::NotEmpty => "the node has children",
            Self::EphemeralParent => {
                return Error::invalid(
                    "the key above is ephemeral, and ephemeral keys have no keys below (the leaf rule)",
                );
            }
            Self::Error(error) => return error,
        };
        Error::new(ErrorKind::Unexpected, message)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The table.
pub(super) fn fault(error: zk::Error, role: Role, effect: Effect) -> Fault {
    use zk::Error as E;
    // What a lost reply means.
    let lost = match effect {
        Effect::Read => Retry::Safe,
        Effect::Write => Retry::Ambiguous,
    };
    let (kind, retry, message) = match &error {
        // ---- definite: the server looked at the request and refused it
        E::NoNode => return Fault::NoNode,
        E::NodeExists => return Fault::NodeExists,
        E::BadVersion => return Fault::BadVersion,
        E::NotEmpty => return Fault::NotEmpty,
        E::NoChildrenForEphemerals => return Fault::EphemeralParent,
        E::NoAuth => {
            (ErrorKind::PermissionDenied, Retry::Never, "the ACL of the node, or of its parent, forbids it")
        }
        E::InvalidAcl => (
            ErrorKind::Config,
            Retry::Never,
            "the server does not take the ACL: acl=creator needs a user or a client certificate",
        ),
        E::BadArguments(_) => {
            (ErrorKind::InvalidArgument, Retry::Never, "the path or another argument is not accepted")
        }
        E::QuotaExceeded => (ErrorKind::LimitExceeded, Retry::Never, "a quota of the server is exhausted"),
        E::Unimplemented => (
            ErrorKind::Unexpected,
            Retry::Never,
            "the server does not know the request; it takes 3.6 or newer",
        ),
        E::Throttled => {
            (ErrorKind::Unavailable, Retry::Safe, "the server is overloaded and refused the request")
        }
        // ---- never sent: only connecting says these
        E::NoHosts | E::Timeout => (ErrorKind::Unavailable, Retry::Safe, "no server could be reached"),
        // ---- everything else: whatever was under way may have been applied
        E::SessionExpired | E::SessionMoved => match role {
            Role::Session => (ErrorKind::SessionLost, or_never(lost), "the session is over"),
            Role::Base => {
                (ErrorKind::Unavailable, lost, "the session of the connection expired before the reply")
            }
        },
        E::AuthFailed => {
            (ErrorKind::Unauthenticated, or_never(lost), "the server does not accept the credentials")
        }
        E::ClientClosed => match role {
            Role::Session => {
                (ErrorKind::SessionLost, or_never(lost), "the session was closed before the reply")
            }
            Role::Base => (ErrorKind::Unavailable, lost, "the connection was closed before the reply"),
        },
        E::UnexpectedErrorCode(_) => {
            (ErrorKind::Unexpected, or_never(lost), "an error that the driver does not know")
        }
        _ => (ErrorKind::Unavailable, lost, "lost the connection before the reply"),
    };
    Fault::Error(Error::new(kind, message).with_retry(retry).with_source(error))
}

/// What is final for a read.
const fn or_never(lost: Retry) -> Retry {
    match lost {
        Retry::Safe => Retry::Never,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(kind, retry of a read, retry of a write)` of an error on a base connection and on a session's.
    fn row(error: &zk::Error, role: Role) -> Option<(ErrorKind, Retry, Retry)> {
        let retry = |effect| match fault(error.clone(), role, effect) {
            Fault::Error(error) => Some((error.kind(), error.retry())),
            _ => None,
        };
        let (kind, read) = retry(Effect::Read)?;
        let (same, write) = retry(Effect::Write)?;
        assert_eq!(kind, same, "{error:?}");
        Some((kind, read, write))
    }

    #[test]
    fn every_row_of_the_table() {
        use ErrorKind as K;
        use Retry::{Ambiguous, Never, Safe};
        use zk::Error as E;
        let both = [
            (E::NoAuth, (K::PermissionDenied, Never, Never)),
            (E::InvalidAcl, (K::Config, Never, Never)),
            (E::BadArguments(&"x"), (K::InvalidArgument, Never, Never)),
            (E::QuotaExceeded, (K::LimitExceeded, Never, Never)),
            (E::Unimplemented, (K::Unexpected, Never, Never)),
            (E::Throttled, (K::Unavailable, Safe, Safe)),
            (E::NoHosts, (K::Unavailable, Safe, Safe)),
            (E::Timeout, (K::Unavailable, Safe, Safe)),
            (E::AuthFailed, (K::Unauthenticated, Never, Ambiguous)),
            (E::UnexpectedErrorCode(-13), (K::Unexpected, Never, Ambiguous)),
            (E::ConnectionLoss, (K::Unavailable, Safe, Ambiguous)),
            (E::UnexpectedError("xid".into()), (K::Unavailable, Safe, Ambiguous)),
            (E::UnmarshalError { entity: "x", reason: &"y" }, (K::Unavailable, Safe, Ambiguous)),
            (E::MarshallingError, (K::Unavailable, Safe, Ambiguous)),
            (E::NotReadOnly, (K::Unavailable, Safe, Ambiguous)),
            (E::NoWatcher, (K::Unavailable, Safe, Ambiguous)),
            (E::ReconfigDisabled, (K::Unavailable, Safe, Ambiguous)),
            (E::RuntimeInconsistent, (K::Unavailable, Safe, Ambiguous)),
        ];
        for (error, expected) in both {
            assert_eq!(row(&error, Role::Base), Some(expected), "{error:?}");
            assert_eq!(row(&error, Role::Session), Some(expected), "{error:?}");
        }
        for error in [E::SessionExpired, E::SessionMoved, E::ClientClosed] {
            assert_eq!(row(&error, Role::Base), Some((K::Unavailable, Safe, Ambiguous)), "{error:?}");
            assert_eq!(row(&error, Role::Session), Some((K::SessionLost, Never, Ambiguous)), "{error:?}");
        }
    }

    #[test]
    fn answers_that_the_caller_decides_about_are_no_errors() {
        use zk::Error as E;
        for effect in [Effect::Read, Effect::Write] {
            let f = |e| fault(e, Role::Base, effect);
            assert!(matches!(f(E::NoNode), Fault::NoNode));
            assert!(matches!(f(E::NodeExists), Fault::NodeExists));
            assert!(matches!(f(E::BadVersion), Fault::BadVersion));
            assert!(matches!(f(E::NotEmpty), Fault::NotEmpty));
            assert!(matches!(f(E::NoChildrenForEphemerals), Fault::EphemeralParent));
        }
    }
}
