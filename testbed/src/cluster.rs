//! Several servers that form one.

use std::path::Path;

use futures::future::try_join_all;

use crate::{
    Kind, Provider, Result, Server, ServerOptions, TestbedError,
    address::Address,
    config::{self, Members},
};

/// Three servers that form one, on this machine.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

const NODES: usize = 3;

impl Cluster {
    /// Starts three servers of this kind as one cluster, and returns when each has answered a
    /// handshake, so that there is a leader and all follow it.
    ///
    /// # Errors
    /// As [`Server::start`], and [`Unsupported`](TestbedError::Unsupported) for other kinds than
    /// ZooKeeper and etcd, and for other providers than [`Provider::Local`].
    pub async fn start_three(kind: Kind, provider: &Provider, options: ServerOptions) -> Result<Cluster> {
        config::check(kind, &options)?;
        let bin: &Path = match provider {
            Provider::Local(bin) => bin,
            Provider::Off => return Err(TestbedError::Off { kind }),
            _ => {
                return Err(TestbedError::Unsupported {
                    what: "start a cluster",
                    by: "a provider other than `local`",
                });
            }
        };
        if matches!(kind, Kind::Redis | Kind::Valkey) {
            return Err(TestbedError::Unsupported { what: "form a cluster of three", by: "Redis" });
        }
        let ports = config::ports(kind);
        let addresses = (0..NODES).map(|_| Address::claim(&ports)).collect::<Result<Vec<_>>>()?;
        let mut started = Vec::with_capacity(NODES);
        for me in 0..NODES {
            started.push(Server::spawn(kind, bin, &options, Members { all: &addresses, me }).await?);
        }
        let nodes = started.into_iter().zip(addresses);
        let mut nodes: Vec<_> =
            nodes.map(|(local, address)| Server::local(kind, local, address, options.clone())).collect();
        // None answers before a majority is there: they must be waited for together.
        try_join_all(nodes.iter_mut().map(Server::ready)).await?;
        if let Some(first) = nodes.first() {
            first.set_up().await?;
        }
        Ok(Cluster { nodes })
    }

    /// Its servers. One that was killed stays in its place.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Its servers, to kill and restart them.
    pub fn nodes_mut(&mut self) -> &mut [Server] {
        &mut self.nodes
    }

    /// All of them in one URL: `zk://a:2181,b:2181,c:2181`.
    pub fn url(&self) -> String {
        let mut url = String::new();
        for node in &self.nodes {
            if url.is_empty() {
                url = node.url();
            } else {
                url += &format!(",{}", node.addr());
            }
        }
        url
    }

    /// Ends all of them and removes their data.
    ///
    /// # Errors
    /// The first that occurs; the rest are ended all the same.
    pub async fn stop(self) -> Result<()> {
        let mut result = Ok(());
        for node in self.nodes {
            result = result.and(node.stop().await);
        }
        result
    }
}
