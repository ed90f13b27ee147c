//! What each call costs: operations of the contract, requests, and round trips. Counts, so no noise.

use std::time::{Duration, Instant};

use coord::{
    Candidate, Coord, Counter, Key, Lifetime, Lock, RwLock, Semaphore, SessionKeeper, SessionOptions, Txn,
    TxnOutcome,
    config_centre::{ConfigCentre, Content, Edit},
    layers::{ChaosLayer, ChaosPlan},
    registry::{Instance, Registry},
};
use coord_testbed::{Link, Proxy};

use crate::{
    Result,
    run::{Part, Pen, Plan, Store},
};

pub(crate) const PARTS: &[Part] = &[Part {
    name: "calls",
    title: "What each call costs",
    text: "Nobody else works, and everything has been done once before. Operations: calls of the `Backend` contract. Requests: \
           counted by a proxy, without renewals of sessions. Round trips: the time of the call over a link that \
           delays by 25 ms each way, in whole round trips of that link; requests that are sent together share one. The \
           smallest of three. The same as a table: [costs](costs.md).",
    at: "call",
    charts: &[],
}];

pub(crate) const OPERATIONS: &str = "operations";
pub(crate) const REQUESTS: &str = "requests";
pub(crate) const ROUND_TRIPS: &str = "round trips";

/// Renewals are seldom enough that two of three repetitions have none.
const TTL: Duration = Duration::from_secs(40);
const DELAY: Duration = Duration::from_millis(25);

/// What one call took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    operations: u64,
    requests: u64,
    taken: Duration,
}

/// Counts what calls take.
struct Meter<'a> {
    plan: ChaosPlan,
    proxy: Option<&'a Proxy>,
    found: Vec<(&'static str, Cost)>,
}

impl Meter<'_> {
    fn requests(&self) -> u64 {
        self.proxy.map_or(0, Proxy::requests)
    }

    /// Waits until what earlier calls have left to do is done.
    async fn quiet(&self) {
        let Some(proxy) = self.proxy else { return };
        let mut seen = proxy.requests();
        loop {
            tokio::time::sleep(4 * DELAY).await;
            let now = proxy.requests();
            if now == seen {
                return;
            }
            seen = now;
        }
    }

    async fn count<T, E>(
        &mut self,
        name: &'static str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.quiet().await;
        let (operations, requests, began) = (self.plan.total_calls(), self.requests(), Instant::now());
        let result = call.await?;
        let taken = began.elapsed();
        let cost = Cost {
            operations: self.plan.total_calls() - operations,
            requests: self.requests() - requests,
            taken,
        };
        match self.found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, least)) => {
                least.operations = least.operations.min(cost.operations);
                least.requests = least.requests.min(cost.requests);
                least.taken = least.taken.min(cost.taken);
            }
            None => self.found.push((name, cost)),
        }
        Ok(result)
    }
}

pub(crate) async fn repetition(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    let proxy = match store.server() {
        Some(server) => Some(server.proxied().await?),
        None => None,
    };
    let calls = ChaosPlan::new();
    let coord = match &proxy {
        Some(proxy) => store.open_through(proxy).await?,
        None => store.open().await?,
    };
    let coord = coord.layer(&ChaosLayer::new(calls.clone()));
    let mut meter = Meter { plan: calls, proxy: None, found: Vec::new() };
    // The first of all makes directories and connections.
    everything(&mut meter, &coord, 0).await?;
    meter.found.clear();
    meter.proxy = proxy.as_ref();
    if let Some(proxy) = &proxy {
        proxy.set(Link::Delay(DELAY));
    }
    for cycle in 1..=plan.pick(3, 1) {
        everything(&mut meter, &coord, cycle).await?;
    }
    if let Some(proxy) = &proxy {
        proxy.set(Link::Up);
    }
    for (name, cost) in &meter.found {
        let mut figures = vec![(OPERATIONS, cost.operations as f64)];
        if proxy.is_some() {
            let trips = (cost.taken.as_secs_f64() / (2 * DELAY).as_secs_f64()).floor();
            figures.extend([(REQUESTS, cost.requests as f64), (ROUND_TRIPS, trips)]);
        }
        pen.put("calls", "coord", *name, &figures);
    }
    Ok(coord.close().await?)
}

