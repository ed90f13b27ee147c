//! Randomness, from the system or from a seed.

use std::sync::{Mutex, PoisonError};

use rand::{Rng, SeedableRng, rngs::StdRng};

/// The system's randomness, or the same numbers each time.
#[derive(Debug, Default)]
pub(super) struct Dice(Option<Mutex<StdRng>>);

impl Dice {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(Some(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// From 0 up to 1.
    pub(super) fn unit(&self) -> f64 {
        match &self.0 {
            Some(seeded) => seeded.lock().unwrap_or_else(PoisonError::into_inner).random(),
            None => rand::rng().random(),
        }
    }

    /// Below `bound`, or 0.
    pub(super) fn below(&self, bound: u64) -> u64 {
        let range = 0..bound.max(1);
        match &self.0 {
            Some(seeded) => seeded.lock().unwrap_or_else(PoisonError::into_inner).random_range(range),
            None => rand::rng().random_range(range),
        }
    }
}
