//! Several contenders for one lock, with an empty critical section.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use coord::{Coord, Lock, Session};
use etcd_client::{Client, LockOptions};
use futures::future::try_join_all;
use tokio::task::JoinHandle;

use crate::{
    Result,
    counters::{Counters, Reader, growth},
    race::Race,
};

/// Sessions outlive any repetition, and renew rarely enough not to show in the counts.
const TTL: Duration = Duration::from_secs(30);

/// Somebody who takes the lock and gives it back.
pub(crate) enum Contender {
    /// Our lock, with a session of its own.
    Coord { lock: Lock, session: Session },
    /// The lock service of the etcd server, with a connection and a lease of its own.
    Etcd { client: Box<Client>, lease: i64, name: String, keeping: JoinHandle<()> },
}

impl Contender {
    /// `count` contenders of one process: one handle, a session each.
    pub(crate) async fn ours(coord: &Coord, name: &str, count: usize) -> Result<Arc<[Contender]>> {
        let make = async |_| {
            let session = coord.session(TTL).await?;
            Ok::<_, crate::Failure>(Contender::Coord { lock: Lock::new(&session, name)?, session })
        };
        Ok(try_join_all((0..count).map(make)).await?.into())
    }

    /// `count` users of etcd's own lock service.
    pub(crate) async fn etcds(endpoint: &str, name: &str, count: usize) -> Result<Arc<[Contender]>> {
        let make = async |_| {
            let mut client = Client::connect([endpoint], None).await?;
            let ttl = i64::try_from(TTL.as_secs())?;
            let lease = client.lease_grant(ttl, None).await?.id();
            let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
            let keeping = tokio::spawn(async move {
                while keeper.keep_alive().await.is_ok() && answers.message().await.is_ok() {
                    tokio::time::sleep(TTL / 3).await;
                }
            });
            Ok::<_, crate::Failure>(Contender::Etcd {
                client: Box::new(client),
                lease,
                name: name.to_owned(),
                keeping,
            })
        };
        Ok(try_join_all((0..count).map(make)).await?.into())
    }

    async fn cycle(&self, race: &Race, me: usize) -> Result<()> {
        match self {
            Contender::Coord { lock, .. } => {
                let guard = lock.acquire().await?;
                race.entered(me);
                race.leaves();
                guard.release().await?;
            }
            Contender::Etcd { client, lease, name, .. } => {
                let mut locks = client.lock_client();
                let options = LockOptions::new().with_lease(*lease);
                let held = locks.lock(name.as_str(), Some(options)).await?;
                race.entered(me);
                race.leaves();
                locks.unlock(held.key()).await?;
            }
        }
        Ok(())
    }

    /// Ends the session or lease.
    pub(crate) async fn end(&self) -> Result<()> {
        match self {
            Contender::Coord { session, .. } => session.close().await?,
            Contender::Etcd { client, lease, keeping, .. } => {
                keeping.abort();
                client.lease_client().revoke(*lease).await?;
            }
        }
        Ok(())
    }
}

/// What one repetition gave.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) per_s: f64,
    /// From the call that gives back to the return of the next acquire.
    pub(crate) hand_off_p50_ms: f64,
    pub(crate) hand_off_p99_ms: f64,
    /// Of the contender with the fewest.
    pub(crate) fewest: u64,
    /// Of the contender with the most.
    pub(crate) most: u64,
    /// Times that two held the lock at once.
    pub(crate) overlaps: u64,
    /// Server work for one acquisition.
    pub(crate) work: Counters,
    /// Requests for one acquisition that a proxy counted, where there was one.
    pub(crate) requests: Option<f64>,
}

/// Lets them contend: for `settle` unrecorded, then for `span`. `requests` is read at both ends of it.
pub(crate) async fn run(
    contenders: &Arc<[Contender]>,
    reader: &Reader,
    (settle, span): (Duration, Duration),
    requests: Option<&(dyn Fn() -> u64 + Sync)>,
) -> Result<Figures> {
    let (race, over) = (Arc::new(Race::of(contenders.len())), Arc::new(AtomicBool::new(false)));
    let contending: Vec<_> = (0..contenders.len())
        .map(|me| {
            let (contenders, race, over) = (Arc::clone(contenders), Arc::clone(&race), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    contenders[me].cycle(&race, me).await?;
                }
                Ok::<_, crate::Failure>(())
            })
        })
        .collect();
    tokio::time::sleep(settle).await;
    let before = reader.read().await?;
    let (began, asked) = (Instant::now(), requests.map(|count| count()));
    race.record(true);
    tokio::time::sleep(span).await;
    race.record(false);
    let asked = requests.map(|count| count()).zip(asked);
    let seconds = began.elapsed().as_secs_f64();
    let after = reader.read().await?;
    over.store(true, Ordering::SeqCst);
    for ended in try_join_all(contending).await? {
        ended?;
    }
    let counts = race.counts();
    let acquisitions: u64 = counts.iter().sum();
    let each = (acquisitions as f64).max(1.0);
    let hand_offs = race.hand_offs();
    Ok(Figures {
        per_s: acquisitions as f64 / seconds,
        hand_off_p50_ms: hand_offs.ms(0.5),
        hand_off_p99_ms: hand_offs.ms(0.99),
        fewest: counts.iter().copied().min().unwrap_or(0),
        most: counts.iter().copied().max().unwrap_or(0),
        overlaps: race.overlaps(),
        work: growth(&before, &after, each),
        requests: asked.map(|(after, before)| (after - before) as f64 / each),
    })
}
