//! What idle things cost: memory and tasks, each weighed in a process of its own.

use std::time::Duration;

use coord::{Coord, Lock, Session, WatchStream};
use futures::{StreamExt, future::try_join_all};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::{
    Result,
    idle::{line_is, resident_kib},
    run::{Chart, Part, Pen, Plan, Running, Store, Task},
};

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "idle",
        title: "Memory and tasks of what is idle",
        text: "A process of its own for each: resident memory and live tasks before and after a thousand of them are \
               there, divided by their number; ten thousand sessions too, but on ZooKeeper five hundred, where each is a \
               connection. Waiters: one \
               session, a thousand calls of `acquire` on one held lock. Watchers: streams of one directory. In memory, the \
               store itself is in the process.",
        at: "how many",
        charts: &[Chart::Bars("KiB each")],
    },
    Part {
        name: "start",
        title: "From the start of a process to its first lock",
        text: "The process is started, opens the store and a session, takes a lock and gives it back, and says so. \
               Resident: its memory then.",
        at: "process",
        charts: &[Chart::Bars("first lock ms")],
    },
];

const LOCK: &str = "/footprint/lock";
const TTL: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(60);

/// What the weighing process tells.
#[derive(Debug, Deserialize, Serialize)]
struct Told {
    kib: f64,
    tasks: f64,
}

pub(crate) async fn repetition(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    for _ in 0..plan.pick(5, 1) {
        let mut running = Running::start(store, Task::FirstLock, 1)?;
        let told: Told = serde_json::from_str(&running.line().await?)?;
        let taken = running.began.elapsed();
        running.kill().await?;
        let figures = [("first lock ms", taken.as_secs_f64() * 1e3), ("resident MiB", told.kib / 1024.0)];
        pen.put("start", "coord", "lock", &figures);
    }
    let many = plan.pick(1000, 20);
    let zookeeper = store.url().starts_with("zk");
    let sessions = match plan.pick(true, false) {
        // Each is a connection, of which a process may usually open 1,024.
        true if zookeeper => vec![many / 2],
        true => vec![many, 10 * many],
        false => vec![many],
    };
    let sessions = sessions.into_iter().map(|count| ("sessions", Task::Sessions, count));
    let idle = [("lock waiters", Task::Waiters, many), ("watchers", Task::Watchers, many)];
    for (side, what, count) in idle.into_iter().chain(sessions) {
        let mut running = Running::start(store, what, count)?;
        let told: Told = serde_json::from_str(&running.line().await?)?;
        running.kill().await?;
        pen.put("idle", side, count, &[("KiB each", told.kib), ("tasks each", told.tasks)]);
    }
    Ok(())
}

/// The memory of this process after its first lock.
pub(crate) async fn first_lock(coord: &Coord) -> Result<String> {
    let session = coord.session(TTL).await?;
    Lock::new(&session, LOCK)?.acquire().await?.release().await?;
    let told = serde_json::to_string(&Told { kib: resident_kib()?, tasks: tasks(coord) })?;
    session.close().await?;
    Ok(told)
}

/// What a waiter weighs.
pub(crate) async fn waiters(coord: &Coord, count: usize) -> Result<String> {
    let session = coord.session(TTL).await?;
    let guard = Lock::new(&session, LOCK)?.acquire().await?;
    let before = weigh(coord)?;
    let waiting: Vec<_> = (0..count)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { Lock::new(&session, LOCK)?.acquire().await })
        })
        .collect();
    line_is(coord, LOCK, count + 1, PATIENCE).await?;
    let told = before.since(coord, count).await?;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    guard.release().await?;
    session.close().await?;
    Ok(told)
}

/// What a watcher weighs.
pub(crate) async fn watchers(coord: &Coord, count: usize) -> Result<String> {
    coord.put("/footprint/key", "").await?;
    let before = weigh(coord)?;
    let arm = async |_| {
        let mut changes: WatchStream = coord.watch("/footprint").await?;
        changes.next().await.transpose()?;
        Ok::<_, coord::Error>(changes)
    };
    let streams = try_join_all((0..count).map(arm)).await?;
    let told = before.since(coord, count).await?;
    drop(streams);
    Ok(told)
}

/// What a session weighs.
pub(crate) async fn sessions(coord: &Coord, count: usize) -> Result<String> {
    coord.get("/footprint/key").await?;
    let before = weigh(coord)?;
    let mut sessions: Vec<Session> = Vec::with_capacity(count);
    while sessions.len() < count {
        // A few at a time: a server takes only so many new connections at once.
        let few = (count - sessions.len()).min(16);
        sessions.extend(try_join_all((0..few).map(|_| coord.session(TTL))).await?);
    }
    let told = before.since(coord, count).await?;
    // Closes all of them together. What the store does not confirm in time goes by itself.
    let _ = coord.close().await;
    Ok(told)
}

/// Memory and tasks at one moment.
struct Weight {
    kib: f64,
    tasks: f64,
}

fn weigh(coord: &Coord) -> Result<Weight> {
    Ok(Weight { kib: resident_kib()?, tasks: tasks(coord) })
}

impl Weight {
    /// What was added for each of `count`, after what their coming took is given back.
    async fn since(self, coord: &Coord, count: usize) -> Result<String> {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (now, count) = (weigh(coord)?, count as f64);
        let told = Told { kib: (now.kib - self.kib) / count, tasks: (now.tasks - self.tasks) / count };
        Ok(serde_json::to_string(&told)?)
    }
}

/// Live tasks of this runtime and the library's.
fn tasks(coord: &Coord) -> f64 {
    let (here, library) = (Handle::current(), coord.runtime().handle().clone());
    let count = |handle: &Handle| handle.metrics().num_alive_tasks();
    let both = if here.id() == library.id() { count(&here) } else { count(&here) + count(&library) };
    both as f64
}
