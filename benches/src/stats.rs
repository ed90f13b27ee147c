//! Medians and percentiles.

use serde::Serialize;

/// Repetitions of one figure: the median counts, the spread says how far to trust it.
#[derive(Clone, Debug, Default, Serialize)]
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

/// The value that `percent` of a hundred are not above; 0 if there are none. Sorts them.
pub(crate) fn percentile(values: &mut [u64], percent: usize) -> u64 {
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or(0)
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
    fn percentiles_are_values_that_occurred() {
        let mut values: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(percentile(&mut values, 50), 100);
        assert_eq!(percentile(&mut values, 99), 198);
        assert_eq!(percentile(&mut [], 99), 0);
        assert_eq!(percentile(&mut [7], 1), 7);
    }
}
