//! Opening a store by URL.

use std::sync::Arc;

use async_trait::async_trait;
use coord_api::{Backend, BackendFactory, Config, OptionSpec, Result, kit::Runtime};

use crate::{
    RedisBackend,
    settings::{OPTIONS, Settings},
};

/// Opens `redis://user:password@host:port/namespace`, and `rediss` with the cargo feature `tls`.
///
/// The path is the namespace, not the number of a database: without one it is `coord`, in database 0. With several
/// hosts the first that is a primary is used.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisFactory;

#[async_trait]
impl BackendFactory for RedisFactory {
    fn schemes(&self) -> &'static [&'static str] {
        &["redis", "rediss"]
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let settings = Settings::new(config)?;
        let runtime = Runtime::library()?;
        // On the library's runtime, where the connections live. Dropped half-way it closes what it opened.
        let opening = RedisBackend::open(settings, runtime.clone());
        Ok(Arc::new(runtime.run(opening).await?))
    }
}
