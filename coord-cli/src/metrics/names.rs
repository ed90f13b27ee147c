//! The metrics of a store from outside.

use coord::layers::metrics::names::{Kind, Metric};

pub(super) const UP: &str = "coord_store_up";
pub(super) const INFO: &str = "coord_store_info";
pub(super) const PROBE_SECONDS: &str = "coord_store_probe_seconds";
pub(super) const KEYS: &str = "coord_dir_keys";
pub(super) const SESSION_KEYS: &str = "coord_dir_session_keys";
pub(super) const SESSIONS: &str = "coord_dir_sessions";
pub(super) const PLACES: &str = "coord_dir_places";

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

/// What `coord serve-metrics` gives of a store, beside the metrics of its own handle.
pub const METRICS: &[Metric] = &[
    gauge(UP, &["store"], "Whether the store answered when the page was asked for: 1 or 0."),
    gauge(INFO, &["store", "server"], "Always 1: the server and its version are the labels."),
    gauge(
        PROBE_SECONDS,
        &["store"],
        "How long a read took that sees all writes before it; NaN without an answer.",
    ),
    gauge(KEYS, &["store", "dir"], "Keys in the directory and below; NaN without an answer."),
    gauge(SESSION_KEYS, &["store", "dir"], "Those of them that go with a session."),
    gauge(SESSIONS, &["store", "dir"], "Sessions that own keys in the directory or below."),
    gauge(PLACES, &["store", "dir"], "Places in the line of the directory: the holder and those who wait."),
];
