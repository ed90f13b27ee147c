//! The URL of a server that somebody else runs.

use std::net::SocketAddr;

use crate::{Auth, Kind, Result, TestbedError};

/// What a URL says, with its first host looked up.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) addr: SocketAddr,
    pub(crate) auth: Option<Auth>,
    pub(crate) tls: bool,
    /// The URL without credentials.
    pub(crate) url: String,
}

/// The parts of `scheme://[user:password@]host[:port][,host...][/path]`.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    scheme: &'a str,
    user: Option<(&'a str, &'a str)>,
    /// The first host, with its port.
    host: &'a str,
    rest: &'a str,
}

fn split(url: &str) -> Option<Parts<'_>> {
    let (scheme, after) = url.split_once("://")?;
    let end = after.find(['/', '?']).unwrap_or(after.len());
    let authority = &after[..end];
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(user.split_once(':').unwrap_or(("", user))), hosts),
        None => (None, authority),
    };
    let host = hosts.split(',').next().filter(|host| !host.is_empty())?;
    Some(Parts { scheme, user, host, rest: &after[authority.len() - hosts.len()..] })
}

impl Remote {
    pub(crate) async fn resolve(kind: Kind, url: &str) -> Result<Remote> {
        // Not the whole URL before it is understood: it may hold a password.
        let bad = |url: &str, reason: String| TestbedError::BadUrl { url: url.to_owned(), reason };
        let parts = split(url).ok_or_else(|| bad("the URL", "has no host".to_owned()))?;
        let clean = format!("{}://{}", parts.scheme, parts.rest);
        let tls = parts.scheme == kind.tls_scheme();
        let valkey = kind == Kind::Valkey && matches!(parts.scheme, "valkey" | "valkeys");
        if !tls && !valkey && parts.scheme != kind.scheme() {
            let reason = format!("{kind} wants {}:// or {}://", kind.scheme(), kind.tls_scheme());
            return Err(bad(&clean, reason));
        }
        let tls = tls || parts.scheme == "valkeys";
        let port = if tls { kind.tls_port() } else { kind.port() };
        let has_port = parts.host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { parts.host.to_owned() } else { format!("{}:{port}", parts.host) };
        let mut found =
            tokio::net::lookup_host(&host).await.map_err(|error| bad(&clean, error.to_string()))?;
        let addr = found.next().ok_or_else(|| bad(&clean, "its host has no address".to_owned()))?;
        let auth = parts.user.map(|(user, password)| Auth {
            user: if user.is_empty() { "default".to_owned() } else { user.to_owned() },
            password: password.to_owned(),
        });
        Ok(Remote { addr, auth, tls, url: clean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, scheme, user, host, rest) in [
            ("zk://a:1,b:2/root", "zk", None, "a:1", "a:1,b:2/root"),
            ("redis://:p%40ss@h/0?x=1", "redis", Some(("", "p%40ss")), "h", "h/0?x=1"),
            ("etcd://u:p@w@h:2379", "etcd", Some(("u", "p@w")), "h:2379", "h:2379"),
        ] {
            assert_eq!(split(url), Some(Parts { scheme, user, host, rest }), "{url}");
        }
        for url in ["", "zk://", "host:1", "zk://u:p@"] {
            assert_eq!(split(url), None, "{url}");
        }
    }

    #[tokio::test]
    async fn credentials_stay_out_of_urls_and_errors() {
        let remote = Remote::resolve(Kind::Redis, "redis://u:secret@127.0.0.1").await.unwrap();
        assert_eq!(remote.url, "redis://127.0.0.1");
        assert_eq!(remote.addr, "127.0.0.1:6379".parse().unwrap());
        assert!(!format!("{remote:?}").contains("secret"));
        let error = Remote::resolve(Kind::Etcd, "redis://u:secret@127.0.0.1").await.unwrap_err();
        assert!(error.to_string().contains("etcd://") && !error.to_string().contains("secret"));
    }
}
