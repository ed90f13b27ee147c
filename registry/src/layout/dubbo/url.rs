//! Dubbo's URL: what the name of a node says, decoded.

use std::{collections::BTreeMap, fmt, num::ParseIntError, str::FromStr};

use coord_api::{Error, ErrorKind, Result};

use super::encoding;

/// A URL of Dubbo: `protocol://host:port/path?name=value&…`, with its parameters in the order of their names.
///
/// Parameters are not encoded one by one, as Dubbo does not: a value that may hold `&` or `;` must be encoded by whoever
/// sets it, and writing one that is not is refused.
///
/// ```
/// use coord_registry::DubboUrl;
///
/// let url: DubboUrl = "dubbo://10.0.0.7:20880/com.shop.Orders?version=1.0.0&timeout=500".parse()?;
/// assert_eq!((url.host(), url.port()), ("10.0.0.7", Some(20880)));
/// assert_eq!(url.parameter("timeout"), Some("500"));
/// assert_eq!(url.to_string(), "dubbo://10.0.0.7:20880/com.shop.Orders?timeout=500&version=1.0.0");
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DubboUrl {
    protocol: String,
    /// `name:password`; hardly ever there.
    user: Option<String>,
    host: String,
    port: Option<u16>,
    path: String,
    parameters: BTreeMap<String, String>,
}

impl DubboUrl {
    /// A URL without parameters. An IPv6 address stands without brackets.
    #[must_use]
    pub fn new(
        protocol: impl Into<String>,
        host: impl Into<String>,
        port: Option<u16>,
        path: impl Into<String>,
    ) -> Self {
        Self {
            protocol: protocol.into(),
            user: None,
            host: host.into(),
            port,
            path: path.into(),
            parameters: BTreeMap::new(),
        }
    }

    /// Sets a parameter.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.insert(name.into(), value.into());
        self
    }

    /// The protocol: `dubbo`, `tri`, `rest`; `consumer`, `override`, `condition` for what is no provider.
    #[must_use]
    pub fn protocol(&self) -> &str {
        &self.protocol
    }

    /// The host, an IPv6 address without brackets; `0.0.0.0` where a rule is for all.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if there is one.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// The path, without leading slash: the interface, mostly.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A parameter; `None` if it is absent or empty, which are one to Dubbo.
    ///
    /// What old providers call `default.weight` is found as `weight`, unless that is there too.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let given =
            |name: &str| self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty());
        given(name).or_else(|| given(&format!("default.{name}")))
    }

    /// All parameters, by name.
    #[must_use]
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.parameters
    }

    /// Whether a parameter is `true`; `default` if it is absent. Everything else is `false`, as in Java.
    #[must_use]
    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.parameter(name).map_or(default, |value| value.eq_ignore_ascii_case("true"))
    }

    /// A parameter that is a number.
    pub(super) fn number<T: FromStr<Err = ParseIntError>>(&self, name: &'static str) -> Result<Option<T>> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| {
            Error::new(ErrorKind::Malformed, "a parameter is no number that fits")
                .with_context("parameter", name)
                .with_context("value", text)
                .with_source(error)
        })
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.parameters.insert(name.to_owned(), value.into());
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.parameters.remove(name).filter(|value| !value.is_empty())
    }

    /// The URL that the name of a node stands for.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed) if it is not encoded as Java does, or is no URL.
    pub fn from_node(name: &str) -> Result<Self> {
        encoding::decode(name)?.parse()
    }

    /// The name of the node that stands for this URL: [`from_node`](Self::from_node) gives it back.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the text of the URL would be read as another one, such as for a
    /// value with `&`.
    pub fn to_node(&self) -> Result<String> {
        let text = self.to_string();
        // The one rule that no list of forbidden characters can fall short of.
        match text.parse::<Self>() {
            Ok(read) if read == *self => Ok(encoding::encode(&text)),
            _ => Err(Error::invalid("a URL of Dubbo cannot say this: encode values that hold & or ;")
                .with_context("url", self)),
        }
    }
}

impl FromStr for DubboUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text)
            .ok_or_else(|| Error::new(ErrorKind::Malformed, "not a URL of Dubbo").with_context("url", text))
    }
}

fn parse(text: &str) -> Option<DubboUrl> {
    let (body, query) = text.split_once('?').unwrap_or((text, ""));
    let (protocol, rest) = body.split_once("://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, address) = match authority.rsplit_once('@') {
        Some((user, address)) => (Some(user.to_owned()), address),
        None => (None, authority),
    };
    let (host, port) = match address.rsplit_once(':') {
        // Part of an address in brackets.
        Some((_, after)) if after.ends_with(']') => (address, None),
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (address, None),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let parameters = query
        .split(['&', ';'])
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let (protocol, host, path) = (protocol.to_owned(), host.to_owned(), path.to_owned());
    (!protocol.is_empty()).then_some(DubboUrl { protocol, user, host, port, path, parameters })
}

impl fmt::Display for DubboUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.protocol)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        if !self.path.is_empty() {
            write!(f, "/{}", self.path)?;
        }
        for (i, (name, value)) in self.parameters.iter().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for DubboUrl {
    /// Shows no user and no password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Self { user: None, ..self.clone() }, f)
    }
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
