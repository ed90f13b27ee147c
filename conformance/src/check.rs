//! The `run` and `matrix` commands.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use coord_api::BackendInfo;
use coord_conformance::{Fixture, Outcome, Report, UrlFixture, labs, report_printed, run_all};
use coord_testbed::{Kind, Provider};

use crate::say::tell;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Check {
    /// Checks stores that you run, by URL. Cases that break a server or its links are left out and listed.
    ///
    /// The suite writes below /conformance and cleans nothing up: give it a namespace of its own.
    Run {
        /// A store, such as zk://127.0.0.1:2181/app. May be given several times.
        #[arg(long, required = true)]
        url: Vec<String>,
        #[command(flatten)]
        out: Out,
    },
    /// Checks every store of this project on servers that it starts itself, faults included.
    Matrix {
        /// What the test `suite` has printed, such as target/suite.log of ./test: taken instead of checking once more.
        #[arg(long, value_name = "FILE", conflicts_with = "filter")]
        printed: Option<PathBuf>,
        #[command(flatten)]
        out: Out,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Out {
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    filter: String,
    /// Where to write the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where to write the matrix as Markdown.
    #[arg(long)]
    matrix: Option<PathBuf>,
}

impl Check {
    pub(crate) fn execute(&self) -> ExitCode {
        let runtime = match tokio::runtime::Runtime::new() {
            Ok(runtime) => runtime,
            Err(error) => {
                tell!("no runtime: {error}");
                return ExitCode::FAILURE;
            }
        };
        let (reports, out) = match self {
            Self::Run { url, out } => (runtime.block_on(urls(url, &out.filter)), out),
            Self::Matrix { printed, out } => (runtime.block_on(matrix(printed.as_deref(), &out.filter)), out),
        };
        match reports.and_then(|reports| write(&reports, out).map(|()| reports)) {
            Ok(reports) if reports.iter().all(|report| report.counts().1 == 0) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(message) => {
                tell!("{message}");
                ExitCode::FAILURE
            }
        }
    }
}

#[allow(clippy::future_not_send, reason = "cases are not Send")]
async fn urls(urls: &[String], filter: &str) -> Result<Vec<Report>, String> {
    let mut reports = Vec::new();
    for url in urls {
        // The scheme and not the URL: a report is no place for a password.
        let name = url.split(':').next().unwrap_or("store");
        let fixture: Arc<dyn Fixture> = Arc::new(UrlFixture::new(name, url.as_str(), labs::open));
        reports.push(check(fixture, filter).await?);
    }
    Ok(reports)
}

#[allow(clippy::future_not_send, reason = "cases are not Send")]
async fn matrix(printed: Option<&Path>, filter: &str) -> Result<Vec<Report>, String> {
    let printed =
        printed.map(|path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display())));
    let printed = printed.transpose()?;
    let check = async |fixture| match &printed {
        None => check(fixture, filter).await,
        Some(printed) => take(fixture, printed).await,
    };
    let embedded = labs::sqlite().map_err(|failure| failure.0)?;
    let mut reports = vec![check(labs::memory()).await?, check(embedded).await?];
    for kind in Kind::ALL {
        let provider = match Provider::choose(kind).await.map_err(|e| e.to_string())? {
            Provider::Off => continue,
            provider => provider,
        };
        let (fixture, shared) = labs::servers(kind, provider).await.map_err(|failure| failure.0)?;
        reports.push(check(fixture).await?);
        if let Some(server) = shared {
            server.stop().await.map_err(|e| e.to_string())?;
        }
    }
    Ok(reports)
}

#[allow(clippy::future_not_send, reason = "cases are not Send")]
async fn check(fixture: Arc<dyn Fixture>, filter: &str) -> Result<Report, String> {
    let info = ask(&*fixture).await?;
    let mut report = run_all(fixture, filter, |name, row| match &row.outcome {
        Outcome::Passed => tell!("ok      {name}::{}", row.case),
        Outcome::NotApplicable { reason } => tell!("n/a     {name}::{} ({reason})", row.case),
        Outcome::Failed { message } => tell!("FAILED  {name}::{}: {message}", row.case),
    })
    .await;
    report.describe(&info);
    sum_up(&report);
    Ok(report)
}

/// The same, of a run that was.
async fn take(fixture: Arc<dyn Fixture>, printed: &str) -> Result<Report, String> {
    let mut report = report_printed(&*fixture, printed).map_err(|failure| failure.0)?;
    report.describe(&ask(&*fixture).await?);
    sum_up(&report);
    Ok(report)
}

/// What the store says of itself.
async fn ask(fixture: &dyn Fixture) -> Result<BackendInfo, String> {
    let coord = fixture.connect("/conformance/info").await.map_err(|e| e.to_string())?;
    let info = coord.info();
    coord.close().await.map_err(|e| e.to_string())?;
    Ok(info)
}

fn sum_up(report: &Report) {
    let (passed, failed, not_applicable) = report.counts();
    tell!("{}: {passed} passed, {failed} failed, {not_applicable} not applicable\n", report.fixture);
}

fn write(reports: &[Report], out: &Out) -> Result<(), String> {
    if let Some(path) = &out.json {
        let json = serde_json::to_string_pretty(reports).map_err(|e| e.to_string())?;
        fs::write(path, json + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if let Some(path) = &out.matrix {
        fs::write(path, Report::matrix(reports)).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}
