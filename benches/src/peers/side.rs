//! A process of a comparison that is written in Rust: our side, and etcd's own services.

use std::{
    future,
    sync::Arc,
    time::{Duration, Instant},
};

use coord::{
    Coord, Lock, SessionKeeper, SessionOptions, WatchEvent,
    registry::{Instance, Registration, Registry},
};
use etcd_client::{Client, EventType};
use futures::{
    StreamExt,
    future::try_join_all,
    stream::{self, BoxStream},
};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use crate::{
    Result,
    contest::{Contender, Contest, Pace},
    peers::{
        args::{Library, Role, SideArgs},
        fan::{self, Fan},
    },
    say, stand,
};

const TTL: Duration = Duration::from_secs(30);
/// How long watchers may be behind.
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "/peers/watched/key";

/// The whole of such a process.
pub(crate) async fn run(args: &SideArgs) -> Result<()> {
    let SideArgs { library, url, role } = args;
    match role {
        Role::Lock { name, contenders, hold_ms, think_ms } => {
            let pace =
                Pace { hold: Duration::from_millis(*hold_ms), think: Duration::from_millis(*think_ms) };
            lock(*library, url, name, *contenders, pace).await
        }
        Role::Watch { watchers } => watch_one_key(*library, url, *watchers).await,
        Role::Register => register(url).await,
        Role::FirstLock => first_lock(url).await,
    }
}

/// The next repetition that is asked for; none at the end.
struct Asked(Lines<BufReader<Stdin>>);

impl Asked {
    /// Says that this process can begin.
    fn ready() -> Result<Asked> {
        say("READY")?;
        Ok(Asked(BufReader::new(tokio::io::stdin()).lines()))
    }

    async fn next(&mut self) -> Result<Option<Vec<u64>>> {
        let Some(line) = self.0.next_line().await? else { return Ok(None) };
        Ok(Some(line.split(' ').map(str::parse).collect::<Result<_, _>>()?))
    }

    async fn pair(&mut self) -> Result<Option<(u64, u64)>> {
        let Some(numbers) = self.next().await? else { return Ok(None) };
        let [first, second] = <[u64; 2]>::try_from(numbers).map_err(|_| "two numbers are wanted")?;
        Ok(Some((first, second)))
    }
}

async fn lock(library: Library, url: &str, name: &str, contenders: usize, pace: Pace) -> Result<()> {
    let contenders = match library {
        Library::Coord => {
            Contender::ours(&stand::open(url).await?, &format!("/locks/{name}"), contenders).await?
        }
        Library::EtcdClient => Contender::etcds(url, name, contenders).await?,
    };
    let mut asked = Asked::ready()?;
    while let Some((settle, span)) = asked.pair().await? {
        let mut contest = Contest::begin(&contenders, pace);
        tokio::time::sleep(Duration::from_millis(settle)).await;
        say("BEGIN")?;
        contest.record(Duration::from_millis(span)).await;
        say("END")?;
        let told = contest.end().await?;
        say(&format!(
            "acquisitions_s={} hand_off_p50_ms={} hand_off_p99_ms={} cycle_p99_ms={} fewest={} most={} overlaps={}",
            told.per_s,
            told.hand_off_p50_ms,
            told.hand_off_p99_ms,
            told.cycle_p99_ms,
            told.fewest,
            told.most,
            told.overlaps
        ))?;
    }
    try_join_all(contenders.iter().map(Contender::end)).await?;
    Ok(())
}

/// The numbers of the updates that one watcher gets.
type Updates = BoxStream<'static, Result<usize>>;

/// Reads and writes the watched key.
enum Watched {
    Coord { watchers: Coord, writer: Coord },
    Etcd(Box<Client>),
}

impl Watched {
    async fn open(library: Library, url: &str) -> Result<Watched> {
        Ok(match library {
            Library::Coord => {
                Watched::Coord { watchers: stand::open(url).await?, writer: stand::open(url).await? }
            }
            Library::EtcdClient => Watched::Etcd(Box::new(Client::connect([url], None).await?)),
        })
    }

    async fn write(&mut self, number: usize) -> Result<()> {
        let value = number.to_string();
        match self {
            Watched::Coord { writer, .. } => writer.put(KEY, value).await.map(drop)?,
            Watched::Etcd(client) => client.put(KEY, value, None).await.map(drop)?,
        }
        Ok(())
    }

