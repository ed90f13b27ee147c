//! Which schemes there are, open to backends of others.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{Config, OptionSpec, suggestion};
use crate::{Backend, CheckedLayer, Coord, Dir, Error, ErrorKind, Layer, NamespaceLayer, Result};

/// How long opening a store may take, unless `connect_timeout` says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Options that work with every backend.
const COMMON: &[OptionSpec] = &[
    OptionSpec { name: "namespace", doc: "a directory to use as the root" },
    OptionSpec {
        name: "fence_epoch",
        doc: "high part of fencing tokens; raise it when moving to another store (0)",
    },
    OptionSpec { name: "connect_timeout", doc: "how long opening may take (5s)" },
    OptionSpec { name: "operation_timeout", doc: "how long one call may take (5s)" },
    OptionSpec { name: "username", doc: "who we are, if not in the URL" },
    OptionSpec { name: "password", doc: "the password, if not in the URL" },
    OptionSpec { name: "password_file", doc: "a file that holds the password" },
];

/// What people write for a scheme.
const ALIASES: &[(&str, &str)] = &[
    ("zookeeper", "zk"),
    ("valkey", "redis"),
    ("valkeys", "rediss"),
    ("http", "etcd"),
    ("https", "etcds"),
    ("mem", "memory"),
];

/// Opens stores of some schemes.
#[async_trait]
pub trait BackendFactory: fmt::Debug + Send + Sync + 'static {
    /// The schemes, such as `["redis", "rediss"]`.
    fn schemes(&self) -> &'static [&'static str];

    /// The options it knows beside the common ones.
    fn options(&self) -> &'static [OptionSpec];

    /// Opens a store: reaches a server, proves who we are, and fails if it cannot.
    ///
    /// # Errors
    /// Typed and final: [`Config`](ErrorKind::Config), [`Unavailable`](ErrorKind::Unavailable),
    /// [`Unauthenticated`](ErrorKind::Unauthenticated), [`Tls`](ErrorKind::Tls). Never a weaker connection than asked.
    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>>;
}

/// The backends that a program has, by scheme.
///
/// The `coord` crate fills one by its features; a backend of your own joins with [`Registry::with`].
#[derive(Clone, Debug, Default)]
pub struct Registry {
    factories: BTreeMap<&'static str, Arc<dyn BackendFactory>>,
}

impl Registry {
    /// No backends.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a backend. A scheme that is there already goes to the newcomer.
    #[must_use]
    pub fn with(mut self, factory: impl BackendFactory) -> Self {
        let factory: Arc<dyn BackendFactory> = Arc::new(factory);
        for scheme in factory.schemes() {
            self.factories.insert(scheme, Arc::clone(&factory));
        }
        self
    }

    /// The schemes, sorted.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> {
        self.factories.keys().copied()
    }

    /// The options of a scheme, common ones first; empty for an unknown scheme.
    #[must_use]
    pub fn options(&self, scheme: &str) -> Vec<OptionSpec> {
        let Some(factory) = self.factories.get(scheme) else { return Vec::new() };
        COMMON.iter().chain(factory.options()).copied().collect()
    }

    /// Opens the store with its always-on layers: argument checks, error context, namespace.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) for an unknown scheme or option, with what is known and the nearest; then the
    /// factory's; [`Unavailable`](ErrorKind::Unavailable) if `connect_timeout` passes first.
    ///
    /// # Cancel safety
    /// Safe: a half-open connection is closed.
    pub async fn connect(&self, config: &Config) -> Result<Coord> {
        let scheme = config.url().scheme();
        let factory = self.factories.get(scheme).ok_or_else(|| self.unknown_scheme(scheme))?;
        let options = config.options();
        options.refuse_unknown(&self.options(scheme))?;
        let namespace = match options.get("namespace") {
            Some(text) => Dir::parse(text)
                .map_err(|e| Error::config("the option namespace is no directory").with_source(e))?,
            None => Dir::root(),
        };
        let epoch = options.number("fence_epoch")?.unwrap_or(0);
        let timeout = options.duration("connect_timeout")?.unwrap_or(CONNECT_TIMEOUT);

        let backend = match tokio::time::timeout(timeout, factory.connect(config)).await {
            Ok(result) => result,
            Err(_) => {
                Err(Error::new(ErrorKind::Unavailable, "the store did not answer within connect_timeout")
                    .with_context("timeout", format!("{timeout:?}")))
            }
        };
        let backend = backend.map_err(|e| e.with_operation("connect").with_context("url", config.url()))?;
        for warning in backend.info().warnings {
            tracing::warn!(store = %config.url(), "{warning}");
        }
        let backend = NamespaceLayer::new(namespace).apply(CheckedLayer.apply(backend));
        Ok(Coord::new(backend).with_fence_epoch(epoch))
    }

    fn unknown_scheme(&self, scheme: &str) -> Error {
        let meant = ALIASES.iter().find(|(name, _)| *name == scheme).map_or(scheme, |(_, meant)| meant);
        let near = suggestion(meant, self.schemes());
        let known: Vec<_> = self.schemes().collect();
        Error::config(format!("no backend for this scheme{near}"))
            .with_context("scheme", scheme)
            .with_context("known", known.join(", "))
    }
}
