//! Fixtures for the stores of this project: memory in this process, a file, and real servers from the testbed.

mod memory;
mod opened;
mod servers;
mod sqlite;

use std::sync::Arc;

use coord_api::{Config, Coord, Result};
use coord_testbed::{Kind, Provider, Server};
use futures::future::BoxFuture;

pub use memory::MemoryLab;
pub use servers::ServerLab;
pub use sqlite::SqliteLab;

use crate::{Failure, Fixture, UrlFixture};
use opened::opened;

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

/// The embedded store, with handles that can be held up for links. Its files go with the fixture.
///
/// # Errors
/// If the system gives no directory.
pub fn sqlite() -> std::result::Result<Arc<dyn Fixture>, Failure> {
    let lab = SqliteLab::new()?;
    Ok(Arc::new(UrlFixture::new("sqlite", lab.url(), open).with_lab(lab)))
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