    /// A watcher that misses no later update.
    async fn watch(&self) -> Result<Updates> {
        match self {
            Watched::Coord { watchers, .. } => {
                let mut changes = watchers.watch("/peers/watched").await?;
                changes.next().await.transpose()?;
                Ok(changes
                    .filter_map(|event| {
                        future::ready(match event {
                            Ok(WatchEvent::Put(entry)) => Some(fan::number(&entry.value)),
                            // After a gap: the newest value, and those between are lost.
                            Ok(WatchEvent::Snapshot { entries, .. }) => {
                                entries.first().map(|entry| fan::number(&entry.value))
                            }
                            Ok(_) => None,
                            Err(error) => Some(Err(error.into())),
                        })
                    })
                    .boxed())
            }
            Watched::Etcd(client) => {
                let mut changes = client.watch_client().watch(KEY, None).await?;
                // The server has it.
                changes.message().await?;
                Ok(changes.flat_map(|answer| stream::iter(numbers(answer))).boxed())
            }
        }
    }
}

fn numbers(answer: Result<etcd_client::WatchResponse, etcd_client::Error>) -> Vec<Result<usize>> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return vec![Err(error.into())],
    };
    let puts = answer.events().iter().filter(|event| event.event_type() == EventType::Put);
    puts.filter_map(|event| Some(fan::number(event.kv()?.value()))).collect()
}

async fn watch_one_key(library: Library, url: &str, watchers: usize) -> Result<()> {
    let mut watched = Watched::open(library, url).await?;
    let mut asked = Asked::ready()?;
    while let Some((updates, pace_us)) = asked.pair().await? {
        let updates = usize::try_from(updates)?;
        watched.write(0).await?;
        let armed = try_join_all((0..watchers).map(|_| watched.watch())).await?;
        let fan = Arc::new(Fan::of(updates));
        let following: Vec<_> =
            armed.into_iter().map(|changes| tokio::spawn(follow(changes, Arc::clone(&fan)))).collect();
        say("BEGIN")?;
        let began = Instant::now();
        let mut next = tokio::time::Instant::now();
        for number in 1..=updates {
            if pace_us > 0 {
                tokio::time::sleep_until(next).await;
                next += Duration::from_micros(pace_us);
            }
            fan.writes(number);
            watched.write(number).await?;
        }
        let seconds = began.elapsed().as_secs_f64();
        let caught_up = tokio::time::timeout(PATIENCE, try_join_all(following)).await;
        caught_up.map_err(|_| "the watchers did not catch up")??.into_iter().collect::<Result<()>>()?;
        say("END")?;
        let (complete, seen) = fan.complete(watchers);
        let taken = fan.latency();
        say(&format!(
            "p50_ms={} p99_ms={} complete_percent={} seen_percent={} updates_s={}",
            taken.ms(0.5),
            taken.ms(0.99),
            100.0 * complete,
            100.0 * seen,
            updates as f64 / seconds
        ))?;
    }
    Ok(())
}

/// Follows until the last update.
async fn follow(mut changes: Updates, fan: Arc<Fan>) -> Result<()> {
    let mut last = 0;
    while let Some(number) = changes.next().await {
        if fan.arrives(&mut last, number?) {
            return Ok(());
        }
    }
    Err("a watch has ended".into())
}

async fn register(url: &str) -> Result<()> {
    let coord = stand::open(url).await?;
    let registry = Registry::new(&coord, "/services")?;
    let mut asked = Asked::ready()?;
    let mut repetition = 0;
    while let Some(numbers) = asked.next().await? {
        let count = numbers.first().copied().ok_or("a number is wanted")?;
        repetition += 1;
        let service = format!("billing-{repetition}");
        let keeper = SessionKeeper::new(&coord, SessionOptions::new(TTL));
        keeper.session().await?;
        let instances =
            (0..count).map(|number| Instance::new(&service, format!("i-{number}"), "10.0.0.1", 8080));
        let instances: Vec<_> = instances.collect();
        say("BEGIN")?;
        let began = Instant::now();
        let registered = registry.register_all(&keeper, instances).await;
        let seconds = began.elapsed().as_secs_f64();
        say("END")?;
        let kept: Vec<Registration> = registered.into_iter().collect::<Result<_, _>>()?;
        say(&format!("registrations_s={}", kept.len() as f64 / seconds))?;
        // The session takes all of them with it.
        keeper.close().await?;
    }
    Ok(coord.close().await?)
}

async fn first_lock(url: &str) -> Result<()> {
    let coord = stand::open(url).await?;
    let session = coord.session(TTL).await?;
    Lock::new(&session, "/locks/first")?.acquire().await?.release().await?;
    let mut asked = Asked::ready()?;
    // Idle until the end.
    while asked.next().await?.is_some() {}
    session.close().await?;
    Ok(coord.close().await?)
}
