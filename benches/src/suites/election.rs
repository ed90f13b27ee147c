//! Elections: how soon the next one leads, after the leader's end and after a clean hand-over.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use coord::{
    Candidate, Coord, Dir, SessionKeeper, SessionOptions,
    api::{NamespaceLayer, kit::Runtime},
    memory::{Faults, MemoryBackend, MemoryStore},
};

use crate::{
    Result,
    run::{Chart, NAMESPACE, Part, Pen, Plan, Running, Store, Task},
    say,
    stats::Latency,
};

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "killed",
        title: "Failover of an election",
        text: "The leader's process is killed (`kill -9`); another candidate stands in the line. In memory, where there \
               is no other process, the leader's renewals are stopped. From the kill until the other's `leadership` \
               returns. It is the ttl of the session, less the age of the last renewal, and what the store takes to notice.",
        at: "leader",
        charts: &[Chart::Bars("failover ms")],
    },
    Part {
        name: "handed-over",
        title: "Clean hand-over of an election",
        text: "The leader resigns while another stands in the line, again and again: from the call of `resign` until the \
               other's `leadership` returns. Each has a handle and a session of its own.",
        at: "leader",
        charts: &[Chart::Bars("p50 ms")],
    },
];

const ELECTION: &str = "/election/leader";
/// ZooKeeper grants no shorter one by default.
const TTL: Duration = Duration::from_secs(4);
/// How long anything may take to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The whole life of a process that leads: it is killed.
pub(crate) async fn lead(coord: &Coord, ttl: Duration) -> Result<()> {
    let keeper = SessionKeeper::new(coord, SessionOptions::new(ttl));
    let leadership = Candidate::new(&keeper, ELECTION, "killed")?.leadership().await?;
    say("leading")?;
    std::future::pending::<()>().await;
    Ok(leadership.resign().await?)
}

/// A leader that will end without a word.
enum Leader {
    Process(Box<Running>),
    /// Its renewals can be stopped.
    Here(Faults),
}

impl Leader {
    async fn start(store: &Store, ttl: Duration) -> Result<Leader> {
        if !store.is_memory() {
            let mut running = Running::start(store, Task::Lead, usize::try_from(ttl.as_millis())?)?;
            running.line().await?;
            return Ok(Leader::Process(Box::new(running)));
        }
        let (runtime, url) = (Runtime::current()?, coord::StoreUrl::parse(store.url())?);
        let backend = MemoryBackend::new(&MemoryStore::named(url.path().as_str(), &runtime), runtime);
        let faults = backend.faults();
        let coord = Coord::new(Arc::new(backend)).layer(&NamespaceLayer::new(Dir::parse(NAMESPACE)?));
        let keeper = SessionKeeper::new(&coord, SessionOptions::new(ttl));
        let candidate = Candidate::new(&keeper, ELECTION, "frozen")?;
        let leading = candidate.leadership().await?;
        // Given back or dropped, they would tell the store of their end.
        tokio::spawn(async move {
            leading.ending().await;
            drop(keeper);
        });
        Ok(Leader::Here(faults))
    }

    async fn end(self) -> Result<()> {
        match self {
            Leader::Process(running) => running.kill().await,
            Leader::Here(faults) => {
                faults.cut_off();
                Ok(())
            }
        }
    }
}

pub(crate) async fn repetition(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    let ttl = plan.pick(TTL, Duration::from_secs(1));
    let coord = store.open().await?;
    let leader = Leader::start(store, ttl).await?;
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(ttl));
    let follower = Candidate::new(&keeper, ELECTION, "next")?;
    let next = tokio::spawn({
        let follower = follower.clone();
        async move { follower.leadership().await }
    });
    in_line(&follower, 2).await?;
    let began = Instant::now();
    leader.end().await?;
    let leadership = soon(next).await???;
    let failover = began.elapsed();
    let granted = keeper.session().await?.ttl();
    leadership.resign().await?;
    keeper.close().await?;
    let figures = [("failover ms", ms(failover)), ("granted ttl ms", ms(granted))];
    pen.put("killed", "coord", "killed", &figures);

    let other = store.open().await?;
    let figures = hand_overs([&coord, &other], ttl, plan.pick(50, 3)).await?;
    pen.put("handed-over", "coord", "resigns", &figures);
    coord.close().await?;
    Ok(other.close().await?)
}

async fn hand_overs(handles: [&Coord; 2], ttl: Duration, rounds: usize) -> Result<[(&'static str, f64); 2]> {
    let keepers = handles.map(|coord| SessionKeeper::new(coord, SessionOptions::new(ttl)));
    let [a, b] = &keepers;
    let candidates = [Candidate::new(a, ELECTION, "a")?, Candidate::new(b, ELECTION, "b")?];
    let mut taken = Latency::default();
    let mut leading = candidates[0].leadership().await?;
    for round in 1..=rounds {
        let follower = candidates[round % 2].clone();
        let next = tokio::spawn({
            let follower = follower.clone();
            async move { follower.leadership().await }
        });
        in_line(&follower, 2).await?;
        let began = Instant::now();
        // The other one leads before the store has told us that we are out.
        let resigning = tokio::spawn(leading.resign());
        leading = soon(next).await???;
        taken.record(began.elapsed());
        resigning.await??;
    }
    leading.resign().await?;
    for keeper in keepers {
        keeper.close().await?;
    }
    Ok([("p50 ms", taken.ms(0.5)), ("p99 ms", taken.ms(0.99))])
}

/// Waits until as many stand in the election.
async fn in_line(candidate: &Candidate, count: usize) -> Result<()> {
    let look = async {
        while candidate.election().participants().await?.len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, coord::Error>(())
    };
    Ok(soon(look).await??)
}

/// Within our patience.
async fn soon<T, E>(future: impl Future<Output = Result<T, E>>) -> Result<Result<T, E>> {
    let late = |_| format!("nobody has come to lead within {PATIENCE:?}");
    Ok(tokio::time::timeout(PATIENCE, future).await.map_err(late)?)
}

fn ms(taken: Duration) -> f64 {
    taken.as_secs_f64() * 1e3
}
