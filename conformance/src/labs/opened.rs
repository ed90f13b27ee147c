//! A handle with the usual layers, whose backend is open already.

use std::sync::Arc;

use async_trait::async_trait;
use coord_api::{Backend, BackendFactory, Config, Coord, OptionSpec, Registry, Result};

/// Gives out what is open already, so that a rig keeps the controls of its faults.
#[derive(Debug)]
struct Opened(Arc<dyn Backend>);

#[async_trait]
impl BackendFactory for Opened {
    fn schemes(&self) -> &'static [&'static str] {
        &["opened"]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    async fn connect(&self, _: &Config) -> Result<Arc<dyn Backend>> {
        Ok(Arc::clone(&self.0))
    }
}

/// Puts the layers that users get around a backend.
pub(super) async fn opened(backend: Arc<dyn Backend>, namespace: &str) -> Result<Coord> {
    let registry = Registry::new().with(Opened(backend));
    let config = Config::from_url("opened:")?.with_default("namespace", namespace);
    coord::connect_through(&registry, &config).await
}
