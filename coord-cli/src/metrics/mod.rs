//! `serve-metrics`: a store from outside, as a page for Prometheus.

mod names;
mod probe;

use std::sync::Arc;

use coord::prometheus::{self, Exporter};
use tokio::{net::TcpListener, sync::Mutex};

pub use names::METRICS;

use crate::{Failure, args::ServeMetricsArgs, code, output::Output, run::Signals, store::Source};
use probe::Probe;

/// Serves until a signal ends it; writes the address of the page once it can be read.
pub(crate) async fn serve(
    source: &Source,
    out: &mut Output<'_>,
    args: ServeMetricsArgs,
) -> Result<u8, Failure> {
    let mut signals = Signals::install()?;
    // First, since numbers go to the recorder that is there when a handle is made.
    let exporter = Exporter::install()?;
    METRICS.iter().for_each(coord::layers::metrics::names::Metric::describe);
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| Failure::Setup(format!("cannot listen on {}: {error}", args.listen)))?;
    let coord = tokio::select! {
        biased;
        _ = signals.ending() => return Ok(code::YES),
        coord = source.connect() => coord?,
    };
    out.line(&format!("http://{}/metrics", listener.local_addr()?))?;

    // One look at a time: who asks meanwhile waits, and looks again.
    let probe = Arc::new(Mutex::new(Probe::new(coord.clone(), args.dirs)));
    let page = move || {
        let (probe, exporter) = (Arc::clone(&probe), exporter.clone());
        async move {
            probe.lock().await.look().await;
            exporter.render()
        }
    };
    tokio::select! {
        biased;
        _ = signals.ending() => {}
        () = prometheus::serve(listener, page) => {}
    }
    if let Err(error) = coord.close().await {
        tracing::debug!(%error, "closing");
    }
    Ok(code::YES)
}
