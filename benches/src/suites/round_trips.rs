//! How many round trips an uncontended acquire takes, and how many requests.
//!
//! A link that delays every byte makes the number of round trips visible from outside, on any protocol: what waits for
//! an answer takes one more turn of the link, what is sent together does not. The same proxy counts the requests.

use std::time::{Duration, Instant};

use coord::{Coord, Key, Lock, LockGuard, Seen};
use coord_testbed::{Link, Proxy, Server};

use crate::{
    Result,
    args::Speed,
    report::{Bound, Claim, Report, RoundTrips},
    stand,
    stats::Sample,
};

const LOCK: &str = "/locks/uncontended";
const TTL: Duration = Duration::from_secs(30);

/// One call: the time it took, and the requests it made.
struct Call {
    seconds: f64,
    requests: f64,
}

#[derive(Default)]
struct Calls(Vec<Call>);

impl Calls {
    async fn time<T>(&mut self, proxy: &Proxy, call: impl Future<Output = coord::Result<T>>) -> Result<T> {
        let (began, before) = (Instant::now(), proxy.requests());
        let result = call.await?;
        let requests = (proxy.requests() - before) as f64;
        self.0.push(Call { seconds: began.elapsed().as_secs_f64(), requests });
        Ok(result)
    }

    fn row(&self, store: &'static str, step: &'static str, mirror: bool, turn: Duration) -> RoundTrips {
        let turns = self.0.iter().map(|call| call.seconds / turn.as_secs_f64()).collect();
        let requests = self.0.iter().map(|call| call.requests).collect();
        RoundTrips {
            store,
            step,
            mirror,
            link_round_trips: Sample::new(turns),
            requests: Sample::new(requests),
        }
    }
}

pub(crate) async fn run(speed: &Speed, server: &Server, report: &mut Report) -> Result<()> {
    let (cycles, delay) = if speed.smoke { (5, 25) } else { (21, 25) };
    let delay = Duration::from_millis(delay);
    let proxy = server.proxied().await?;
    let coord = stand::open(&proxy.url()).await?;
    let store = server.kind().name();
    for mirror in [false, true] {
        let rows = measure(&coord, &proxy, store, mirror, (cycles, delay)).await?;
        let [acquire, _] = &rows;
        let with = if mirror { ", with a mirror of the directory" } else { "" };
        // Nothing makes a round trip shorter, so whole ones of the fastest call are those that it waited for.
        let fewest = acquire.link_round_trips.min.floor();
        report.claims.push(Claim::new(
            format!("{store}: round trips of an uncontended acquire{with}"),
            Bound::AtMost(1.0),
            Sample::new(vec![fewest]),
            true,
        ));
        report.round_trips.extend(rows);
    }
    proxy.set(Link::Up);
    Ok(coord.close().await?)
}

async fn measure(
    coord: &Coord,
    proxy: &Proxy,
    store: &'static str,
    mirror: bool,
    (cycles, delay): (usize, Duration),
) -> Result<[RoundTrips; 2]> {
    proxy.set(Link::Up);
    let session = coord.session(TTL).await?;
    let lock = Lock::new(&session, LOCK)?;
    // The first acquire also makes the directory, on ZooKeeper.
    lock.acquire().await?.release().await?;
    // Somebody who waits for a key that never comes keeps the mirror alive.
    let waiting = mirror.then(|| {
        let coord = coord.clone();
        tokio::spawn(async move {
            let never = Seen::Absent(Key::parse(&format!("{LOCK}/never"))?);
            coord.wait(&never).await
        })
    });
    if waiting.is_some() {
        // A cycle through the mirror proves that it is there.
        tokio::time::sleep(Duration::from_millis(300)).await;
        lock.acquire().await?.release().await?;
    }
    proxy.set(Link::Delay(delay));
    let (mut acquires, mut releases) = (Calls::default(), Calls::default());
    for _ in 0..cycles {
        let guard: LockGuard = acquires.time(proxy, lock.acquire()).await?;
        releases.time(proxy, guard.release()).await?;
    }
    proxy.set(Link::Up);
    if let Some(waiting) = waiting {
        waiting.abort();
    }
    session.close().await?;
    let row = |calls: &Calls, step| calls.row(store, step, mirror, 2 * delay);
    Ok([row(&acquires, "acquire"), row(&releases, "release")])
}
