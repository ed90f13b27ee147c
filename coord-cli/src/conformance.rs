//! `conformance`: the suite against the store of the URL.

use std::{sync::Arc, thread};

use async_trait::async_trait;
use clap::Args;
use coord::{Config, Coord};
use coord_conformance::{Failure as CaseFailure, Fixture, Need, Outcome, Report, Rig, run_all};
use tokio::sync::oneshot;

use crate::{
    Failure, Format, code,
    exit::say,
    output::{Output, printable_text},
    store::Source,
};

/// Arguments of `conformance`.
#[derive(Args, Debug)]
pub struct ConformanceArgs {
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub filter: String,
}

/// Runs the cases that break nothing and writes the matrix; exit 1 if a promise was not kept.
pub(crate) async fn conformance(
    source: &Source,
    out: &mut Output<'_>,
    args: ConformanceArgs,
) -> Result<u8, Failure> {
    let (config, _) = source.config()?;
    if config.options().get("namespace").is_some() {
        return Err(Failure::Setup(
            "each case has a namespace of its own: leave out the option namespace, and give a path in the URL".to_owned(),
        ));
    }
    let coord = coord::connect_with(&config).await?;
    let info = coord.info();
    coord.close().await?;
    let (done, told) = oneshot::channel();
    // Cases stay on the thread that began them and use others besides: they have a runtime of their own.
    thread::Builder::new().name("coord-conformance".to_owned()).spawn(move || {
        // Fails if nobody waits any more.
        let _ = done.send(check(config, &args.filter));
    })?;
    let ended = told.await.unwrap_or_else(|_| Err(Failure::Setup("the suite ended early".to_owned())));
    let mut report = ended?;
    report.describe(&info);
    let (_, failed, _) = report.counts();
    match out.format() {
        Format::Json | Format::Jsonl => {
            let report = serde_json::to_value(&report).map_err(|error| Failure::Setup(error.to_string()))?;
            out.json(&report)?;
        }
        _ => {
            let page = Report::matrix(&[report]);
            // Without the head of the page that the suite writes about all stores.
            let at = page.find("## ").unwrap_or_default();
            out.bytes(&page.as_bytes()[at..])?;
        }
    }
    Ok(if failed == 0 { code::YES } else { code::NO })
}

fn check(config: Config, filter: &str) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let fixture: Arc<dyn Fixture> = Arc::new(Store(config));
    Ok(runtime.block_on(run_all(fixture, filter, |_, row| match &row.outcome {
        Outcome::Passed => {}
        Outcome::NotApplicable { reason } => say(&format!("n/a     {} ({reason})", row.case)),
        Outcome::Failed { message } => {
            say(&format!("FAILED  {}: {}", row.case, printable_text(message)));
        }
    })))
}

/// The store of the user, which is not ours to break.
#[derive(Debug)]
struct Store(Config);

#[async_trait]
impl Fixture for Store {
    fn name(&self) -> &str {
        self.0.url().scheme()
    }

    async fn connect(&self, namespace: &str) -> coord::Result<Coord> {
        coord::connect_with(&self.0.clone().with_default("namespace", namespace)).await
    }

    fn offers(&self, need: Need) -> Result<(), String> {
        match need {
            Need::Store => Ok(()),
            _ => Err("a server given by URL is not ours to break".to_owned()),
        }
    }

    async fn rig(&self) -> Result<Arc<dyn Rig>, CaseFailure> {
        Err(CaseFailure("no server is ours to break".to_owned()))
    }
}
