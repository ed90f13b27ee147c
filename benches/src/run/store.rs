//! The stores of a run: started for it, or already running.

use std::time::Duration;

use coord::{Config, Coord, Durability, StoreUrl, WatchEvent};
use coord_testbed::{Cluster, Kind, Provider, Server, ServerOptions};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{Result, args::Data, run::Relay, stand};

/// Everything that a run writes is below this, and is removed at its end.
pub(crate) const NAMESPACE: &str = "/coord-benches";
/// How long a store may fail to answer before it is taken for dead: longer than an overload lasts.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a reader must know of a store to judge its figures. Results of different ones are not put together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoreFacts {
    /// Its name in reports.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) durability: String,
    /// Largest value, in bytes.
    pub(crate) value_max_bytes: usize,
}

fn config(url: &str) -> Result<Config> {
    Ok(Config::from_url(url)?.with_default("namespace", NAMESPACE))
}

/// A handle on the store at a URL, where a run keeps its keys.
pub(crate) async fn open_at(url: &str) -> Result<Coord> {
    Ok(coord::connect_with(&config(url)?).await?)
}

/// What stands behind a store, and goes with it.
#[derive(Debug)]
enum Host {
    /// Memory of this process, or a file of somebody else's.
    Nothing,
    Files(TempDir),
    Server(Box<Server>),
    Cluster(Cluster),
}

/// A store of the run.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) facts: StoreFacts,
    /// As given, or that of the server that was started.
    url: String,
    host: Host,
}

impl Store {
    /// Starts or finds the store that `text` names.
    pub(crate) async fn start(text: &str, data: Data) -> Result<Store> {
        if let Some(name) = text.strip_prefix("local:") {
            return Store::local(text, name, data).await;
        }
        let url = StoreUrl::parse(text)?;
        // What is there belongs to somebody.
        let namespace = url.options().any(|(name, _)| name == "namespace");
        if namespace || !url.path().is_root() && url.scheme() != "memory" {
            return Err(
                format!("--backend {text}: no path, please; a run keeps its keys in {NAMESPACE}").into()
            );
        }
        match (url.scheme(), url.file()) {
            ("memory", _) => {
                let url = if url.path().is_root() { "memory:coord-benches" } else { text };
                Store::new("memory", url, Host::Nothing, None, Some("in this process")).await
            }
            ("sqlite", Some("")) => {
                let (synchronous, durability) = match data {
                    Data::Disk => ("full", "disk, synchronous full"),
                    Data::Memory => ("off", "disk, synchronous off"),
                };
                let files = tempfile::Builder::new().prefix("coord-benches-").tempdir()?;
                let url =
                    format!("sqlite:{}?synchronous={synchronous}", files.path().join("coord.db").display());
                Store::new("sqlite", &url, Host::Files(files), None, Some(durability)).await
            }
            (scheme, Some(_)) => Store::new(scheme, text, Host::Nothing, None, None).await,
            (scheme, None) => {
                let schemes = |kind: &Kind| [kind.scheme(), kind.tls_scheme()].contains(&scheme);
                let kind = Kind::ALL.into_iter().find(schemes);
                let kind = kind.ok_or_else(|| format!("--backend {text}: unknown scheme {scheme:?}"))?;
                let provider = Provider::Url(text.to_owned());
                let server = Server::start(kind, &provider, ServerOptions::new()).await?;
                let name = format!("{kind} at {}", server.addr());
                let version = format!("{kind} {}", server.version());
                Store::new(&name, text, Host::Server(Box::new(server)), Some(version), None).await
            }
        }
    }

    /// Starts one server of a kind, or three that form one.
    async fn local(text: &str, name: &str, data: Data) -> Result<Store> {
        let (name, three) = name.strip_suffix("*3").map_or((name, false), |name| (name, true));
        let named = |kind: &Kind| kind.name() == name || (name == "zk" && *kind == Kind::ZooKeeper);
        let kind = Kind::ALL.into_iter().find(named).ok_or_else(|| {
            let known = Kind::ALL.map(Kind::name).join(", ");
            format!("--backend {text}: no such server (known: {known})")
        })?;
        let durability = Some(stand::durability(kind, data));
        if three {
            let cluster = stand::start_three(kind, data).await?;
            let version =
                cluster.nodes().first().map(|node| format!("{kind} {}, three servers", node.version()));
            let (name, url) = (format!("{kind} × 3"), cluster.url());
            return Store::new(&name, &url, Host::Cluster(cluster), version, durability).await;
        }
        let server = stand::start(kind, data).await?;
        let (url, version) = (server.url(), format!("{kind} {}", server.version()));
        Store::new(kind.name(), &url, Host::Server(Box::new(server)), Some(version), durability).await
    }

