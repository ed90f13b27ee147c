//! The numbers of the feature `metrics` as a page for Prometheus.
//!
//! For programs that have no exporter of their own. One that has, or that wants OTLP or StatsD, installs the recorder of
//! its choice and needs the feature `metrics` alone: coord speaks to the facade.
//!
//! ```no_run
//! # async fn program() -> Result<(), Box<dyn std::error::Error>> {
//! use coord::prometheus::Exporter;
//! use tokio::net::TcpListener;
//!
//! let exporter = Exporter::install()?; // before stores are opened, so that nothing is missed
//! let listener = TcpListener::bind("127.0.0.1:9464").await?;
//! tokio::spawn(async move { exporter.serve(listener).await });
//!
//! let store = coord::connect("memory:").await?;
//! # Ok(())
//! # }
//! ```

mod histogram;
mod http;
mod recorder;
mod text;

use std::future::ready;

use coord_api::{Error, Result};
use coord_layers::metrics::names;
use tokio::net::TcpListener;

pub use http::serve;

use recorder::Recorder;

/// A recorder of metrics, and the page that shows them. Clones share it.
///
/// Counters, gauges and histograms with fixed limits; what it takes grows with the number of different labels and not
/// with time.
#[derive(Clone, Debug)]
pub struct Exporter {
    recorder: Recorder,
}

impl Exporter {
    /// Makes the recorder that all metrics of this process go to from now on, also those of others than coord.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) if this process has a recorder already.
    pub fn install() -> Result<Self> {
        let recorder = Recorder::default();
        metrics::set_global_recorder(recorder.clone())
            .map_err(|_| Error::invalid("this process has a recorder of metrics already"))?;
        names::ALL.iter().for_each(names::Metric::describe);
        Ok(Self { recorder })
    }

    /// The page, in Prometheus' text format.
    #[must_use]
    pub fn render(&self) -> String {
        text::page(&self.recorder)
    }

    /// Serves the page at `/metrics` until the future is dropped. Whoever can reach the listener can read it: bind to
    /// a loopback address unless others should.
    ///
    /// # Cancel safety
    /// Safe: connections are closed.
    pub async fn serve(&self, listener: TcpListener) {
        let exporter = self.clone();
        serve(listener, move || ready(exporter.render())).await;
    }
}

#[cfg(test)]
mod tests;
