//! The conformance suite on this backend: every case that needs a store, and those that break the way to it.

#![allow(clippy::print_stderr, reason = "what is left out is told")]

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use coord_api::{Backend, BackendFactory, Config, Coord, OptionSpec, Registry, Result};
use coord_backend_template::{TemplateBackend, TemplateFactory, Wire};
use coord_conformance::{Client, Failure, Fixture, Lab, Link, Need, Rig, UrlFixture, trials};
use coord_layers::{OPERATION_TIMEOUT, RetryLayer, TimeoutLayer};
use futures::future::BoxFuture;
use libtest_mimic::Arguments;

/// A handle as users get it, with the layers of `coord::connect`.
async fn opened(registry: Registry, config: Config) -> Result<Coord> {
    let coord = registry.connect(&config).await?;
    Ok(coord
        .layer(&TimeoutLayer::new(OPERATION_TIMEOUT))
        .layer(&RetryLayer::new(OPERATION_TIMEOUT).leave_ambiguous_joins()))
}

fn open(config: Config) -> BoxFuture<'static, Result<Coord>> {
    Box::pin(opened(Registry::new().with(TemplateFactory), config))
}

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

/// Makes stores that one case owns.
#[derive(Debug)]
struct TemplateLab;

#[derive(Debug)]
struct TemplateRig(String);

#[derive(Debug)]
struct TemplateLink(Wire);

#[async_trait]
impl Lab for TemplateLab {
    fn offers(&self, need: Need) -> std::result::Result<(), String> {
        match need {
            Need::Store | Need::Link => Ok(()),
            Need::Server => Err("a map in this process cannot be killed or paused".to_owned()),
        }
    }

    async fn rig(&self) -> std::result::Result<Arc<dyn Rig>, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Arc::new(TemplateRig(format!("template:rig-{}", NEXT.fetch_add(1, Ordering::Relaxed)))))
    }
}

fn no_server() -> std::result::Result<(), Failure> {
    Err(Failure("not offered".to_owned()))
}

#[async_trait]
impl Rig for TemplateRig {
    async fn client(&self, namespace: &str) -> std::result::Result<Client, Failure> {
        let backend = TemplateBackend::connect(&Config::from_url(&self.0)?).await?;
        let link = Arc::new(TemplateLink(backend.wire()));
        let registry = Registry::new().with(Opened(Arc::new(backend)));
        let config = Config::from_url("opened:")?.with_default("namespace", namespace);
        Ok(Client { coord: opened(registry, config).await?, link })
    }

    async fn kill(&self) -> std::result::Result<(), Failure> {
        no_server()
    }

    async fn restart(&self) -> std::result::Result<(), Failure> {
        no_server()
    }

    async fn pause(&self) -> std::result::Result<(), Failure> {
        no_server()
    }

    async fn resume(&self) -> std::result::Result<(), Failure> {
        no_server()
    }
}

#[async_trait]
impl Link for TemplateLink {
    async fn blackhole(&self) {
        self.0.cut();
    }

    async fn heal(&self) {
        self.0.heal();
    }

    async fn reset(&self) -> std::result::Result<(), Failure> {
        self.0.break_subscriptions();
        Ok(())
    }

    async fn lose_reply(&self, nth: u64) -> std::result::Result<(), Failure> {
        self.0.lose_reply(nth);
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime for the tests");
    let fixture: Arc<dyn Fixture> =
        Arc::new(UrlFixture::new("template", "template:shared", open).with_lab(TemplateLab));
    let mut cases = trials(&fixture, runtime.handle());
    let all = cases.len();
    cases.retain(|case| !case.has_ignored_flag());
    // With a server to kill, pause and restart, a backend has no case to leave out.
    eprintln!("{} of {all} cases are left out: they kill, pause or restart a server", all - cases.len());
    let conclusion = libtest_mimic::run(&arguments, cases);
    runtime.shutdown_timeout(Duration::from_secs(1));
    conclusion.exit_code()
}
