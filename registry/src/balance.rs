//! Requests to the instances of a service.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use coord_api::{Error, Result, kit::Runtime};
use tokio::{task::AbortHandle, time::Instant};

use crate::{
    AllDown, Candidate, Choose, Discovery, DiscoveryState, DownPolicy, Instance, Pool, Probing,
    down::{Downs, Ticket, Turn},
    probe,
};

/// How a service is balanced, beside the rule.
#[derive(Clone, Debug, Default)]
pub struct BalancerOptions {
    down: DownPolicy,
    probing: Option<Probing>,
}

impl BalancerOptions {
    /// Sets when an instance counts as down.
    #[must_use]
    pub const fn down(mut self, policy: DownPolicy) -> Self {
        self.down = policy;
        self
    }

    /// Probes all instances in the background, while the balancer is there.
    #[must_use]
    pub fn probing(mut self, probing: Probing) -> Self {
        self.probing = Some(probing);
        self
    }
}

/// Chooses an instance for each request: of those that are discovered, up and not down, by a rule.
///
/// Asks nobody; the list is that of the [`Discovery`], which serves its last one while the store is away. Clones share
/// the counts of requests in flight, and what is [down](DownPolicy).
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use coord_api::SessionOptions;
/// # use coord_recipes::SessionKeeper;
/// use coord_registry::{Balancer, Instance, Registry, RoundRobin};
///
/// # let registry = Registry::new(&store, "/services")?;
/// # let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// # let me = registry.register(&keeper, Instance::new("billing", "b1", "10.0.0.7", 8080)).await?;
/// let billing = registry.discover("billing")?;
/// billing.ready().await?;
/// let balancer = Balancer::new(&billing, RoundRobin::new());
///
/// let pick = balancer.pick()?; // ends the request when it is dropped
/// let answer = format!("from {}:{}", pick.instance().address(), pick.instance().port());
/// pick.succeeded();
/// assert_eq!(answer, "from 10.0.0.7:8080");
/// # me.close().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Balancer(Arc<Inner>);

pub(crate) struct Inner {
    source: Box<dyn Source>,
    rule: Box<dyn Choose>,
    state: Mutex<State>,
    probing: Option<AbortHandle>,
}

/// Where the instances come from.
pub(crate) trait Source: Send + Sync {
    fn service(&self) -> &str;
    /// The list, the same allocation while nothing changes, and how far it can be believed.
    fn list(&self) -> (Arc<[Instance]>, DiscoveryState);
}

struct State {
    /// The list of which the pool was made.
    list: Arc<[Instance]>,
    pool: Arc<Pool>,
    downs: Downs,
}

/// A request to one instance.
///
/// Say how it ended by [`Pick::succeeded`] or [`Pick::failed`]. Dropping it, also in a panic or because the caller was
/// cancelled, only ends it: a request that nobody waited for says nothing about the instance. So after a time-out of
/// your own call [`Pick::failed`], or an instance that hangs is never down.
#[derive(Debug)]
#[must_use = "the request ends when this is dropped: keep it until there is an answer"]
pub struct Pick {
    balancer: Balancer,
    instance: Instance,
    in_flight: Arc<AtomicUsize>,
    ticket: Ticket,
}

impl Balancer {
    /// Balances what is discovered by `rule`, with the usual options.
    #[must_use]
    pub fn new(discovery: &Discovery, rule: impl Choose) -> Self {
        Self::over(discovery.clone(), rule, DownPolicy::default(), |_| None)
    }

    /// The same with options.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) outside of a tokio runtime if there is to be probing:
    /// probes run on the caller's.
    pub fn with_options(discovery: &Discovery, rule: impl Choose, options: BalancerOptions) -> Result<Self> {
        Self::with_source(discovery.clone(), rule, options)
    }

    fn with_source(
        source: impl Source + 'static,
        rule: impl Choose,
        options: BalancerOptions,
    ) -> Result<Self> {
        let Some(probing) = options.probing else {
            return Ok(Self::over(source, rule, options.down, |_| None));
        };
        // Not on the library's runtime: a probe is code of the caller, and may block.
        let runtime = Runtime::current()?;
        Ok(Self::over(source, rule, options.down, |inner| {
            Some(runtime.spawn(probe::rounds(Weak::clone(inner), probing, runtime.clone())).abort_handle())
        }))
    }

    fn over(
        source: impl Source + 'static,
        rule: impl Choose,
        down: DownPolicy,
        probe: impl FnOnce(&Weak<Inner>) -> Option<AbortHandle>,
    ) -> Self {
        Self(Arc::new_cyclic(|inner| {
            let probing = probe(inner);
            let downs = Downs::new(down, probing.is_none());
            let state = State { list: Arc::default(), pool: Arc::new(Pool::new([])), downs };
            Inner { source: Box::new(source), rule: Box::new(rule), state: Mutex::new(state), probing }
        }))
    }

    /// An instance for a request that is about nothing in particular.
    ///
    /// # Errors
    /// [`Unavailable`](coord_api::ErrorKind::Unavailable) if no instance takes requests, or none was discovered yet
    /// ([`Discovery::ready`] waits for the first list); if all are down, as [`AllDown`] says.
    pub fn pick(&self) -> Result<Pick> {
        self.pick_without(None, &BTreeSet::new())
    }

    /// An instance for a request about `key`, such as a user's name, for rules that keep a key together.
    ///
    /// # Errors
    /// As [`Balancer::pick`].
    pub fn pick_for(&self, key: &str) -> Result<Pick> {
        self.pick_without(Some(key), &BTreeSet::new())
    }

