//! Opening a store with the usual layers.

use std::{ops::RangeInclusive, path::Path, time::Duration};

use coord_api::{Config, Coord, Error, Registry, Result};
use coord_layers::{OPERATION_TIMEOUT, RetryLayer, TimeoutLayer, TraceLayer};

use crate::schemes;

/// Time-outs that mean something: below, no call could ever succeed; above, it is a slip of units.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// Opens the store at a URL, such as `zk://h1:2181,h2:2181/app`, `etcd://h1:2379/app`, `redis://h1:6379/app`,
/// `sqlite:/path/to/file` or `memory:name`.
///
/// The path is the part of the store that this handle sees. Options follow as a query (`?operation_timeout=2s`). The
/// environment is not looked at: [`from_config`] does that.
///
/// The handle has the usual layers: arguments are checked before anything is sent, a call ends after
/// `operation_timeout` (5s) with its retries, what was surely not applied is sent again, and `tracing` sees one span a
/// call. With the feature `metrics`, calls and events are counted.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> coord::Result<()> {
/// let store = coord::connect("memory:doc?operation_timeout=2s").await?;
/// store.put("/greeting", "hello").await?;
///
/// let error = coord::connect("memry:doc").await.unwrap_err();
/// assert!(error.to_string().contains("did you mean \"memory\"?"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Config`](crate::ErrorKind::Config) for a malformed URL, an unknown scheme or option, with what is known and the
/// nearest match, and for a scheme whose feature is off. Within `connect_timeout` (5s) the typed and final errors of a
/// server that is away or does not let us: [`Unavailable`](crate::ErrorKind::Unavailable),
/// [`Unauthenticated`](crate::ErrorKind::Unauthenticated), [`Tls`](crate::ErrorKind::Tls).
///
/// # Cancel safety
/// Safe: a half-open connection is closed.
pub async fn connect(url: &str) -> Result<Coord> {
    connect_with(&Config::from_url(url)?).await
}

/// Opens the store that a TOML file names, with the options of the environment.
///
/// The file holds `url = "…"` and options, one a line. A variable `COORD_NAME` sets the option `name`, as
/// `COORD_PASSWORD` or `COORD_OPERATION_TIMEOUT`; `COORD_URL` is not looked at, the file's URL counts. Where an option is
/// given several times, the URL's wins, then the environment's, then the file's.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("coord.toml");
/// std::fs::write(&path, "url = \"memory:doc\"\nnamespace = \"orders\"\n")?;
/// let store = coord::from_config(&path).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`connect`]; of a file that cannot be read or parsed they name the file and the line.
///
/// # Cancel safety
/// As [`connect`].
pub async fn from_config(path: impl AsRef<Path> + Send) -> Result<Coord> {
    // Small and read once: not worth a thread of its own.
    let config = Config::from_file(&path).map(Config::with_environment)?;
    let opened = connect_with(&config).await;
    opened.map_err(|e| e.with_context("file", path.as_ref().display()))
}

/// Opens the store that the environment names: `COORD_URL`, with options in variables such as `COORD_PASSWORD`.
///
/// Without `COORD_URL` it is `sqlite:`, a file of this user that all its processes on this host share, if the feature
/// `sqlite` is on.
///
/// # Errors
/// As [`connect`]; [`Config`](crate::ErrorKind::Config) if `COORD_URL` is not set and there is no embedded store.
///
/// # Cancel safety
/// As [`connect`].
pub async fn from_env() -> Result<Coord> {
    let config = match Config::from_environment_or(schemes::DEFAULT)? {
        Some(config) => config,
        None => Config::from_environment()?,
    };
    connect_with(&config).await
}

/// Opens the store of a configuration.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_with(config: &Config) -> Result<Coord> {
    connect_through(&schemes::registry(), config).await
}

/// Opens the store of a configuration with the backends of `registry`, for those that bring their own.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_through(registry: &Registry, config: &Config) -> Result<Coord> {
    if let Some(error) = schemes::left_out(registry, config.url().scheme()) {
        return Err(error.with_operation("connect").with_context("url", config.url()));
    }
    time_limit(config, "connect_timeout")?;
    let timeout = time_limit(config, "operation_timeout")?.unwrap_or(OPERATION_TIMEOUT);
    let coord = registry.connect(config).await?;
    let coord = coord
        .layer(&TimeoutLayer::new(timeout))
        // The recipes send an ambiguous join again themselves, and must know that there was one.
        .layer(&RetryLayer::new(timeout).leave_ambiguous_joins())
        .layer(&TraceLayer::of_store(config.url()));
    #[cfg(feature = "metrics")]
    let coord = coord_layers::metrics::measured(coord);
    Ok(coord)
}

/// A time-out of the configuration, if it is one that can work.
fn time_limit(config: &Config, name: &'static str) -> Result<Option<Duration>> {
    match config.options().duration(name)? {
        Some(span) if !TIMEOUTS.contains(&span) => {
            Err(Error::config("a time-out is from 1ms to 1h").with_context("option", name))
        }
        span => Ok(span),
    }
}
