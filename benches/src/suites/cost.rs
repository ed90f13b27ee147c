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
    run::{Part, Pen, Plan, Relay, Store},
};

pub(crate) const PARTS: &[Part] = &[Part {
    name: "calls",
    title: "What each call costs",
    text: "Nobody else works, and everything has been done once before. Operations: calls of the `Backend` contract. Requests: \
           counted by a proxy, without renewals of sessions. Both with what a call leaves to be done after it has \
           returned. Round trips: the time of the call over a link that \
           delays by 20 ms each way, in whole round trips of that link; requests that are sent together share one. Bytes: there \
           and back. The smaller of two. The same as a table: [costs](costs.md).",
    at: "call",
    charts: &[],
}];

pub(crate) const OPERATIONS: &str = "operations";
pub(crate) const REQUESTS: &str = "requests";
pub(crate) const ROUND_TRIPS: &str = "round trips";

/// Those that begin or end something that goes on in the background, a watch or a wait: when that sends what is not part
/// of the call, and varies.
pub(crate) const WATCHING: [&str; 5] = [
    "Candidate::leadership",
    "Leadership::resign",
    "Registry::register",
    "Registration::set_weight",
    "Registration::close",
];

/// Renewals are seldom enough that one of two repetitions has none.
const TTL: Duration = Duration::from_secs(40);
const DELAY: Duration = Duration::from_millis(20);

/// What one call took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    operations: u64,
    requests: u64,
    bytes: u64,
    taken: Duration,
}

/// Counts what calls take.
struct Meter<'a> {
    store: &'a Store,
    plan: ChaosPlan,
    links: Option<(&'a Proxy, &'a Relay)>,
    /// How long the link delays each way.
    delay: Duration,
    /// Whether anything is counted yet.
    counting: bool,
    found: Vec<(&'static str, Cost)>,
}

impl Meter<'_> {
    /// A new handle, whose calls are counted.
    async fn open(&self) -> Result<Coord> {
        let coord = match self.links {
            Some((_, relay)) => self.store.open_through(relay).await?,
            None => self.store.open().await?,
        };
        let coord = coord.layer(&ChaosLayer::new(self.plan.clone()));
        self.quiet().await;
        Ok(coord)
    }

    fn requests(&self) -> u64 {
        self.links.map_or(0, |(proxy, _)| proxy.requests())
    }

    fn bytes(&self) -> u64 {
        self.links.map_or(0, |(_, relay)| relay.bytes())
    }

    /// Waits until nothing goes on in the background.
    async fn quiet(&self) {
        if !self.counting {
            return;
        }
        let seen = || (self.plan.total_calls(), self.requests());
        let mut before = seen();
        loop {
            // Longer than a request and its answer take over the slow link.
            tokio::time::sleep(3 * self.delay).await;
            let now = seen();
            if now == before {
                return;
            }
            before = now;
        }
    }

    async fn count<T, E>(
        &mut self,
        name: &'static str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let (operations, requests, bytes) = (self.plan.total_calls(), self.requests(), self.bytes());
        let began = Instant::now();
        let result = call.await?;
        let taken = began.elapsed();
        // What a call leaves to be done is part of its cost; it is not waited for.
        self.quiet().await;
        let cost = Cost {
            operations: self.plan.total_calls() - operations,
            requests: self.requests() - requests,
            bytes: self.bytes() - bytes,
            taken,
        };
        match self.found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, least)) => {
                least.operations = least.operations.min(cost.operations);
                least.requests = least.requests.min(cost.requests);
                least.bytes = least.bytes.min(cost.bytes);
                least.taken = least.taken.min(cost.taken);
            }
            None => self.found.push((name, cost)),
        }
        Ok(result)
    }
}

