//! Shares by weight.

use super::{Candidate, Candidates, Choose, dice::Dice};

/// Any of them, each with a chance by its weight: of weights 1 and 3 the second gets three requests in four.
///
/// ```
/// use coord_registry::{Choose, Instance, Pool, Weighted};
///
/// let old = Instance::new("billing", "b1", "10.0.0.7", 80).with_weight(99);
/// let canary = Instance::new("billing", "b2", "10.0.0.8", 80).with_weight(1);
/// let pool = Pool::new([old, canary]);
/// assert!(Weighted::new().choose(&pool.candidates(), None).is_some());
/// ```
#[derive(Debug, Default)]
pub struct Weighted(Dice);

impl Weighted {
    /// With the system's randomness.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With the same choices each time, for repeatable tests.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Dice::seeded(seed))
    }
}

impl Choose for Weighted {
    fn choose<'c>(&self, candidates: &Candidates<'c>, _key: Option<&str>) -> Option<&'c Candidate> {
        let weight = |candidate: &Candidate| u64::from(candidate.instance().weight());
        let mut left = self.0.below(candidates.iter().map(weight).sum());
        candidates.iter().find(|candidate| {
            let here = left < weight(candidate);
            left = left.saturating_sub(weight(candidate));
            here
        })
    }
}
