//! The suite on every backend, as tests named `backend::group::promise`.

use std::{process::ExitCode, sync::Arc};

use coord_api::{Config, Coord, Result};
use coord_conformance::{Fixture, UrlFixture, trials};
use futures::future::BoxFuture;
use libtest_mimic::Arguments;

mod memory;

fn open(config: Config) -> BoxFuture<'static, Result<Coord>> {
    Box::pin(async move {
        coord_api::Registry::new().with(coord_backend_memory::MemoryFactory).connect(&config).await
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime for the tests");
    let memory = UrlFixture::new("memory", "memory:conformance", open).with_lab(memory::MemoryLab);
    let memory: Arc<dyn Fixture> = Arc::new(memory);
    let tests = trials(&memory, runtime.handle());
    libtest_mimic::run(&arguments, tests).exit_code()
}
