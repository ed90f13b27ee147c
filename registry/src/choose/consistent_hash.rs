//! The same key to the same instance.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use coord_recipes::HashRing;

use super::{Candidate, Candidates, Choose, Pool, Weighted};

/// Points on the ring of an instance of average weight.
const POINTS: u64 = 128;
/// The same in a large pool: shares are less even there, and a ring is made in a quarter of the time.
const POINTS_LEAST: u64 = 32;
/// Points of a ring above which those of an instance become fewer.
const RING_SMALL: u64 = 1 << 17;
/// Rings that are kept: one of a zone and one of everybody.
const RINGS: usize = 2;

/// The same key to the same instance, in every process, by a [`HashRing`] over the ids; shares follow the weights.
///
/// When an instance goes, or is down, its keys go to the others, and no other key moves. When one comes, it gets its
/// share and nothing else moves. This is exact while all weights are equal and there are at most 1,024 instances; else
/// each change moves a few keys more, because what counts is the weight compared with the average.
///
/// Requests without a key are shared by weight ([`Weighted`]).
///
/// The ring is made again when the instances change, by the next request: 128 points an instance are sorted, 32 where
/// there are thousands.
///
/// ```
/// use coord_registry::{Choose, ConsistentHash, Instance, Pool};
///
/// let pool = Pool::new(["b1", "b2"].map(|id| Instance::new("billing", id, "10.0.0.7", 80)));
/// let rule = ConsistentHash::new();
/// let first = rule.choose(&pool.candidates(), Some("user-17")).expect("there are two").instance();
/// let again = rule.choose(&pool.candidates(), Some("user-17")).expect("there are two").instance();
/// assert_eq!(first, again);
/// ```
#[derive(Debug, Default)]
pub struct ConsistentHash {
    without_key: Weighted,
    /// The latest, by the version of their pool.
    pub(super) rings: Mutex<VecDeque<(u64, Arc<HashRing>)>>,
}

impl ConsistentHash {
    /// With no ring yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn ring(&self, pool: &Pool) -> Arc<HashRing> {
        let lock = || self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            lock().iter().find(|(version, _)| *version == pool.version()).map(|(_, ring)| Arc::clone(ring));
        known.unwrap_or_else(|| {
            // Not under the lock. Two may make the same ring: better than that all wait for the one who does.
            let ring = Arc::new(ring(pool));
            let mut rings = lock();
            rings.truncate(RINGS - 1);
            rings.push_front((pool.version(), Arc::clone(&ring)));
            ring
        })
    }
}

impl Choose for ConsistentHash {
    fn choose<'c>(&self, candidates: &Candidates<'c>, key: Option<&str>) -> Option<&'c Candidate> {
        let Some(key) = key else { return self.without_key.choose(candidates, None) };
        // Of the whole pool, and then past those that may not be chosen: so the ring stays when one is down.
        self.ring(candidates.pool()).owners(key).find_map(|id| candidates.find(id))
    }
}

/// The ring of a pool: points by weight, compared with the average.
pub(super) fn ring(pool: &Pool) -> HashRing {
    let weights = pool.instances().map(|instance| u64::from(instance.weight()));
    let (count, sum) = weights.fold((0, 0), |(count, sum), weight| (count + 1, sum + weight));
    let average = RING_SMALL.checked_div(count).unwrap_or(POINTS).clamp(POINTS_LEAST, POINTS);
    let points = |weight: u32| {
        let points = (u64::from(weight) * average * count + sum / 2).checked_div(sum).unwrap_or(0).max(1);
        u32::try_from(points).unwrap_or(u32::MAX)
    };
    HashRing::with_points(pool.instances().map(|instance| (instance.id(), points(instance.weight()))))
}
