//! What the command finds in its environment.

use std::{
    env,
    ffi::{OsStr, OsString},
};

use coord::{Coord, Dir, Hold, StoreUrl};

use crate::{Failure, exit::say};

/// What is held, in the words of messages and of the command's environment.
pub(super) struct Kind {
    /// In messages: "the lock is lost".
    pub(super) what: &'static str,
    /// What follows where nobody else sees the store.
    pub(super) alone: &'static str,
    name: &'static str,
    key: &'static str,
}

pub(super) const LOCK: Kind =
    Kind { what: "lock", alone: "the lock excludes nobody", name: "COORD_LOCK_NAME", key: "COORD_LOCK_KEY" };

pub(super) const LEADERSHIP: Kind = Kind {
    what: "leadership",
    alone: "nobody else stands in the election",
    name: "COORD_ELECTION_NAME",
    key: "COORD_ELECTION_KEY",
};

pub(super) const PERMIT: Kind = Kind {
    what: "permit",
    alone: "the semaphore limits nobody",
    name: "COORD_SEMAPHORE_NAME",
    key: "COORD_SEMAPHORE_KEY",
};

pub(super) const ONCE: Kind = Kind {
    what: "right to run",
    alone: "nobody else knows that the job has run",
    name: "COORD_ONCE_NAME",
    key: "COORD_ONCE_KEY",
};

pub(super) const PLACE: Kind = Kind {
    what: "place at the barrier",
    alone: "nobody else comes to the barrier",
    name: "COORD_BARRIER_NAME",
    key: "COORD_BARRIER_KEY",
};

/// The variables that tell the command about what is held.
pub(super) fn about(kind: &Kind, hold: &Hold, name: &str) -> Vec<(&'static str, String)> {
    vec![
        (kind.name, name.to_owned()),
        (kind.key, hold.key().to_string()),
        ("COORD_FENCING_TOKEN", hold.token().to_string()),
        ("COORD_SESSION", hold.session().id().to_string()),
    ]
}

/// What we run under ourselves, as [`about`] told us.
struct Outer {
    name: Dir,
    key: String,
}

fn outer(kind: &Kind) -> Option<Outer> {
    let name = Dir::parse(&env::var(kind.name).ok()?).ok()?;
    Some(Outer { name, key: env::var(kind.key).ok()? })
}

/// Refuses what we run under ourselves: it would wait for its own end.
///
/// Whether it is that one, the store knows: the entry that we were told of has a nonce in its name, and is there only in
/// the same store and namespace. Its session does not matter: with another kind between the two, we know only that one's.
pub(super) async fn refuse_nested(kind: &Kind, coord: &Coord, name: &str) -> Result<(), Failure> {
    let Some(outer) = outer(kind) else { return Ok(()) };
    let name = Dir::parse(name)?;
    if outer.name != name {
        return Ok(());
    }
    match coord.get(outer.key).await {
        Ok(Some(_)) => Err(Failure::Setup(format!(
            "this command already runs under {name}, and would wait for its own end"
        ))),
        // Another store's of that name, or one that is lost.
        Ok(None) => Ok(()),
        Err(error) => {
            say(&format!("this command may already run under {name} and wait for its own end: {error}"));
            Ok(())
        }
    }
}

/// The variables of our environment that the command must not see.
pub(crate) fn hidden() -> Vec<OsString> {
    env::vars_os().filter(|(name, value)| is_credential(name, value)).map(|(name, _)| name).collect()
}

/// Whether a variable says, or may say, how to log in to the store.
fn is_credential(name: &OsStr, value: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let Some(option) = name.strip_prefix("COORD_") else { return false };
    if option == "URL" {
        return !value.to_str().is_some_and(is_plain);
    }
    ["USERNAME", "PASSWORD", "SECRET", "TOKEN", "AUTH", "ACL"].iter().any(|word| option.contains(word))
}

/// Whether a URL has neither a user nor options, and so no secret.
fn is_plain(url: &str) -> bool {
    StoreUrl::parse(url).is_ok_and(|url| {
        url.username().is_none() && url.password().is_none() && url.options().next().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_hidden_and_the_rest_is_not() {
        for (name, value, hidden) in [
            ("COORD_PASSWORD", "x", true),
            ("COORD_PASSWORD_FILE", "/run/secrets/x", true),
            ("COORD_USERNAME", "x", true),
            ("COORD_AUTH_ANYTHING", "x", true),
            ("COORD_URL", "redis://127.0.0.1:6379/app", false),
            ("COORD_URL", "redis://u:p@127.0.0.1:6379", true),
            ("COORD_URL", "redis://h?password=p", true),
            ("COORD_URL", "redis://u:p@:", true),
            ("COORD_NAMESPACE", "orders", false),
            ("PASSWORD", "not ours", false),
        ] {
            assert_eq!(is_credential(name.as_ref(), value.as_ref()), hidden, "{name}={value}");
        }
    }
}
