//! Opening a memory store by URL.

use std::{error::Error as StdError, sync::Arc};

use async_trait::async_trait;
use coord_api::{Backend, BackendFactory, Config, Coord, Error, OptionSpec, Registry, Result, kit::Runtime};

use crate::{MemoryBackend, MemoryStore, SCHEME};

/// Opens `memory:` and `memory:name`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFactory;

#[async_trait]
impl BackendFactory for MemoryFactory {
    fn schemes(&self) -> &'static [&'static str] {
        &[SCHEME]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[OptionSpec { name: "seed", doc: "randomness from this number, for repeatable tests" }]
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        if !config.url().hosts().is_empty() {
            return Err(Error::config("a memory store has a name and no hosts: memory:name"));
        }
        let mut runtime = Runtime::current()?;
        if let Some(seed) = config.options().number("seed")? {
            runtime = runtime.with_seed(seed.into());
        }
        let name = config.url().path();
        let store = if name.is_root() {
            MemoryStore::new(&runtime)
        } else {
            MemoryStore::named(name.as_str(), &runtime)
        };
        Ok(Arc::new(MemoryBackend::new(&store, runtime)))
    }
}

/// Runs the example of a doc comment on a store of its own.
///
/// # Panics
/// If the example fails: it is a test.
#[doc(hidden)]
pub fn doc_example(example: impl AsyncFnOnce(Coord) -> Result<(), Box<dyn StdError>>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime for the example");
    let result: Result<(), Box<dyn StdError>> = runtime.block_on(async {
        let coord = Registry::new().with(MemoryFactory).connect(&Config::from_url("memory:")?).await?;
        example(coord).await
    });
    result.expect("the example runs");
}
