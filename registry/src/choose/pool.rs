//! What there is to choose from.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use crate::Instance;

/// An instance that may be chosen, and how busy we keep it.
#[derive(Clone, Debug)]
pub struct Candidate {
    instance: Instance,
    in_flight: Arc<AtomicUsize>,
}

/// The instances of a service that take requests, by id.
///
/// Does not change; when the service does, there is a new pool.
#[derive(Debug)]
pub struct Pool {
    version: u64,
    /// Sorted by id, each id once.
    all: Vec<Candidate>,
}

/// Those of a [`Pool`] that may be chosen now: all but those that are down, or that this request was sent to before.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    pool: &'a Pool,
    without: &'a BTreeSet<String>,
}

static NOBODY: BTreeSet<String> = BTreeSet::new();

impl Candidate {
    /// The instance.
    #[must_use]
    pub const fn instance(&self) -> &Instance {
        &self.instance
    }

    /// How many requests of this balancer it has that did not end yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) const fn counter(&self) -> &Arc<AtomicUsize> {
        &self.in_flight
    }

    /// Whether both are the same start of the same instance: one that was started again has nothing in flight, and is
    /// not down for what it did before.
    fn is_same_start(&self, other: &Instance) -> bool {
        let start = |instance: &Instance| (instance.port(), instance.tls_port(), instance.registered_at());
        self.instance.address() == other.address() && start(&self.instance) == start(other)
    }
}

impl Pool {
    /// The pool of those that [take requests](Instance::is_available); the others are left out. Of several with one id
    /// the last one counts.
    pub fn new(instances: impl IntoIterator<Item = Instance>) -> Self {
        let fresh = |instance| Candidate { instance, in_flight: Arc::default() };
        Self::of(instances.into_iter().filter(Instance::is_available).map(fresh).collect())
    }

    /// The pool after a change of the service. Those that stayed keep their counts.
    pub(crate) fn next<'i>(&self, instances: impl IntoIterator<Item = &'i Instance>) -> Self {
        let available = instances.into_iter().filter(|instance| instance.is_available());
        let candidates = available.map(|instance| {
            let before = self.find(instance.id()).filter(|before| before.is_same_start(instance));
            let in_flight = before.map_or_else(Arc::default, |before| Arc::clone(&before.in_flight));
            Candidate { instance: instance.clone(), in_flight }
        });
        Self::of(candidates.collect())
    }

    /// A part of the pool, with the counts of the whole.
    pub(super) fn part(&self, of: impl Fn(&Instance) -> bool) -> Self {
        Self::of(self.all.iter().filter(|candidate| of(&candidate.instance)).cloned().collect())
    }

    fn of(mut all: Vec<Candidate>) -> Self {
        // Versions are unique in the process: a rule may serve several pools.
        static VERSIONS: AtomicU64 = AtomicU64::new(0);
        all.reverse();
        all.sort_by(|a, b| a.instance.id().cmp(b.instance.id()));
        all.dedup_by(|later, first| later.instance.id() == first.instance.id());
        Self { version: VERSIONS.fetch_add(1, Ordering::Relaxed), all }
    }

    /// All of the pool as candidates.
    #[must_use]
    pub fn candidates(&self) -> Candidates<'_> {
        self.candidates_without(&NOBODY)
    }

    /// The candidates that are not among these ids.
    #[must_use]
    pub const fn candidates_without<'a>(&'a self, ids: &'a BTreeSet<String>) -> Candidates<'a> {
        Candidates { pool: self, without: ids }
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Candidate> {
        let at = self.all.binary_search_by(|candidate| candidate.instance.id().cmp(id)).ok()?;
        self.all.get(at)
    }
}

impl<'a> Candidates<'a> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.without.is_empty() { self.pool.all.len() } else { self.iter().count() }
    }

    /// Whether there is nobody to choose.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The candidates, by id.
    pub fn iter(&self) -> impl Iterator<Item = &'a Candidate> + Clone + use<'a> {
        let without = self.without;
        self.pool.all.iter().filter(move |candidate| !without.contains(candidate.instance.id()))
    }

    /// The candidate at this place, counted from 0, in the order of the ids.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&'a Candidate> {
        if self.without.is_empty() { self.pool.all.get(place) } else { self.iter().nth(place) }
    }

    /// The candidate with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&'a Candidate> {
        self.pool.find(id).filter(|_| !self.without.contains(id))
    }

    /// The whole pool, with those that may not be chosen now.
    #[must_use]
    pub const fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// The same candidates in a part of the pool.
    pub(super) const fn within<'b>(&self, part: &'b Pool) -> Candidates<'b>
    where
        'a: 'b,
    {
        Candidates { pool: part, without: self.without }
    }
}

impl Pool {
    /// A number that no other pool of this process has: for rules that prepare something for a pool.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// All instances of the pool, by id.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.all.iter().map(Candidate::instance)
    }
}
