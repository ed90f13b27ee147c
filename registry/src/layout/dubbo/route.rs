//! Routes: which consumers may call which providers, as they stand in the store.

use coord_api::{Error, ErrorKind, Result};

use super::{encoding, url::DubboUrl};

/// A route of Dubbo, for those who show or apply it: coord itself does not.
///
/// ```
/// use coord_registry::{DubboRoute, DubboUrl};
///
/// let url: DubboUrl = "condition://0.0.0.0/com.shop.Orders?category=routers&priority=2\
///     &rule=host+%3D+10.0.0.1+%3D%3E+host+%3D+10.0.0.2".parse()?;
/// let route = DubboRoute::new(url)?;
/// assert_eq!((route.kind(), route.rule()), ("condition", "host = 10.0.0.1 => host = 10.0.0.2"));
/// assert!(route.is_enabled() && !route.is_forced() && route.priority() == 2);
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DubboRoute {
    url: DubboUrl,
    rule: String,
    priority: i32,
}

impl DubboRoute {
    /// The route that a URL says.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed) if it has no rule, its rule is not encoded as Java does, or its priority is no
    /// number.
    pub fn new(url: DubboUrl) -> Result<Self> {
        let Some(rule) = url.parameter("rule") else {
            return Err(Error::new(ErrorKind::Malformed, "the route has no rule").with_context("url", &url));
        };
        let rule = encoding::decode(rule)?;
        let priority = url.number("priority")?.unwrap_or(0);
        Ok(Self { url, rule, priority })
    }

    /// How the rule is written: `condition`, `script`, `tag`.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self.url.protocol() {
            "route" => self.url.parameter("router").unwrap_or("condition"),
            protocol => protocol,
        }
    }

    /// The rule, such as `host = 10.0.0.1 => host = 10.0.0.2`.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Routes of a higher priority come first.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        self.priority
    }

    /// Whether it is in force.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.url.flag("enabled", true)
    }

    /// Whether it holds also where it leaves no provider.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.url.flag("force", false)
    }

    /// All of it.
    #[must_use]
    pub const fn url(&self) -> &DubboUrl {
        &self.url
    }
}
