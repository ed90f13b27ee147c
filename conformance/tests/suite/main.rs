//! The suite on every backend, as tests named `backend::group::promise`.
//!
//! Where servers come from is chosen by `COORD_TEST_ZK`, `COORD_TEST_ETCD` and so on, see
//! [`Provider::choose`](coord_testbed::Provider::choose). A backend that is `off` shows as one ignored test.

use std::{process::ExitCode, sync::Arc};

use coord_api::{Config, Coord, Result};
use coord_conformance::{Fixture, UrlFixture, trials};
use coord_testbed::{Kind, Provider, Server};
use futures::future::BoxFuture;
use libtest_mimic::{Arguments, Failed, Trial};

mod memory;
mod servers;

use servers::ServerLab;

const KINDS: [Kind; 5] = [Kind::ZooKeeper, Kind::ZooKeeper38, Kind::Etcd, Kind::Redis, Kind::Valkey];

fn open(config: Config) -> BoxFuture<'static, Result<Coord>> {
    Box::pin(async move { coord::connect_with(&config).await })
}

/// The tests of one kind of server, and the server that they share, which must outlive them.
async fn of_kind(kind: Kind, wanted: bool) -> (Vec<Trial>, Option<Server>) {
    let alone = |name: &str, result: std::result::Result<(), String>| {
        Trial::test(format!("{}::{name}", kind.name()), move || result.map_err(Failed::from))
    };
    let provider = match Provider::choose(kind).await {
        Ok(Provider::Off) => return (vec![alone("off", Ok(())).with_ignored_flag(true)], None),
        Ok(provider) => provider,
        Err(error) => return (vec![alone("provider", Err(error.to_string()))], None),
    };
    let lab = ServerLab { kind, provider };
    let (url, shared) = match (&lab.provider, wanted) {
        (Provider::Url(url), _) => (url.clone(), None),
        // Nobody asked for this kind: its cases are listed, and no server is started.
        (_, false) => (format!("{}://127.0.0.1:1", kind.scheme()), None),
        (_, true) => match lab.start().await {
            Ok(server) => (server.url(), Some(server)),
            Err(failure) => return (vec![alone("server", Err(failure.0))], None),
        },
    };
    let fixture: Arc<dyn Fixture> = Arc::new(UrlFixture::new(kind.name(), url, open).with_lab(lab));
    (trials(&fixture, &tokio::runtime::Handle::current()), shared)
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime for the tests");
    let wanted = |kind: Kind| {
        let name = kind.name();
        let filter = arguments.filter.as_deref().unwrap_or("");
        !arguments.list
            && (filter.starts_with(&format!("{name}::")) || !filter.contains("::") || filter.is_empty())
    };
    let memory: Arc<dyn Fixture> =
        Arc::new(UrlFixture::new("memory", "memory:conformance", open).with_lab(memory::MemoryLab));
    let mut tests = trials(&memory, runtime.handle());
    let mut shared = Vec::new();
    for kind in KINDS {
        let (trials, server) = runtime.block_on(of_kind(kind, wanted(kind)));
        tests.extend(trials);
        shared.extend(server);
    }
    let conclusion = libtest_mimic::run(&arguments, tests);
    for server in shared {
        // A server that does not stop is killed when it is dropped.
        let _ = runtime.block_on(server.stop());
    }
    conclusion.exit_code()
}
