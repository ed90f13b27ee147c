//! Fixtures for the stores of this project: memory in this process, and real servers from the testbed.

mod memory;
mod servers;

use std::sync::Arc;

use coord_api::{Config, Coord, Result};
use coord_testbed::{Kind, Provider, Server};
use futures::future::BoxFuture;

pub use memory::MemoryLab;
pub use servers::ServerLab;

use crate::{Failure, Fixture, UrlFixture};

/// Opens a store with the layers that users get.
#[must_use]
pub fn open(config: Config) -> BoxFuture<'static, Result<Coord>> {
    Box::pin(async move { coord::connect_with(&config).await })
}

/// The memory store, with its own faults for links.
#[must_use]
pub fn memory() -> Arc<dyn Fixture> {
    Arc::new(UrlFixture::new("memory", "memory:conformance", open).with_lab(MemoryLab))
}

/// Real servers of a kind, and the one that the cases share; keep it while they run.
///
/// # Errors
/// If there is no server to be had or it does not start.
pub async fn servers(
    kind: Kind,
    provider: Provider,
) -> std::result::Result<(Arc<dyn Fixture>, Option<Server>), Failure> {
    let lab = ServerLab { kind, provider };
    let (url, shared) = match &lab.provider {
        Provider::Url(url) => (url.clone(), None),
        _ => {
            let server = lab.start().await?;
            (server.url(), Some(server))
        }
    };
    Ok((Arc::new(UrlFixture::new(kind.name(), url, open).with_lab(lab)), shared))
}
