//! Real servers: one that all cases share, and one of its own for every case that breaks it.

use std::{sync::Arc, time::Duration};

use crate::{Client, Failure, Lab, Link, Need, Rig};
use async_trait::async_trait;
use coord_api::Config;
use coord_testbed::{Kind, Provider, Proxy, Server, ServerOptions};
use tokio::sync::Mutex;

/// Starts servers of one kind from one provider.
#[derive(Clone, Debug)]
pub struct ServerLab {
    /// What to start.
    pub kind: Kind,
    /// Where it comes from.
    pub provider: Provider,
}

#[derive(Debug)]
struct ServerRig {
    server: Mutex<Server>,
}

#[derive(Debug)]
struct ProxyLink(Proxy);

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure(error.to_string())
}

/// What the suite runs on: data that survives a kill, and elections and ticks short enough for sessions of a second.
fn options(kind: Kind) -> ServerOptions {
    let options = ServerOptions::new().container_check_interval(Duration::from_millis(300));
    match kind {
        // Without its log a Redis forgets everything when it is killed, as its backend's own tests show.
        Kind::Redis | Kind::Valkey => options.extra("appendonly", "yes").extra("appendfsync", "always"),
        _ => options,
    }
}

impl ServerLab {
    /// Starts a server.
    ///
    /// # Errors
    /// What the testbed says.
    pub async fn start(&self) -> Result<Server, Failure> {
        Server::start(self.kind, &self.provider, options(self.kind)).await.map_err(failed)
    }
}

#[async_trait]
impl Lab for ServerLab {
    fn offers(&self, need: Need) -> Result<(), String> {
        match (need, &self.provider) {
            (Need::Link | Need::Server, Provider::Url(_)) => {
                Err("a server given by URL is not ours to break".to_owned())
            }
            _ => Ok(()),
        }
    }

    async fn rig(&self) -> Result<Arc<dyn Rig>, Failure> {
        Ok(Arc::new(ServerRig { server: Mutex::new(self.start().await?) }))
    }
}

#[async_trait]
impl Rig for ServerRig {
    async fn client(&self, namespace: &str) -> Result<Client, Failure> {
        let proxy = self.server.lock().await.proxied().await.map_err(failed)?;
        let config = Config::from_url(&proxy.url())?.with_default("namespace", namespace);
        let coord = coord::connect_with(&config).await?;
        Ok(Client { coord, link: Arc::new(ProxyLink(proxy)) })
    }

    async fn kill(&self) -> Result<(), Failure> {
        self.server.lock().await.kill().await.map_err(failed)
    }

    async fn restart(&self) -> Result<(), Failure> {
        self.server.lock().await.restart().await.map_err(failed)
    }

    async fn pause(&self) -> Result<(), Failure> {
        self.server.lock().await.pause().await.map_err(failed)
    }

    async fn resume(&self) -> Result<(), Failure> {
        self.server.lock().await.resume().await.map_err(failed)
    }
}

#[async_trait]
impl Link for ProxyLink {
    async fn blackhole(&self) {
        self.0.set(coord_testbed::Link::BlackHole);
    }

    async fn heal(&self) {
        self.0.set(coord_testbed::Link::Up);
    }

    async fn reset(&self) -> Result<(), Failure> {
        self.0.cut_connections();
        Ok(())
    }

    async fn lose_reply(&self, nth: u64) -> Result<(), Failure> {
        self.0.lose_reply(nth);
        Ok(())
    }
}
