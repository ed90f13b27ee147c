//! `bench`: how fast the store is from here, in a few seconds.

use std::time::{Duration, Instant};

use clap::Args;
use coord::{Coord, Dir, Error, ErrorKind, Lifetime, Lock, Session, WatchEvent};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::{Failure, Format, code, exit::say, output::Output, store::Source};

/// How long the store keeps what a killed bench leaves behind.
const TTL: Duration = Duration::from_secs(15);
/// No watch that works is later than this.
const WATCH_MAX: Duration = Duration::from_secs(30);
/// The size of values, in bytes.
const VALUE: usize = 100;

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// How often each is done, one after the other
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,

    /// The directory to write in; what is written there goes with the session of bench
    #[arg(long, value_name = "DIR", default_value = "/coord-bench", value_parser = crate::args::key)]
    pub dir: String,
}

/// The times of one kind of work, sorted.
struct Times {
    what: &'static str,
    sorted: Vec<Duration>,
}

/// Measures on one connection, without anything at once. Other clients see a session and a few keys.
pub(crate) async fn bench(source: &Source, out: &mut Output<'_>, args: &BenchArgs) -> Result<u8, Failure> {
    let coord = source.connect().await?;
    let session = coord.session(TTL).await?;
    // Benches at the same time do not meet.
    let dir = Dir::parse(&args.dir)?.dir(&format!("run-{}", coord::encode_segment(session.id().as_str())))?;
    let measured = measure(source, &session, &dir, args.count).await;
    // Its keys go with it.
    let closed = session.close().await;
    let times = measured?;
    closed?;
    show(out, &coord.info(), &times)?;
    Ok(code::YES)
}

async fn measure(source: &Source, session: &Session, dir: &Dir, count: u32) -> Result<Vec<Times>, Failure> {
    let coord = session.coord();
    let key = dir.key("values/one")?;
    coord.create(&key, vec![b'x'; VALUE], Lifetime::Session).await?;
    let get = Times::of("get", count, async || coord.get(&key).await.map(drop)).await?;
    let put = Times::of("put", count, async || coord.put(&key, vec![b'y'; VALUE]).await.map(drop)).await?;
    let lock = Lock::new(session, dir.dir("lock")?)?;
    let cycle = async || lock.acquire().await?.release().await;
    let lock = Times::of("lock and release", count, cycle).await?;
    // A store in memory is another one for each connection without a name.
    let other = if coord.info().name == "memory" { coord.clone() } else { source.connect().await? };
    let watch = watch(coord, &other, dir, count).await?;
    Ok(vec![get, put, lock, watch])
}

/// From when a put is sent until another connection is told.
async fn watch(coord: &Coord, other: &Coord, dir: &Dir, count: u32) -> Result<Times, Failure> {
    let key = dir.key("watched/one")?;
    coord.create(&key, "", Lifetime::Session).await?;
    let mut events = other.watch(key.parent()).await?;
    let mut sorted = Vec::new();
    for at in 0..count {
        let value = at.to_string();
        let told = async {
            while let Some(event) = events.next().await.transpose()? {
                let here = match &event {
                    WatchEvent::Put(entry) => entry.value == value,
                    WatchEvent::Snapshot { entries, .. } => entries.iter().any(|entry| entry.value == value),
                    _ => false,
                };
                if here {
                    return Ok(Instant::now());
                }
            }
            Err(Error::new(ErrorKind::Unexpected, "the watch ended"))
        };
        let told = async {
            let late = || Error::new(ErrorKind::Timeout, "the watch told nothing");
            tokio::time::timeout(WATCH_MAX, told).await.map_err(|_| late())?
        };
        let began = Instant::now();
        let (_, told) = futures::try_join!(coord.put(&key, value.clone()), told)?;
        sorted.push(told - began);
    }
    Ok(Times::new("put until a watch tells", sorted))
}

impl Times {
    fn new(what: &'static str, mut sorted: Vec<Duration>) -> Self {
        sorted.sort_unstable();
        Self { what, sorted }
    }

    async fn of(
        what: &'static str,
        count: u32,
        mut work: impl AsyncFnMut() -> Result<(), Error>,
    ) -> Result<Self, Failure> {
        // The first one pays for connections, caches and directories.
        work().await?;
        let mut times = Vec::new();
        for _ in 0..count {
            let began = Instant::now();
            work().await?;
            times.push(began.elapsed());
        }
        Ok(Self::new(what, times))
    }

    /// The smallest time that so many of a hundred do not exceed.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.sorted.len() * percent).div_ceil(100);
        self.sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// Minimum, percentiles and maximum, by the names of their columns.
    fn columns(&self) -> [(&'static str, Duration); 5] {
        [
            ("min", self.percentile(0)),
            ("p50", self.percentile(50)),
            ("p90", self.percentile(90)),
            ("p99", self.percentile(99)),
            ("max", self.percentile(100)),
        ]
    }

    fn json(&self) -> Value {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mut object = json!({ "what": self.what, "count": self.sorted.len() });
        for (name, time) in self.columns() {
            object[format!("{name}_us")] = json!(micros(time));
        }
        object
    }

    fn row(&self) -> Vec<String> {
        let mut row = vec![self.what.to_owned(), self.sorted.len().to_string()];
        row.extend(self.columns().map(|(_, time)| format!("{:.3}", time.as_secs_f64() * 1000.0)));
        row
    }
}

fn show(out: &mut Output<'_>, info: &coord::BackendInfo, times: &[Times]) -> Result<(), Failure> {
    match out.format() {
        Format::Json => out.json(&json!({
            "backend": info.name,
            "server": info.server,
            "value_bytes": VALUE,
            "times": times.iter().map(Times::json).collect::<Vec<_>>(),
        }))?,
        Format::Jsonl => {
            for times in times {
                out.json(&times.json())?;
            }
        }
        Format::Auto | Format::Table | Format::Plain => {
            let head = ["MILLISECONDS", "COUNT", "MIN", "P50", "P90", "P99", "MAX"].map(str::to_owned);
            let mut rows = vec![head.to_vec()];
            rows.extend(times.iter().map(Times::row));
            out.table(&rows)?;
            let server = if info.server.is_empty() { info.name } else { &info.server };
            say(&format!("{server}; one after the other, values of {VALUE} bytes"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let ms = Duration::from_millis;
        let times = Times::new("x", (1..=200).rev().map(ms).collect());
        let columns = times.columns().map(|(_, time)| time);
        assert_eq!(columns, [ms(1), ms(100), ms(180), ms(198), ms(200)]);
        assert_eq!(Times::new("x", vec![ms(7)]).columns().map(|(_, time)| time), [ms(7); 5]);
    }
}
