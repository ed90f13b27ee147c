//! get and put through `dyn Backend` and the default layers, against the raw driver on the same server.

use std::time::Duration;

use coord_testbed::Server;

use crate::{
    Result,
    args::Speed,
    load::{self, Load},
    raw::{self, Operation},
    report::{Bound, Claim, Report, Throughput},
    stand,
    stats::Sample,
};

const TASKS: [usize; 2] = [1, 64];
/// Those that the promise speaks of.
const PROMISED: usize = 64;

pub(crate) async fn run(speed: &Speed, server: &Server, report: &mut Report) -> Result<()> {
    let coord = stand::open(&server.url()).await?;
    let store = server.kind().name();
    let (settle, span) = (speed.span(0.2, 0.05), speed.span(2.0, 0.2));
    let settle = settle.min(Duration::from_millis(500));
    for operation in [Operation::Get, Operation::Put] {
        let mut sides = raw::peers(server, operation).await?;
        sides.push(raw::ours(&coord, operation).await?);
        let requests = requests(server, operation).await?;
        let what = format!("{store}: requests for a {}", operation.name());
        report.claims.push(Claim::new(what, Bound::AtMost(1.0), requests.clone(), false));
        for tasks in TASKS {
            // Interleaved: what disturbs the machine for a while disturbs all sides.
            let mut found: Vec<Vec<Load>> = sides.iter().map(|_| Vec::new()).collect();
            for _ in 0..speed.pairs() {
                for (side, found) in sides.iter().zip(&mut found) {
                    found.push(load::run(&side.op, tasks, settle, span).await?);
                }
            }
            let ours = found.last().cloned().unwrap_or_default();
            for (index, (side, found)) in sides.iter().zip(&found).enumerate() {
                let is_ours = index + 1 == sides.len();
                let sample = |figure: fn(&Load) -> f64| Sample::new(found.iter().map(figure).collect());
                let ratio = Sample::new(
                    ours.iter().zip(found).map(|(ours, this)| ours.ops_per_s / this.ops_per_s).collect(),
                );
                if tasks == PROMISED && !is_ours {
                    let what = format!("{store}: {} at {tasks} tasks over {}", operation.name(), side.name);
                    report.claims.push(Claim::new(what, Bound::AtLeast(0.9), ratio.clone(), false));
                }
                report.throughput.push(Throughput {
                    store,
                    operation: operation.name(),
                    tasks,
                    side: side.name,
                    ops_per_s: sample(|load| load.ops_per_s),
                    p50_ms: sample(|load| load.p50_ms),
                    p99_ms: sample(|load| load.p99_ms),
                    cpu_us: sample(|load| load.cpu_us),
                    requests: is_ours.then_some(requests.median),
                    ours_over_this: (!is_ours).then_some(ratio),
                });
            }
        }
    }
    Ok(coord.close().await?)
}

/// Requests of ours for one operation, counted by a proxy.
async fn requests(server: &Server, operation: Operation) -> Result<Sample> {
    let proxy = server.proxied().await?;
    let coord = stand::open(&proxy.url()).await?;
    let side = raw::ours(&coord, operation).await?;
    let mut counts = Vec::new();
    for task in 0..20 {
        let before = proxy.requests();
        (side.op)(task).await?;
        counts.push((proxy.requests() - before) as f64);
    }
    coord.close().await?;
    Ok(Sample::new(counts))
}
