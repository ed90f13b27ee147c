//! A server for one store, set up as in production.

use std::time::Duration;

use coord::Coord;
use coord_testbed::{Cluster, Kind, Provider, Server, ServerOptions};

use crate::{Result, args::Data};

/// Ticks, elections and the collector of empty containers at the servers' own defaults: the tests' short ones would
/// make servers work in the background.
fn options(data: Data) -> ServerOptions {
    ServerOptions::new()
        .tick(Duration::from_secs(2))
        .heartbeat(Duration::from_millis(100))
        .election(Duration::from_secs(1))
        .container_check_interval(Duration::from_secs(60))
        .durable(data == Data::Disk)
}

pub(crate) async fn start(kind: Kind, data: Data) -> Result<Server> {
    let provider = Provider::choose(kind).await?;
    Ok(Server::start(kind, &provider, options(data)).await?)
}

/// Three servers that form one.
pub(crate) async fn start_three(kind: Kind, data: Data) -> Result<Cluster> {
    let provider = Provider::choose(kind).await?;
    Ok(Cluster::start_three(kind, &provider, options(data)).await?)
}

/// What "on disk" and "in memory" mean for this kind.
pub(crate) fn durability(kind: Kind, data: Data) -> &'static str {
    match (kind, data) {
        (Kind::ZooKeeper | Kind::ZooKeeper38, Data::Disk) => "disk, forceSync on",
        (Kind::ZooKeeper | Kind::ZooKeeper38, Data::Memory) => "tmpfs, forceSync off",
        (Kind::Etcd, Data::Disk) => "disk, fsync on",
        (Kind::Etcd, Data::Memory) => "tmpfs, fsync off",
        (_, Data::Disk) => "disk, appendfsync always",
        (_, Data::Memory) => "tmpfs, appendfsync no",
    }
}

/// A handle with the default layers, as an application opens it.
pub(crate) async fn open(url: &str) -> Result<Coord> {
    Ok(coord::connect(&format!("{url}/bench")).await?)
}
