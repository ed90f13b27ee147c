//! How fast a change is seen by another process, and what watching costs while nothing happens.
//!
//! ```sh
//! cargo run --release -p coord-backend-sqlite --example latency
//! ```
//!
//! One process writes the time every few milliseconds, another watches. Both read one clock, which all processes of the
//! host share. The same is measured for looking at the driver's `data_version` again and again, without being told.
#![allow(clippy::print_stdout, reason = "this is a program that measures")]

use std::{
    env,
    path::Path,
    process::{Child, Command},
    time::Duration,
};

use coord_api::{Config, Coord, Registry, WatchEvent};
use coord_backend_sqlite::SqliteFactory;
use futures::StreamExt;
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 1000;
const PAUSE: Duration = Duration::from_millis(7);
const IDLE: Duration = Duration::from_secs(20);

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let mut args = env::args().skip(1);
    if let Some(url) = args.next() {
        return write(&url).await;
    }
    for options in ["", "?synchronous=normal"] {
        let dir = tempfile::tempdir()?;
        let url = format!("sqlite:{}/coord.db{options}", dir.path().display());
        told(&url).await?;
    }
    for poll in [1, 5, 20, 100].map(Duration::from_millis) {
        let dir = tempfile::tempdir()?;
        looked(&dir.path().join("coord.db"), poll)?;
    }
    Ok(())
}

fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// What this process has used of the processors.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::from_nanos(u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0))
}

async fn open(url: &str) -> Fallible<Coord> {
    Ok(Registry::new().with(SqliteFactory).connect(&Config::from_url(url)?).await?)
}

/// The other process: writes the time, and in the end says so.
async fn write(url: &str) -> Fallible<()> {
    let coord = open(url).await?;
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        tokio::time::sleep(PAUSE).await;
        let began = now();
        coord.put("/time", began.to_string()).await?;
        took.push(now() - began);
    }
    coord.put("/time", "end").await?;
    report("a put takes", took);
    Ok(())
}

fn writer(url: &str) -> Fallible<Child> {
    Ok(Command::new(env::current_exe()?).arg(url).spawn()?)
}

/// The watch as it is: told by the kernel.
async fn told(url: &str) -> Fallible<()> {
    println!("{}:", url.rsplit('/').next().unwrap_or(url));
    let coord = open(url).await?;
    let mut stream = coord.watch("/").await?;
    stream.next().await;
    let mut other = writer(url)?;
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        let WatchEvent::Put(entry) = event? else { continue };
        match String::from_utf8_lossy(&entry.value).parse::<i64>() {
            Ok(written) => seen.push(now() - written),
            Err(_) => break,
        }
    }
    other.wait()?;
    report("from the call of put to the event elsewhere", seen);
    let before = used();
    tokio::time::sleep(IDLE).await;
    idle(before);
    Ok(())
}

/// The other way: nobody tells, the watcher looks.
fn looked(file: &Path, poll: Duration) -> Fallible<()> {
    println!("looking every {poll:?}:");
    let mut other = writer(&format!("sqlite:{}", file.display()))?;
    let conn = rusqlite::Connection::open(file)?;
    conn.busy_timeout(IDLE)?;
    let (mut seen, mut version) = (Vec::new(), 0);
    let mut look = || -> rusqlite::Result<Option<String>> {
        let found: i64 = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if std::mem::replace(&mut version, found) == found {
            return Ok(None);
        }
        let value = conn.prepare_cached("SELECT value FROM entry")?.query_row([], |row| row.get(0));
        Ok(value.ok().map(|value: Vec<u8>| String::from_utf8_lossy(&value).into_owned()))
    };
    loop {
        std::thread::park_timeout(poll);
        // There is no table yet at the beginning.
        match look().ok().flatten().map(|value| value.parse::<i64>()) {
            Some(Ok(written)) => seen.push(now() - written),
            Some(Err(_)) => break,
            None => {}
        }
    }
    other.wait()?;
    report("from the call of put to the change elsewhere", seen);
    let (before, began) = (used(), std::time::Instant::now());
    while began.elapsed() < IDLE {
        std::thread::park_timeout(poll);
        look()?;
    }
    idle(before);
    Ok(())
}

fn idle(before: Duration) {
    let share = (used() - before).as_secs_f64() / IDLE.as_secs_f64();
    println!("  idle: {:.4} % of one processor", share * 100.0);
}

fn report(what: &str, mut nanos: Vec<i64>) {
    nanos.sort_unstable();
    let at = |part: usize| nanos.get(nanos.len() * part / 100).map_or(0, |nanos| nanos / 1000);
    println!("  {what}: median {} µs, 99 in 100 within {} µs ({} seen)", at(50), at(99), nanos.len());
}
