//! Optional decorators for coord's backends.
//!
//! Every layer wraps any [`Backend`](coord_api::Backend) and forwards each method by hand. State belongs to the layer;
//! the wrapper only refers to it.
//!
//! | layer | does |
//! |---|---|
//! | [`TimeoutLayer`] | ends a call by its deadline, and gives one to a call that has none |
//! | [`RetryLayer`] | sends again what was surely not applied, within one deadline for the whole call |
//! | [`TraceLayer`] | one `tracing` span a call, without values |
//! | the module `metrics` (feature of that name) | numbers for the `metrics` facade |
//! | [`ChaosLayer`] | faults on demand or by odds, for tests |
//!
//! # Order
//!
//! From the store outwards: checks and namespace (which [`Registry`](coord_api::Registry) puts on), chaos, timeout,
//! retry, trace, metrics. The time-out is inside the retry so that it bounds each attempt; the trace is outside so that it shows
//! one span for what the caller asked, however often it was sent.
//!
//! ```
//! # coord_backend_memory::doc_example(async |coord| {
//! use std::time::Duration;
//! use coord_layers::{RetryLayer, TimeoutLayer, TraceLayer};
//!
//! let second = Duration::from_secs(1);
//! let coord = coord.layer(&TimeoutLayer::new(second)).layer(&RetryLayer::new(second)).layer(&TraceLayer::new());
//! coord.put("/greeting", "hello").await?;
//! # Ok(())
//! # });
//! ```

mod chaos;
#[cfg(feature = "metrics")]
pub mod metrics;
mod retry;
mod timeout;
mod trace;

use std::time::Duration;

use coord_api::OpContext;
use tokio::time::Instant;

pub use chaos::{ChaosLayer, ChaosPlan, Gate, Method, Odds};
pub use retry::RetryLayer;
pub use timeout::TimeoutLayer;
pub use trace::{TraceLayer, system_name};

/// How long a call may take, retries and all, unless the caller or the configuration says otherwise.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Longer than anybody waits, short enough to add to any clock.
const FOREVER: Duration = Duration::from_secs(86_400 * 365);

/// The moment `span` from now.
fn after(span: Duration) -> Instant {
    Instant::now() + span.min(FOREVER)
}

/// The same context with a deadline, `default` from now unless the caller set one.
fn bounded(ctx: &OpContext, default: Duration) -> (OpContext, Instant) {
    let deadline = ctx.deadline.unwrap_or_else(|| after(default));
    (ctx.clone().with_deadline(deadline), deadline)
}
