//! Opening a store by URL.

use std::sync::Arc;

use async_trait::async_trait;
use coord_api::{Backend, BackendFactory, Config, OptionSpec, Result};

use crate::{SCHEME, SqliteBackend, settings::OPTIONS};

/// Opens `sqlite:/path/to/file`, `sqlite:file` and `sqlite:`, the file of this user:
/// `$XDG_STATE_HOME/coord/coord.db`, or `~/.local/state/coord/coord.db`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SqliteFactory;

#[async_trait]
impl BackendFactory for SqliteFactory {
    fn schemes(&self) -> &'static [&'static str] {
        &[SCHEME]
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(SqliteBackend::connect(config).await?))
    }
}
