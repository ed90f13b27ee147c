//! What each layer adds to a call, on a store that answers at once.

use std::sync::Arc;

use coord::{
    Coord, Dir, Key,
    api::{CheckedLayer, NamespaceLayer},
    layers::{RetryLayer, TimeoutLayer, TraceLayer, metrics::measured},
};
use coord_backend_memory::{MemoryBackend, MemoryStore};
use futures::FutureExt;
use tokio::runtime::Builder;

use super::Bench;

pub(crate) fn cases(bench: &mut impl Bench) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    // For the timers of time-outs. Nothing waits: whatever answers at once needs nobody to drive it.
    let _context = runtime.enter();
    let key = Key::parse("/config/rate").expect("a key");
    let handles = handles();
    for (name, coord) in &handles {
        coord.put(&key, "100").now_or_never().expect("an answer at once").expect("it is written");
        bench.case("layers: get", name, || coord.get(&key).now_or_never().expect("an answer at once"));
    }
    for (name, coord) in [&handles[0], &handles[handles.len() - 1]] {
        bench.case("layers: put", name, || coord.put(&key, "100").now_or_never().expect("an answer at once"));
    }
}

/// The bare backend, then each layer alone, then those of `coord::connect` together.
fn handles() -> Vec<(&'static str, Coord)> {
    let runtime = coord::api::kit::Runtime::current().expect("a runtime");
    let bare = Coord::new(Arc::new(MemoryBackend::new(&MemoryStore::new(&runtime), runtime)));
    let namespace = NamespaceLayer::new(Dir::parse("/team").expect("a directory"));
    let checked = || bare.clone().layer(&CheckedLayer);
    vec![
        ("none", bare.clone()),
        ("checks", checked()),
        ("namespace", bare.clone().layer(&namespace)),
        ("time-out", bare.clone().layer(&TimeoutLayer::default())),
        ("retry", bare.clone().layer(&RetryLayer::default())),
        ("trace", bare.clone().layer(&TraceLayer::new())),
        ("metrics", measured(bare.clone())),
        (
            "as coord::connect has them",
            checked().layer(&TimeoutLayer::default()).layer(&RetryLayer::default()).layer(&TraceLayer::new()),
        ),
    ]
}
