//! Decorating a backend.

use std::{fmt, sync::Arc};

use crate::Backend;

/// Something that wraps a backend: a time-out, a retry, a trace, a fault for tests.
///
/// State belongs to the layer; the wrapper that `apply` makes only refers to it. Order from the store outwards:
/// backend, [`CheckedLayer`](crate::CheckedLayer), [`NamespaceLayer`](crate::NamespaceLayer), chaos (tests), timeout,
/// retry, trace. A time-out inside the retry bounds each attempt; a trace outside it shows one span a call.
pub trait Layer: fmt::Debug + Send + Sync + 'static {
    /// Wraps `inner`.
    fn apply(&self, inner: Arc<dyn Backend>) -> Arc<dyn Backend>;
}
