//! What the command finds in its environment.

use std::{
    env,
    ffi::{OsStr, OsString},
};

use coord::{Dir, LockGuard, StoreUrl};

const NAME: &str = "COORD_LOCK_NAME";
const KEY: &str = "COORD_LOCK_KEY";
const SESSION: &str = "COORD_SESSION";

/// The variables that tell the command about its lock.
pub(super) fn about(guard: &LockGuard, name: &str) -> [(&'static str, String); 4] {
    [
        (NAME, name.to_owned()),
        (KEY, guard.key().to_string()),
        ("COORD_FENCING_TOKEN", guard.token().to_string()),
        (SESSION, guard.session().id().to_string()),
    ]
}

/// The lock under which we run ourselves.
pub(super) struct Outer {
    pub(super) name: Dir,
    pub(super) key: String,
    pub(super) session: String,
}

/// The lock of another `coord lock` that started us, as [`about`] told it.
pub(super) fn outer() -> Option<Outer> {
    let name = Dir::parse(&env::var(NAME).ok()?).ok()?;
    Some(Outer { name, key: env::var(KEY).ok()?, session: env::var(SESSION).ok()? })
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
