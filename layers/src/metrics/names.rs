//! The names of all metrics that a handle gives, with what they mean.

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels, beside those of the recorder.
    pub labels: &'static [&'static str],
    /// What it means, in one sentence.
    pub help: &'static str,
}

/// The kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// The number now.
    Gauge,
    /// How often it was how much.
    Histogram,
}

macro_rules! metrics {
    ($($constant:ident, $name:literal, $kind:ident, [$($label:literal),*], $help:literal;)+) => {
        $(#[doc = $help] pub const $constant: &str = $name;)+

        /// All of them.
        pub const ALL: &[Metric] = &[
            $(Metric { name: $name, kind: Kind::$kind, labels: &["store", $($label),*], help: $help }),+
        ];
    };
}

metrics! {
    OPERATIONS, "coord_operations_total", Counter, ["operation", "outcome"],
        "Calls that ended, by how: ok, rejected (a condition did not hold), or the kind of the error.";
    OPERATION_SECONDS, "coord_operation_duration_seconds", Histogram, ["operation"],
        "How long calls took, retries and all; waiting and streams are not among them.";
    WATCHES, "coord_watches", Gauge, [],
        "Watches that are open.";
    WATCH_EVENTS, "coord_watch_events_total", Counter, [],
        "Changes that watches told.";
    WATCH_RESYNCS, "coord_watch_resyncs_total", Counter, [],
        "Snapshots that watches told after their first: each stands for a gap.";
    SUSPENSIONS, "coord_suspensions_total", Counter, [],
        "How often the store ceased to answer.";
    RECONNECTS, "coord_reconnects_total", Counter, [],
        "How often the store answered again.";
    SESSIONS, "coord_sessions", Gauge, [],
        "Sessions that are open.";
    SESSIONS_ENDED, "coord_sessions_ended_total", Counter, ["end"],
        "Sessions that ended, by how: closed by us, or lost.";
    SESSION_SUSPENSIONS, "coord_session_suspensions_total", Counter, [],
        "How often a session was late.";
    WAITING, "coord_turns_waiting", Gauge, ["recipe"],
        "Those of this process who stand in a line and wait.";
    HELD, "coord_turns_held", Gauge, ["recipe"],
        "What this process holds: locks, permits, leaderships.";
    WAIT_SECONDS, "coord_turn_wait_seconds", Histogram, ["recipe", "end"],
        "How long it took from joining a line until acquired, or until gave_up.";
    HOLD_SECONDS, "coord_turn_hold_seconds", Histogram, ["recipe", "end"],
        "How long something was held until it was released, or lost.";
    CONFIG_GENERATION, "coord_config_generation", Gauge, ["namespace"],
        "The generation of a configuration that is in force in this process.";
    INSTANCES, "coord_registry_instances", Gauge, ["service"],
        "Instances that a view of a service showed after its last change.";
}

impl Metric {
    /// Tells the recorder that is installed what the metric means.
    pub fn describe(&self) {
        match self.kind {
            Kind::Counter => metrics::describe_counter!(self.name, self.help),
            Kind::Gauge => metrics::describe_gauge!(self.name, self.help),
            Kind::Histogram => {
                metrics::describe_histogram!(self.name, metrics::Unit::Seconds, self.help);
            }
        }
    }
}
