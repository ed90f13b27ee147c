//! One after the other.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Candidate, Candidates, Choose};

/// One after the other, in the order of their ids; weights do not count.
///
/// ```
/// use coord_registry::{Choose, Instance, Pool, RoundRobin};
///
/// let pool = Pool::new(["b1", "b2"].map(|id| Instance::new("billing", id, "10.0.0.7", 80)));
/// let rule = RoundRobin::new();
/// let first = rule.choose(&pool.candidates(), None).expect("there are two").instance();
/// let second = rule.choose(&pool.candidates(), None).expect("there are two").instance();
/// assert_ne!(first.id(), second.id());
/// ```
#[derive(Debug)]
pub struct RoundRobin(AtomicUsize);

impl RoundRobin {
    /// Begins anywhere: processes that are started together do not all begin with the same instance.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicUsize::new(rand::random::<u16>().into()))
    }

    /// Begins with the instance at this place, for repeatable tests.
    #[must_use]
    pub const fn starting_at(place: usize) -> Self {
        Self(AtomicUsize::new(place))
    }
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self::new()
    }
}

impl Choose for RoundRobin {
    fn choose<'c>(&self, candidates: &Candidates<'c>, _key: Option<&str>) -> Option<&'c Candidate> {
        let turn = self.0.fetch_add(1, Ordering::Relaxed);
        candidates.get(turn.checked_rem(candidates.len())?)
    }
}
