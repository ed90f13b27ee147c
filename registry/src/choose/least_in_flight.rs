//! The one with the least to do.

use super::{Candidate, Candidates, Choose, dice::Dice};

/// The one with the fewest requests in flight for its weight, counted by the [`Balancer`](crate::Balancer) that asks.
///
/// Of instances with one weight it is strictly the least busy one, and any of those that are equally busy. Where weights
/// differ, so do the shares, roughly as the weights do, also while there is next to no load: an instance of weight 1
/// beside one of weight 100 gets a request now and then, neither half of them nor none.
///
/// ```
/// use coord_registry::{Choose, Instance, LeastInFlight, Pool};
///
/// let pool = Pool::new([Instance::new("billing", "b1", "10.0.0.7", 80)]);
/// assert!(LeastInFlight::new().choose(&pool.candidates(), None).is_some());
/// ```
#[derive(Debug, Default)]
pub struct LeastInFlight(Dice);

impl LeastInFlight {
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

    /// Requests in flight for a weight. The random part is below one request: it decides between those that are equally
    /// busy, and less often for those of a small weight.
    #[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 requests in flight")]
    fn load(&self, candidate: &Candidate) -> f64 {
        (candidate.in_flight() as f64 + self.0.unit()) / f64::from(candidate.instance().weight())
    }
}

impl Choose for LeastInFlight {
    fn choose<'c>(&self, candidates: &Candidates<'c>, _key: Option<&str>) -> Option<&'c Candidate> {
        let loads = candidates.iter().map(|candidate| (self.load(candidate), candidate));
        loads.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate)
    }
}