pub(crate) async fn repetition(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    let links = match store.server() {
        Some(server) => {
            let proxy = server.proxied().await?;
            let relay = Relay::start(proxy.addr()).await?;
            Some((proxy, relay))
        }
        None => None,
    };
    let delay = plan.pick(DELAY, DELAY / 5);
    let borrowed = links.as_ref().map(|(proxy, relay)| (proxy, relay));
    let mut meter =
        Meter { store, plan: ChaosPlan::new(), links: borrowed, delay, counting: false, found: Vec::new() };
    // The first of all makes directories.
    everything(&mut meter, 0).await?;
    meter.found.clear();
    meter.counting = true;
    if let Some((proxy, _)) = &links {
        proxy.set(Link::Delay(delay));
    }
    for cycle in 1..=plan.pick(2, 1) {
        everything(&mut meter, cycle).await?;
    }
    for (name, cost) in &meter.found {
        let mut figures = vec![(OPERATIONS, cost.operations as f64)];
        if links.is_some() {
            let trips = (cost.taken.as_secs_f64() / (2 * delay).as_secs_f64()).floor();
            figures.extend([
                (REQUESTS, cost.requests as f64),
                (ROUND_TRIPS, trips),
                ("bytes", cost.bytes as f64),
            ]);
        }
        pen.put("calls", "coord", *name, &figures);
    }
    Ok(())
}

/// Every call once. Each group has a handle of its own, so that no watch of another is still open.
async fn everything(meter: &mut Meter<'_>, cycle: u64) -> Result<()> {
    let coord = meter.open().await?;
    keys(meter, &coord).await?;
    coord.close().await?;
    let coord = meter.open().await?;
    locks(meter, &coord).await?;
    coord.close().await?;
    let coord = meter.open().await?;
    election(meter, &coord).await?;
    coord.close().await?;
    let coord = meter.open().await?;
    registry(meter, &coord).await?;
    coord.close().await?;
    let coord = meter.open().await?;
    config(meter, &coord, cycle).await?;
    Ok(coord.close().await?)
}

async fn locks(meter: &mut Meter<'_>, coord: &Coord) -> Result<()> {
    let session = meter.count("open a session", coord.session(TTL)).await?;
    let lock = Lock::new(&session, "/cost/lock")?;
    // A session's first read on ZooKeeper must catch up with what the handle has written elsewhere.
    lock.acquire().await?.release().await?;
    meter.quiet().await;
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
    Ok(meter.count("close a session with one key", session.close()).await?)
}

/// A keeper with its session open.
async fn keeper(meter: &Meter<'_>, coord: &Coord) -> Result<SessionKeeper> {
    let keeper = SessionKeeper::new(coord, SessionOptions::new(TTL));
    keeper.session().await?;
    meter.quiet().await;
    Ok(keeper)
}

async fn election(meter: &mut Meter<'_>, coord: &Coord) -> Result<()> {
    let keeper = keeper(meter, coord).await?;
    let candidate = Candidate::new(&keeper, "/cost/election", "a")?;
    let leadership = meter.count("Candidate::leadership", candidate.leadership()).await?;
    meter.count("Leadership::resign", leadership.resign()).await?;
    Ok(keeper.close().await?)
}

async fn registry(meter: &mut Meter<'_>, coord: &Coord) -> Result<()> {
    let keeper = keeper(meter, coord).await?;
    let registry = Registry::new(coord, "/cost/services")?;
    let instance = Instance::new("billing", "b1", "10.0.0.7", 8080);
    let registration = meter.count("Registry::register", registry.register(&keeper, instance)).await?;
    meter.count("Registration::set_weight", registration.set_weight(7)).await?;
    meter.count("Registration::close", registration.close()).await?;
    Ok(keeper.close().await?)
}

async fn config(meter: &mut Meter<'_>, coord: &Coord, cycle: u64) -> Result<()> {
    let namespace = ConfigCentre::new(coord, "/cost/config")?.namespace("billing")?;
    // A handle that has seen the head publishes in one round trip.
    namespace.publish(content(cycle, "first"), &Edit::by("benchmark")).await?.done()?;
    meter.quiet().await;
    let edit = Edit::by("benchmark");
    meter.count("Namespace::publish", namespace.publish(content(cycle, "second"), &edit)).await?.done()?;
    meter.count("Namespace::get", namespace.get("rate")).await?;
    Ok(())
}

/// What was not published before: the same again would change nothing.
fn content(cycle: u64, which: &str) -> Content {
    Content::items([("rate", format!("{which} of {cycle}"))])
}

async fn keys(meter: &mut Meter<'_>, coord: &Coord) -> Result<()> {
    let key = Key::parse("/cost/keys/k")?;
    // ZooKeeper's connection for calls without a session is made at the first of them.
    coord.get(&key).await?;
    meter.quiet().await;
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
