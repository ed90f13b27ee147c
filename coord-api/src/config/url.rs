//! Store URLs, with several hosts.

use std::fmt;

use super::Secret;
use crate::{Dir, Error, Result};

/// Schemes whose path is a file of this host, in the words of its file system: it may be relative, and go up.
const FILES: &[&str] = &["sqlite"];

/// One server of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name or address; IPv6 without brackets.
    pub name: String,
    /// Port; `None` means the scheme's default.
    pub port: Option<u16>,
}

impl Host {
    /// `name:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn authority(&self, default_port: u16) -> String {
        let port = self.port.unwrap_or(default_port);
        if self.name.contains(':') {
            format!("[{}]:{port}", self.name)
        } else {
            format!("{}:{port}", self.name)
        }
    }
}

/// The address of a store: `scheme://user:password@host:port,host:port/path?option=value`.
///
/// Not a general URL: several hosts are separated by commas, which the `url` crate refuses. The memory store has a
/// name and no hosts: `memory:name`; the embedded store a file: `sqlite:/path/to/file`. User, password and option values may be percent-encoded. Neither `Debug` nor
/// `Display` shows the password or any option value.
///
/// ```
/// let url = coord_api::StoreUrl::parse("zk://alice:s3cret@zk1:2181,zk2:2181/app?connect_timeout=2s")?;
/// assert_eq!((url.scheme(), url.hosts().len(), url.path().as_str()), ("zk", 2, "/app"));
/// assert_eq!(url.to_string(), "zk://alice:***@zk1:2181,zk2:2181/app?connect_timeout=***");
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    scheme: String,
    username: Option<String>,
    password: Option<Secret>,
    hosts: Vec<Host>,
    path: Dir,
    file: Option<String>,
    options: Vec<(String, Secret)>,
}

impl StoreUrl {
    /// Parses an address.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) that says what is wrong, without showing the password.
    pub fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) = text.split_once(':').ok_or_else(|| {
            Error::config("a store URL looks like scheme://host:port/path, such as zk://127.0.0.1:2181/app")
        })?;
        if scheme.is_empty()
            || !scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'+')
        {
            // Only what cannot hold a password is shown: what stands before the first colon.
            return Err(Error::config(
                "a store URL begins with a scheme of lower-case letters and digits, such as zk:// or redis://",
            )
            .with_context("scheme", scheme));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let path = decode(path)?;
        let (path, file) = if FILES.contains(&scheme) { (String::new(), Some(path)) } else { (path, None) };
        let mut url = Self {
            scheme: scheme.to_owned(),
            username: None,
            password: None,
            hosts: Vec::new(),
            path: Dir::parse(&path)
                .map_err(|e| Error::config("the path of the URL is no directory").with_source(e))?,
            file,
            options: parse_query(query)?,
        };
        // The last @: an unencoded one in a password must not become part of a host name and be printed.
        let hosts = match authority.rsplit_once('@') {
            None => authority,
            Some((user, hosts)) => {
                let (name, password) = user.split_once(':').map_or((user, None), |(n, p)| (n, Some(p)));
                url.username = Some(decode(name)?).filter(|name| !name.is_empty());
                url.password = password.map(decode).transpose()?.map(Secret::new);
                hosts
            }
        };
        if !hosts.is_empty() {
            url.hosts = hosts.split(',').map(parse_host).collect::<Result<_>>()?;
        }
        Ok(url)
    }

    /// The scheme: `zk`, `etcd`, `redis`, `memory` and so on.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The user name, if there is one.
    #[must_use]
    pub fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// The password, if there is one.
    #[must_use]
    pub const fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// The servers, in order.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The path: a chroot, prefix or name, as the backend says.
    #[must_use]
    pub const fn path(&self) -> &Dir {
        &self.path
    }

    /// The file that the path names, as it is written there; `None` for stores that are in none. [`path`](Self::path) is
    /// the root then.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The options behind the question mark, in order.
    pub fn options(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.options.iter().map(|(name, value)| (name.as_str(), value))
    }
}

fn parse_host(text: &str) -> Result<Host> {
    let bad = |why: &'static str| Error::config(why).with_context("host", text);
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let (name, rest) = rest.split_once(']').ok_or_else(|| bad("an IPv6 address ends in ]"))?;
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(port),
            None if rest.is_empty() => None,
            None => return Err(bad("only :port may follow an IPv6 address")),
        };
        (name, port)
    } else {
        text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)))
    };
    if name.is_empty() {
        return Err(bad("a host is empty"));
    }
    let port = match port {
        None => None,
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err(bad("a port is a number from 1 to 65535")),
        },
    };
    Ok(Host { name: name.to_owned(), port })
}