    /// Asks the store for what was not said.
    async fn new(
        name: &str,
        url: &str,
        host: Host,
        version: Option<String>,
        durability: Option<&str>,
    ) -> Result<Store> {
        let coord = open_at(url).await?;
        let info = coord.info();
        coord.close().await?;
        let version = version.unwrap_or_else(|| match info.server.as_str() {
            "" => format!("{} {}", info.name, env!("CARGO_PKG_VERSION")),
            server => server.to_owned(),
        });
        let durability = durability.map_or_else(
            || {
                let survives = match info.guarantees.durability {
                    Durability::Process => "nothing",
                    Durability::Restart => "a restart",
                    _ => "the loss of a minority",
                };
                let lost =
                    if info.guarantees.can_lose_acknowledged_writes { ", can lose writes" } else { "" };
                format!("as it was set up: survives {survives}{lost}")
            },
            str::to_owned,
        );
        let value_max_bytes = info.limits.value_max_bytes;
        let facts = StoreFacts { name: name.to_owned(), version, durability, value_max_bytes };
        Ok(Store { facts, url: url.to_owned(), host })
    }

    /// The server behind it; none for what lives in this process, in a file, or on several servers.
    pub(crate) fn server(&self) -> Option<&Server> {
        match &self.host {
            Host::Server(server) => Some(server),
            _ => None,
        }
    }

    /// Its name in reports.
    pub(crate) fn name(&self) -> &str {
        &self.facts.name
    }

    /// Its URL, for other processes of the run.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether it lives in this process, and other processes cannot see it.
    pub(crate) fn is_memory(&self) -> bool {
        self.url.starts_with("memory:")
    }

    /// A handle with the default layers, as an application opens it.
    pub(crate) async fn open(&self) -> Result<Coord> {
        open_at(&self.url).await
    }

    /// The same over a relay before its server.
    pub(crate) async fn open_through(&self, relay: &Relay) -> Result<Coord> {
        let scheme = self.server().map_or("tcp", |server| server.kind().scheme());
        open_at(&format!("{scheme}://{}", relay.addr())).await
    }

    /// The same without the layers of `coord::connect`.
    pub(crate) async fn bare(&self) -> Result<Coord> {
        Ok(coord::registry().connect(&config(&self.url)?).await?)
    }

    /// Whether its server is spoken to in plain text and without a password, as the raw drivers are set up here, and as
    /// proxies count requests.
    pub(crate) fn is_plain(&self) -> bool {
        self.server().is_some_and(|server| {
            server.auth().is_none() && server.url().starts_with(&format!("{}://", server.kind().scheme()))
        })
    }

    /// Fails once the store has not answered for a while; never returns otherwise.
    pub(crate) async fn dies(&self) -> Result<()> {
        let coord = self.open().await?;
        let mut silent_since = None;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            match coord.get("/alive").await {
                Ok(_) => silent_since = None,
                Err(error) => {
                    let since = *silent_since.get_or_insert_with(tokio::time::Instant::now);
                    if since.elapsed() > PATIENCE {
                        return Err(format!("the store no longer answers: {error}").into());
                    }
                }
            }
        }
    }

    /// Removes all that the run has written.
    pub(crate) async fn clear(&self) -> Result<()> {
        let coord = self.open().await?;
        let mut all = coord.watch("/").await?;
        if let Some(WatchEvent::Snapshot { entries, .. }) = all.try_next().await? {
            drop(all);
            let keys = entries.into_iter().map(|entry| entry.key);
            let deletions = stream::iter(keys).map(|key| {
                let coord = coord.clone();
                async move { coord.delete(key).await }
            });
            deletions.buffer_unordered(64).try_for_each(async |_| Ok(())).await?;
        }
        Ok(coord.close().await?)
    }

    /// Ends what was started.
    pub(crate) async fn stop(self) -> Result<()> {
        match self.host {
            Host::Server(server) => Ok(server.stop().await?),
            Host::Cluster(cluster) => Ok(cluster.stop().await?),
            // Says what could not be removed; a drop would not.
            Host::Files(files) => Ok(files.close()?),
            Host::Nothing => Ok(()),
        }
    }
}
