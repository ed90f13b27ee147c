//! Benchmarks of coord on real servers that it starts itself, against raw drivers and other clients in one sitting.
//!
//! `coord-benches speed` measures what is promised about speed, `coord-benches peers` compares with other clients,
//! `coord-benches run` compares the stores; see `docs/benchmarks/README.md`.

mod args;
mod contest;
mod counters;
mod facts;
mod handles;
mod idle;
mod load;
mod peers;
mod process;
mod race;
mod raw;
mod raw_txn;
mod report;
mod run;
mod stand;
mod stats;
mod suites;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use coord_testbed::{Kind, Server};

use args::{Cli, Command, SERVERS, Speed, StoreName, Suite};
use facts::Facts;
use report::Report;
use suites::{contended, round_trips, throughput, waiters};

/// Whatever ends a run.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// How long a server works before it is measured: a JVM compiles what it runs often.
const WARM_UP: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let result = tokio::runtime::Runtime::new().map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            match Cli::parse().command {
                Command::Speed(speed) => speed_run(&speed).await,
                Command::Run(args) => run::run(&args).await,
                Command::Peers(args) => peers::run(&args).await,
                Command::Side(args) => peers::side(&args).await.map(|()| true),
                Command::Child(args) => run::child(&args).await.map(|()| true),
                Command::Waiters(args) => say(&waiters::child(&args).await?).map(|()| true),
            }
        })
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "coord-benches: {error}");
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Says what is going on, for whoever watches.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Runs what was asked for; false if an exact promise is broken.
async fn speed_run(speed: &Speed) -> Result<bool> {
    let mut report = Report::new(Facts::gather(speed.data, speed.pairs()));
    for (name, kind) in SERVERS {
        if speed.on(name) {
            let server = stand::start(kind, speed.data).await?;
            let result = on_server(speed, &server, &mut report).await;
            let log = server.log_tail();
            server.stop().await?;
            result.map_err(|error| format!("{kind}: {error}\n{log}"))?;
        }
    }
    if speed.on(StoreName::Memory) && speed.has(Suite::Waiters) {
        note("memory: waiters");
        waiters::run(speed, "memory", "memory:waiters", &mut report).await?;
    }
    say(&report.markdown())?;
    if let Some(dir) = &speed.out {
        report.write(dir, speed.data)?;
    }
    for claim in report.broken() {
        note(&format!("broken: {}: {}", claim.what, report::shown(&claim.found)));
    }
    Ok(report.broken().next().is_none())
}

async fn on_server(speed: &Speed, server: &Server, report: &mut Report) -> Result<()> {
    let kind = server.kind();
    let durability = stand::durability(kind, speed.data);
    report.facts.servers.push(format!("{kind} {} ({durability})", server.version()));
    if kind == Kind::ZooKeeper && speed.has(Suite::Throughput) && !speed.smoke {
        note(&format!("{kind}: warming up"));
        raw::warm_up(server, WARM_UP).await?;
    }
    if speed.has(Suite::RoundTrips) {
        note(&format!("{kind}: round trips"));
        round_trips::run(speed, server, report).await?;
    }
    if speed.has(Suite::Throughput) {
        note(&format!("{kind}: throughput"));
        throughput::run(speed, server, report).await?;
    }
    if speed.has(Suite::Contended) {
        note(&format!("{kind}: contended"));
        contended::run(speed, server, report).await?;
    }
    if speed.has(Suite::Waiters) {
        note(&format!("{kind}: waiters"));
        waiters::run(speed, kind.name(), &server.url(), report).await?;
    }
    Ok(())
}