fn parse_query(query: &str) -> Result<Vec<(String, Secret)>> {
    let mut options = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| Error::config("an option of a URL is name=value"))?;
        if options.iter().any(|(known, _)| known == name) {
            return Err(Error::config("an option is given twice").with_context("option", name));
        }
        options.push((name.to_owned(), Secret::new(decode(value)?)));
    }
    Ok(options)
}

fn decode(text: &str) -> Result<String> {
    let bad = || Error::config("a % in a URL is followed by two hexadecimal digits of UTF-8 text");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16)).ok_or_else(bad);
        let value = digit(rest.next())? * 16 + digit(rest.next())?;
        bytes.push(u8::try_from(value).map_err(|_| bad())?);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme)?;
        if let Some(file) = &self.file {
            write!(f, "{file}")?;
        } else if self.hosts.is_empty() {
            write!(f, "{}", self.path.as_str().trim_start_matches('/'))?;
        } else {
            f.write_str("//")?;
            let name = self.username.as_deref().unwrap_or_default();
            match &self.password {
                Some(_) => write!(f, "{name}:***@")?,
                None if !name.is_empty() => write!(f, "{name}@")?,
                None => {}
            }
            for (i, host) in self.hosts.iter().enumerate() {
                let name =
                    if host.name.contains(':') { format!("[{}]", host.name) } else { host.name.clone() };
                write!(f, "{}{name}", if i > 0 { "," } else { "" })?;
                host.port.map_or(Ok(()), |port| write!(f, ":{port}"))?;
            }
            if !self.path.is_root() {
                write!(f, "{}", self.path)?;
            }
        }
        for (i, (name, _)) in self.options.iter().enumerate() {
            write!(f, "{}{name}=***", if i == 0 { "?" } else { "&" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_read() {
        let url = StoreUrl::parse("etcd://us%40er:p%3Aw@h1:1,[::1]:2,h3/a/b?x=1&y=%26").unwrap();
        assert_eq!((url.username(), url.password().map(Secret::expose)), (Some("us@er"), Some("p:w")));
        let hosts: Vec<_> = url.hosts().iter().map(|h| h.authority(9)).collect();
        assert_eq!(hosts, ["h1:1", "[::1]:2", "h3:9"]);
        assert_eq!(url.path().as_str(), "/a/b");
        assert_eq!(url.options().map(|(n, v)| (n, v.expose())).collect::<Vec<_>>(), [("x", "1"), ("y", "&")]);
        let memory = StoreUrl::parse("memory:tests").unwrap();
        assert_eq!((memory.hosts().len(), memory.path().as_str()), (0, "/tests"));
        for (text, file) in
            [("sqlite:", ""), ("sqlite:../a%20b.db?x=1", "../a b.db"), ("sqlite:///a.db", "/a.db")]
        {
            let url = StoreUrl::parse(text).unwrap();
            assert_eq!((url.file(), url.path()), (Some(file), &Dir::root()), "{text}");
            assert!(url.to_string().starts_with(&format!("sqlite:{file}")), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_the_password_is_not() {
        for bad in [
            "",
            "zk",
            "ZK://h",
            "://h",
            "zk://u:s3cret@h:0",
            "zk://u:s3cret@h:99999",
            "zk://u:s3cret@,h",
            "zk://u:s3cret@[::1",
            "zk://u:s3cret@[::1]x",
            "zk://u:s3cret@h/a/../b",
            "zk://u:s3cret@h?x",
            "zk://u:s3cret@h?x=1&x=2",
            "zk://u:s3cret%zz@h",
            "zk://u:s3cret%ff@h",
        ] {
            let e = StoreUrl::parse(bad).expect_err(bad);
            assert_eq!(e.kind(), crate::ErrorKind::Config, "{bad}");
            assert!(!format!("{e} {e:?}").contains("s3cret"), "{bad}: {e}");
        }
        let url = StoreUrl::parse("redis://u:s3@cret@h?password=s3cret").unwrap();
        assert!(
            !format!("{url} {url:?}").contains("cret@") && !format!("{url:?}").contains("s3cret"),
            "{url}"
        );
    }
}
