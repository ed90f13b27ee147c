//! What a handle does, as numbers for the `metrics` facade.

mod layer;
pub mod names;
mod observer;

use std::sync::Arc;

use coord_api::Coord;

use layer::MetricsLayer;
use observer::Counting;

use crate::system_name;

/// Puts the layer that counts calls around a handle, and counts its events.
///
/// Outside of all other layers: what is counted is what callers asked for, retries and all. The numbers go to the
/// recorder that is installed when they are made, as the `metrics` crate has it; without one they go nowhere. The names
/// are in [`names`], and on the page `docs/observability.md` with their labels. Keys, values and names of locks are no
/// labels: there may be any number of them.
///
/// ```
/// # coord_backend_memory::doc_example(async |coord| {
/// let coord = coord_layers::metrics::measured(coord);
/// coord.put("/greeting", "hello").await?; // counted
/// # Ok(())
/// # });
/// ```
#[must_use]
pub fn measured(coord: Coord) -> Coord {
    let store = system_name(coord.info().name);
    coord.observe(Arc::new(Counting { store }));
    coord.layer(&MetricsLayer { store })
}
