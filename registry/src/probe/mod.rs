//! Asking the instances whether they live.

mod http;
mod rounds;
mod tcp;

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{Error, ErrorKind, Result};
use futures::FutureExt;
use tokio::time::timeout;

use crate::Instance;

pub use http::HttpProbe;
pub(crate) use rounds::rounds;
pub use tcp::TcpProbe;

/// The shortest interval: a mistake in a configuration shall not ask without a pause.
const EVERY_LEAST: Duration = Duration::from_millis(10);

/// A question to an instance: does it live?
///
/// [`TcpProbe`] and [`HttpProbe`] are two; another is a few lines. [`Probing`] bounds its time and survives its panics.
#[async_trait]
pub trait Probe: fmt::Debug + Send + Sync + 'static {
    /// Asks once.
    ///
    /// # Errors
    /// What makes the instance count as dead.
    ///
    /// # Cancel safety
    /// Must be safe to drop at any await point: that is how a time-out ends it.
    async fn probe(&self, instance: &Instance) -> Result<()>;
}

/// Asks all instances of a service, each once in an interval, for a [`Balancer`](crate::Balancer).
///
/// An instance that fails two times in a row is down, whatever became of requests to it; one that is down, for whatever
/// reason, is back when it has rested ([`DownPolicy`](crate::DownPolicy)) and passes. Every consumer probes for itself:
/// `n` consumers ask an instance `n` times in an interval. To spread them, the first round begins anywhere in the first
/// interval, and each pause is between 80 and 120 % of it.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use std::time::Duration;
/// use coord_registry::{Balancer, BalancerOptions, HttpProbe, Probing, Registry, RoundRobin};
///
/// let billing = Registry::new(&store, "/services")?.discover("billing")?;
/// let probing = Probing::new(HttpProbe::new("/health")?, Duration::from_secs(5)).with_timeout(Duration::from_secs(1));
/// let options = BalancerOptions::default().probing(probing);
/// let balancer = Balancer::with_options(&billing, RoundRobin::new(), options)?;
/// # drop(balancer);
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Probing {
    probe: Arc<dyn Probe>,
    every: Duration,
    timeout: Duration,
    failures: u32,
    at_once: usize,
}

impl Probing {
    /// Asks by `probe`, each instance once in `every`, at least 10 ms.
    pub fn new(probe: impl Probe, every: Duration) -> Self {
        Self {
            probe: Arc::new(probe),
            every: every.max(EVERY_LEAST),
            timeout: Duration::from_secs(1),
            failures: 2,
            at_once: 16,
        }
    }

    /// Sets how long an answer may take in all; usually a second.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many failures in a row take an instance out; usually 2, and 0 counts as 1.
    #[must_use]
    pub const fn with_failures(mut self, failures: u32) -> Self {
        self.failures = if failures == 0 { 1 } else { failures };
        self
    }

    /// Sets how many instances are asked at once; usually 16, and 0 counts as 1. A round of dead ones takes their number
    /// by this, times the time-out.
    #[must_use]
    pub const fn with_at_once(mut self, instances: usize) -> Self {
        self.at_once = if instances == 0 { 1 } else { instances };
        self
    }

    /// Asks one instance once.
    ///
    /// # Errors
    /// [`Timeout`](ErrorKind::Timeout) if the answer does not come in time, [`Unexpected`](ErrorKind::Unexpected) if the
    /// probe panicked, and those of the probe; with service and id.
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn ask(&self, instance: &Instance) -> Result<()> {
        let asked = AssertUnwindSafe(self.probe.probe(instance)).catch_unwind();
        let answer = match timeout(self.timeout, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::new(ErrorKind::Unexpected, "the probe panicked")),
            Err(_) => Err(Error::new(ErrorKind::Timeout, "the instance did not answer in time")),
        };
        answer.map_err(|error| {
            let error = error.with_operation("probe").with_context("service", instance.name());
            error.with_context("id", instance.id()).with_context("address", instance.address())
        })
    }
}