/// Every call once.
async fn everything(meter: &mut Meter<'_>, coord: &Coord, cycle: u64) -> Result<()> {
    keys(meter, coord).await?;
    let session = meter.count("open a session", coord.session(TTL)).await?;
    let lock = Lock::new(&session, "/cost/lock")?;
    let guard = meter.count("Lock::acquire", lock.acquire()).await?;
    meter.count("LockGuard::check", guard.check()).await?;
    let txn = Txn::new().put("/cost/keys/guarded", "x");
    applied(&meter.count("LockGuard::commit of a write", guard.commit(txn)).await?)?;
    meter.count("LockGuard::release", guard.release()).await?;
    let lock = RwLock::new(&session, "/cost/rw")?;
    let guard = meter.count("RwLock::read", lock.read()).await?;
    meter.count("ReadGuard::release", guard.release()).await?;
    let guard = meter.count("RwLock::write", lock.write()).await?;
    meter.count("WriteGuard::release", guard.release()).await?;
    let semaphore = meter.count("Semaphore::open", Semaphore::open(&session, "/cost/semaphore", 3)).await?;
    let permit = meter.count("Semaphore::acquire", semaphore.acquire()).await?;
    meter.count("Permit::release", permit.release()).await?;
    let counter = Counter::new(&session, "/cost/keys/counter")?;
    meter.count("Counter::add", counter.add(1)).await?;
    let key = Key::parse("/cost/keys/ephemeral")?;
    meter.count("create, ephemeral", session.coord().create(&key, "x", Lifetime::Session)).await?;
    meter.count("close a session with one key", session.close()).await?;
    let keeper = SessionKeeper::new(coord, SessionOptions::new(TTL));
    keeper.session().await?;
    let candidate = Candidate::new(&keeper, "/cost/election", "a")?;
    let leadership = meter.count("Candidate::leadership", candidate.leadership()).await?;
    meter.count("Leadership::resign", leadership.resign()).await?;
    let registry = Registry::new(coord, "/cost/services")?;
    let instance = Instance::new("billing", "b1", "10.0.0.7", 8080);
    let registration = meter.count("Registry::register", registry.register(&keeper, instance)).await?;
    meter.count("Registration::set_weight", registration.set_weight(7)).await?;
    meter.count("Registration::close", registration.close()).await?;
    keeper.close().await?;

    let namespace = ConfigCentre::new(coord, "/cost/config")?.namespace("billing")?;
    let content = Content::items([("rate", cycle.to_string())]);
    meter.count("Namespace::publish", namespace.publish(content, &Edit::by("benchmark"))).await?.done()?;
    meter.count("Namespace::get", namespace.get("rate")).await?;
    Ok(())
}

async fn keys(meter: &mut Meter<'_>, coord: &Coord) -> Result<()> {
    let key = Key::parse("/cost/keys/k")?;
    let written = meter.count("create", coord.create(&key, "x", Lifetime::Persistent)).await?;
    let version = written.ok_or("somebody else works in the store")?.version;
    meter.count("get", coord.get(&key)).await?;
    meter.count("list", coord.list("/cost/keys")).await?;
    meter.count("compare_and_set", coord.compare_and_set(&key, version, "y")).await?;
    meter.count("put", coord.put(&key, "z")).await?;
    let txn = Txn::new().check_exists(&key).put(&key, "a").put("/cost/keys/other", "b");
    applied(&meter.count("commit of a check and two writes", coord.commit(txn)).await?)?;
    meter.count("delete", coord.delete(&key)).await?;
    Ok(())
}

fn applied(outcome: &TxnOutcome) -> Result<()> {
    if outcome.is_committed() {
        Ok(())
    } else {
        Err("a transaction that nobody competes with was refused".into())
    }
}
