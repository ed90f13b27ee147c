//! How often it was how much.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use metrics::HistogramFn;

/// Upper limits in seconds: from a call in memory, over locks that are held for minutes, to a leadership of a day.
pub(super) const LIMITS: [f64; 20] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    60.0, 600.0, 3600.0, 86400.0,
];

/// Samples, by the least limit that they do not exceed.
#[derive(Default)]
pub(super) struct Histogram(Mutex<Samples>);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Samples {
    /// Not cumulative. What is above the last limit is in the count alone.
    pub(super) within: [u64; LIMITS.len()],
    pub(super) count: u64,
    pub(super) sum: f64,
}

impl Histogram {
    pub(super) fn samples(&self) -> Samples {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HistogramFn for Histogram {
    fn record(&self, value: f64) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = LIMITS.iter().position(|limit| value <= *limit) {
            samples.within[at] += 1;
        }
        samples.count += 1;
        samples.sum += value;
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.samples().fmt(f)
    }
}
