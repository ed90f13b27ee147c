//! Choosing one of the instances of a service.

mod consistent_hash;
mod dice;
mod least_in_flight;
mod pool;
mod random;
mod round_robin;
mod sticky;
mod weighted;
mod zone_first;

use std::{fmt, sync::Arc};

pub use consistent_hash::ConsistentHash;
pub use least_in_flight::LeastInFlight;
pub use pool::{Candidate, Candidates, Pool};
pub use random::Random;
pub use round_robin::RoundRobin;
pub use sticky::Sticky;
pub use weighted::Weighted;
pub use zone_first::ZoneFirst;

/// A rule that chooses one of the instances of a service.
///
/// It sees only [`Candidates`]: instances that are up, have a weight, and may be chosen now. So no rule can choose
/// another by mistake. [`Balancer`](crate::Balancer) brings the candidates and says who may be chosen.
///
/// Must not block: it runs in the task that asks, for every request.
///
/// ```
/// use coord_registry::{Candidate, Candidates, Choose, Instance, Pool};
///
/// /// Always the one that has been there longest.
/// #[derive(Debug)]
/// struct Oldest;
///
/// impl Choose for Oldest {
///     fn choose<'c>(&self, candidates: &Candidates<'c>, _key: Option<&str>) -> Option<&'c Candidate> {
///         candidates.iter().min_by_key(|candidate| candidate.instance().registered_at())
///     }
/// }
///
/// let pool = Pool::new([Instance::new("billing", "b1", "10.0.0.7", 80)]);
/// let chosen = Oldest.choose(&pool.candidates(), None).expect("there is one");
/// assert_eq!(chosen.instance().id(), "b1");
/// ```
pub trait Choose: fmt::Debug + Send + Sync + 'static {
    /// Chooses one of `candidates`; `None` only if there are none.
    ///
    /// `key` is what the request is about, such as a user's name, for rules that send the same key to the same instance.
    fn choose<'c>(&self, candidates: &Candidates<'c>, key: Option<&str>) -> Option<&'c Candidate>;
}

impl<C: Choose + ?Sized> Choose for Box<C> {
    fn choose<'c>(&self, candidates: &Candidates<'c>, key: Option<&str>) -> Option<&'c Candidate> {
        (**self).choose(candidates, key)
    }
}

impl<C: Choose + ?Sized> Choose for Arc<C> {
    fn choose<'c>(&self, candidates: &Candidates<'c>, key: Option<&str>) -> Option<&'c Candidate> {
        (**self).choose(candidates, key)
    }
}

#[cfg(test)]
mod tests;
