//! Any of them.

use super::{Candidate, Candidates, Choose, dice::Dice};

/// Any of them, each with the same chance; weights do not count.
///
/// ```
/// use coord_registry::{Choose, Instance, Pool, Random};
///
/// let pool = Pool::new([Instance::new("billing", "b1", "10.0.0.7", 80)]);
/// assert!(Random::new().choose(&pool.candidates(), None).is_some());
/// ```
#[derive(Debug, Default)]
pub struct Random(Dice);

impl Random {
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

impl Choose for Random {
    fn choose<'c>(&self, candidates: &Candidates<'c>, _key: Option<&str>) -> Option<&'c Candidate> {
        let place = self.0.below(u64::try_from(candidates.len()).ok()?);
        candidates.get(usize::try_from(place).ok()?)
    }
}
