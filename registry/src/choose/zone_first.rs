//! Those nearby, while there are enough.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Candidate, Candidates, Choose, Pool};

/// Leaves the choice to another rule: among those of our own zone while there are enough of them, else among all.
///
/// ```
/// use coord_registry::{Choose, Instance, Pool, RoundRobin, ZoneFirst};
///
/// let near = Instance::new("billing", "b1", "10.0.0.7", 80).with_zone("eu-1a");
/// let far = Instance::new("billing", "b2", "10.1.0.7", 80).with_zone("eu-1b");
/// let pool = Pool::new([near, far]);
/// let rule = ZoneFirst::new("eu-1a", RoundRobin::new());
/// assert_eq!(rule.choose(&pool.candidates(), None).expect("there are two").instance().id(), "b1");
/// // One is too few to take all the load of the zone:
/// let rule = ZoneFirst::new("eu-1a", RoundRobin::starting_at(1)).with_at_least(2);
/// assert_eq!(rule.choose(&pool.candidates(), None).expect("there are two").instance().id(), "b2");
/// ```
#[derive(Debug)]
pub struct ZoneFirst {
    zone: String,
    at_least: usize,
    rule: Box<dyn Choose>,
    /// Our part of the pool of this version.
    near: Mutex<Option<(u64, Arc<Pool>)>>,
}

impl ZoneFirst {
    /// Those of `zone` first, if at least one may be chosen; `rule` chooses between them.
    pub fn new(zone: impl Into<String>, rule: impl Choose) -> Self {
        Self { zone: zone.into(), at_least: 1, rule: Box::new(rule), near: Mutex::default() }
    }

    /// Sets how many of the zone must be there to take all of its requests. Those that are down do not count.
    #[must_use]
    pub const fn with_at_least(mut self, instances: usize) -> Self {
        self.at_least = instances;
        self
    }

    fn near(&self, pool: &Pool) -> Arc<Pool> {
        let mut near = self.near.lock().unwrap_or_else(PoisonError::into_inner);
        match &*near {
            Some((version, part)) if *version == pool.version() => Arc::clone(part),
            _ => {
                let part = Arc::new(pool.part(|instance| instance.zone() == Some(&self.zone)));
                *near = Some((pool.version(), Arc::clone(&part)));
                part
            }
        }
    }
}

impl Choose for ZoneFirst {
    fn choose<'c>(&self, candidates: &Candidates<'c>, key: Option<&str>) -> Option<&'c Candidate> {
        let part = self.near(candidates.pool());
        let near = candidates.within(&part);
        if near.is_empty() || near.len() < self.at_least {
            return self.rule.choose(candidates, key);
        }
        self.rule.choose(&near, key).and_then(|chosen| candidates.find(chosen.instance().id()))
    }
}
