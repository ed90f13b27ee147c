//! The suite on every backend, as tests named `backend::group::promise`.
//!
//! Where servers come from is chosen by `COORD_TEST_ZK`, `COORD_TEST_ETCD` and so on, see
//! [`Provider::choose`](coord_testbed::Provider::choose). A backend that is `off` shows as one ignored test.

use std::{process::ExitCode, sync::Arc};

use coord_conformance::{Failure, Fixture, UrlFixture, labs, trials};
use coord_testbed::{Kind, Provider, Server};
use libtest_mimic::{Arguments, Failed, Trial};

/// The tests of one kind of server, and the server that they share, which must outlive them.
async fn of_kind(kind: Kind, wanted: bool) -> (Vec<Trial>, Option<Server>) {
    let alone = |name: &str, result: Result<(), String>| {
        Trial::test(format!("{}::{name}", kind.name()), move || result.map_err(Failed::from))
    };
    let runtime = tokio::runtime::Handle::current();
    if !wanted {
        // Nobody asked for this kind: its cases are listed, and no server is started.
        let lab = labs::ServerLab { kind, provider: Provider::Off };
        let listed: Arc<dyn Fixture> =
            Arc::new(UrlFixture::new(kind.name(), "off:", labs::open).with_lab(lab));
        return (trials(&listed, &runtime), None);
    }
    let provider = match Provider::choose(kind).await {
        Ok(Provider::Off) => return (vec![alone("off", Ok(())).with_ignored_flag(true)], None),
        Ok(provider) => provider,
        Err(error) => return (vec![alone("provider", Err(error.to_string()))], None),
    };
    match labs::servers(kind, provider).await {
        Ok((fixture, shared)) => (trials(&fixture, &runtime), shared),
        Err(failure) => (vec![alone("server", Err(failure.0))], None),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime for the tests");
    let filter = arguments.filter.clone().unwrap_or_default();
    let wanted = |kind: Kind| {
        let other = Kind::ALL
            .iter()
            .map(|kind| kind.name())
            .chain(["memory", "sqlite"])
            .any(|name| filter.starts_with(&format!("{name}::")));
        !arguments.list && (!other || filter.starts_with(&format!("{}::", kind.name())))
    };
    let mut tests = trials(&labs::memory(), runtime.handle());
    match labs::sqlite() {
        Ok(sqlite) => tests.extend(trials(&sqlite, runtime.handle())),
        Err(Failure(why)) => tests.push(Trial::test("sqlite::directory", || Err(Failed::from(why)))),
    }
    let mut shared = Vec::new();
    for kind in Kind::ALL {
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