    /// The ids of those that are down, as this balancer sees it.
    #[must_use]
    pub fn down(&self) -> BTreeSet<String> {
        let _ = self.0.pool(); // forgets those that left
        self.0.lock().downs.down()
    }

    /// An instance that is not one of `tried`, unless there is no other.
    pub(crate) fn pick_without(&self, key: Option<&str>, tried: &BTreeSet<String>) -> Result<Pick> {
        let pool = self.0.pool();
        loop {
            let (out, all_down) = {
                let state = self.0.lock();
                (state.downs.out(Instant::now()), state.downs.policy().all_down())
            };
            let Some((chosen, anyway)) = self.choose(&pool, key, tried, &out, all_down) else {
                return Err(self.nobody(&pool, out.len()));
            };
            // None if it went down in between, or another request tries it out.
            let began = self.0.lock().downs.begin(chosen.instance().id(), Instant::now(), anyway);
            if let Some(ticket) = began {
                return Ok(Pick::begin(self.clone(), chosen, ticket));
            }
        }
    }

    /// Chooses, and says whether also one that is out would do.
    fn choose<'p>(
        &self,
        pool: &'p Pool,
        key: Option<&str>,
        tried: &BTreeSet<String>,
        out: &BTreeSet<String>,
        all_down: AllDown,
    ) -> Option<(&'p Candidate, bool)> {
        let choose = |without: &BTreeSet<String>, anyway| {
            let candidates = pool.candidates_without(without);
            // Not under the lock: the rule may be the caller's code.
            self.0
                .rule
                .choose(&candidates, key)
                .and_then(|chosen| pool.find(chosen.instance().id()))
                .zip(Some(anyway))
        };
        let (nobody, try_anyway) = (BTreeSet::new(), all_down == AllDown::TryAnyway);
        choose(&(out | tried), false)
            .or_else(|| if try_anyway { choose(tried, true) } else { None })
            .or_else(|| choose(out, false))
            .or_else(|| if try_anyway { choose(&nobody, true) } else { None })
    }

    fn nobody(&self, pool: &Pool, out: usize) -> Error {
        let (list, state) = self.0.source.list();
        let why = match state {
            DiscoveryState::Loading => "the instances are not known yet",
            _ if pool.instances().next().is_none() => "no instance takes requests",
            _ => "all instances are down",
        };
        Error::unavailable(why)
            .with_operation("pick")
            .with_context("service", self.0.source.service())
            .with_context("instances", list.len())
            .with_context("down", out)
    }
}

impl Inner {
    /// Those that take requests, by the list of now.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        let (list, _) = self.source.list();
        let before = {
            let state = self.lock();
            if Arc::ptr_eq(&state.list, &list) {
                return Arc::clone(&state.pool);
            }
            Arc::clone(&state.pool)
        };
        // Not under the lock, for a service may have thousands. Whoever is done first decides.
        let next = Arc::new(before.next(list.iter()));
        let mut state = self.lock();
        if Arc::ptr_eq(&state.pool, &before) {
            state.downs.retain(|id| match (before.find(id), next.find(id)) {
                (Some(before), Some(next)) => Arc::ptr_eq(before.counter(), next.counter()),
                _ => false,
            });
            state.list = list;
            state.pool = next;
        }
        Arc::clone(&state.pool)
    }

    /// Takes a report about an instance that is still there, and the same start of it.
    pub(crate) fn report(
        &self,
        instance: &Instance,
        in_flight: &Arc<AtomicUsize>,
        report: impl FnOnce(&mut Downs, &str, Instant) -> Option<Turn>,
    ) {
        let id = instance.id();
        let turn = {
            let mut state = self.lock();
            let stays = state.pool.find(id).is_some_and(|known| Arc::ptr_eq(known.counter(), in_flight));
            stays.then(|| report(&mut state.downs, id, Instant::now())).flatten()
        };
        match turn {
            Some(Turn::WentDown(rest)) => {
                tracing::warn!(service = self.source.service(), id, ?rest, "the instance is down");
            }
            Some(Turn::CameBack) => {
                tracing::info!(service = self.source.service(), id, "the instance is back");
            }
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(probing) = &self.probing {
            probing.abort();
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("service", &self.source.service())
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

impl Source for Discovery {
    fn service(&self) -> &str {
        Self::service(self)
    }

    fn list(&self) -> (Arc<[Instance]>, DiscoveryState) {
        let snapshot = self.instances();
        (Arc::clone(snapshot.shared()), snapshot.state())
    }
}

impl Pick {
    fn begin(balancer: Balancer, chosen: &Candidate, ticket: Ticket) -> Self {
        let in_flight = Arc::clone(chosen.counter());
        in_flight.fetch_add(1, Ordering::Relaxed);
        Self { balancer, instance: chosen.instance().clone(), in_flight, ticket }
    }

    /// The instance to ask.
    #[must_use]
    pub const fn instance(&self) -> &Instance {
        &self.instance
    }

    /// The instance did its part, also if its answer is a refusal. If it was down, it is back.
    pub fn succeeded(self) {
        let report = |downs: &mut Downs, id: &str, now| downs.succeeded(id, self.ticket, now);
        self.balancer.0.report(&self.instance, &self.in_flight, report);
    }

    /// The instance did not do its part: it could not be reached, broke off, did not answer in time. After as many as
    /// the [`DownPolicy`] says, it is down.
    pub fn failed(self) {
        let report = |downs: &mut Downs, id: &str, now| downs.failed(id, self.ticket, now);
        self.balancer.0.report(&self.instance, &self.in_flight, report);
    }
}

impl Drop for Pick {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "balance_tests.rs"]
pub(crate) mod tests;
