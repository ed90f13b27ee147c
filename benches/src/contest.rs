//! Several contenders for one lock.

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

use crate::{Result, race::Race};

/// Sessions outlive any repetition, and renew rarely enough not to show in the counts.
const TTL: Duration = Duration::from_secs(30);
/// How long at most is waited for the first hand-off.
const PATIENCE: Duration = Duration::from_secs(30);

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

    async fn cycle(&self, race: &Race, me: usize, pace: Pace) -> Result<()> {
        pause(pace.think).await;
        let began = Instant::now();
        match self {
            Contender::Coord { lock, .. } => {
                let guard = lock.acquire().await?;
                race.entered(me);
                pause(pace.hold).await;
                race.leaves();
                guard.release().await?;
            }
            Contender::Etcd { client, lease, name, .. } => {
                let mut locks = client.lock_client();
                let options = LockOptions::new().with_lease(*lease);
                let held = locks.lock(name.as_str(), Some(options)).await?;
                race.entered(me);
                pause(pace.hold).await;
                race.leaves();
                locks.unlock(held.key()).await?;
            }
        }
        race.cycled(began.elapsed());
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

/// Not even a yield where there is nothing to wait for.
async fn pause(length: Duration) {
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
}

/// What contenders do beside taking the lock and giving it back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Inside the lock.
    pub(crate) hold: Duration,
    /// Between two cycles.
    pub(crate) think: Duration,
}

/// What one repetition gave.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) acquisitions: u64,
    pub(crate) per_s: f64,
    /// From the call that gives back to the return of the next acquire.
    pub(crate) hand_off_p50_ms: f64,
    pub(crate) hand_off_p99_ms: f64,
    /// From the call that acquires to the return of the one that gives back.
    pub(crate) cycle_p99_ms: f64,
    /// Of the contender with the fewest.
    pub(crate) fewest: u64,
    /// Of the contender with the most.
    pub(crate) most: u64,
    /// Times that two held the lock at once.
    pub(crate) overlaps: u64,
}

/// Contenders that contend. What they do counts while it is recorded.
#[derive(Debug)]
pub(crate) struct Contest {
    race: Arc<Race>,
    over: Arc<AtomicBool>,
    contending: Vec<JoinHandle<Result<()>>>,
    recorded: Duration,
}

impl Contest {
    /// They begin, unrecorded.
    pub(crate) fn begin(contenders: &Arc<[Contender]>, pace: Pace) -> Contest {
        let (race, over) = (Arc::new(Race::of(contenders.len())), Arc::new(AtomicBool::new(false)));
        let contend = |me: usize| {
            let (contenders, race, over) = (Arc::clone(contenders), Arc::clone(&race), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    contenders[me].cycle(&race, me, pace).await?;
                }
                Ok::<_, crate::Failure>(())
            })
        };
        let contending = (0..contenders.len()).map(contend).collect();
        Contest { race, over, contending, recorded: Duration::ZERO }
    }

    /// Records for so long, and longer until the lock has changed hands.
    pub(crate) async fn record(&mut self, span: Duration) {
        let began = Instant::now();
        self.race.record(true);
        tokio::time::sleep(span).await;
        while self.race.is_empty()
            && began.elapsed() < PATIENCE
            && !self.contending.iter().any(JoinHandle::is_finished)
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.race.record(false);
        self.recorded += began.elapsed();
    }

    /// Everybody ends the cycle that is under way.
    pub(crate) async fn end(self) -> Result<Figures> {
        self.over.store(true, Ordering::SeqCst);
        for ended in try_join_all(self.contending).await? {
            ended?;
        }
        let (counts, hand_offs, cycles) = (self.race.counts(), self.race.hand_offs(), self.race.cycles());
        let acquisitions: u64 = counts.iter().sum();
        Ok(Figures {
            acquisitions,
            per_s: acquisitions as f64 / self.recorded.as_secs_f64(),
            hand_off_p50_ms: hand_offs.ms(0.5),
            hand_off_p99_ms: hand_offs.ms(0.99),
            cycle_p99_ms: cycles.ms(0.99),
            fewest: counts.iter().copied().min().unwrap_or(0),
            most: counts.iter().copied().max().unwrap_or(0),
            overlaps: self.race.overlaps(),
        })
    }
}
