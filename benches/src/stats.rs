//! Medians and percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Repetitions of one figure: the median counts, the spread says how far to trust it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) values: Vec<f64>,
}

impl Sample {
    pub(crate) fn new(values: Vec<f64>) -> Sample {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) && middle > 0 {
            f64::midpoint(at(middle - 1), at(middle))
        } else {
            at(middle)
        };
        Sample { median, min: at(0), max: at(sorted.len().wrapping_sub(1)), values }
    }
}

/// How long things took, to a thousandth of each.
#[derive(Clone, Debug)]
pub(crate) struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Latency {
        let digits = 3;
        // Grows with what is recorded. Refused are only other digits than 0 to 5.
        Latency(Histogram::new(digits).expect("three digits are allowed"))
    }
}

impl Latency {
    pub(crate) fn record(&mut self, taken: Duration) {
        // Longer than a u64 of nanoseconds does not happen.
        let nanos = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
        // Grows as far as needed; refused is only what no histogram could hold.
        if self.0.record(nanos.max(1)).is_err() {
            self.0.saturating_record(nanos);
        }
    }

    pub(crate) fn add(&mut self, other: &Latency) {
        // A histogram that grows takes every other.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Milliseconds that this part of all (0.99 for the 99th percentile) did not exceed; 0 if there are none.
    pub(crate) fn ms(&self, part: f64) -> f64 {
        self.0.value_at_quantile(part) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Sample::new(vec![3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Sample::new(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert!(Sample::new(Vec::new()).median.is_nan());
    }

    #[test]
    fn latencies_of_any_length_are_kept_and_added() {
        let (mut all, mut some) = (Latency::default(), Latency::default());
        all.record(Duration::from_millis(2));
        some.record(Duration::from_secs(4000));
        all.add(&some);
        assert_eq!(all.count(), 2);
        assert!((all.ms(0.5) - 2.0).abs() < 0.01, "{}", all.ms(0.5));
        assert!((all.ms(1.0) - 4e6).abs() < 4e3, "{}", all.ms(1.0));
        assert_eq!(Latency::default().ms(0.99), 0.0);
    }
}
