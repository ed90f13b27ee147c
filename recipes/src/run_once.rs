//! Scheduled jobs that run once a period, also when the leader changes in the middle.

mod marker;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coord_api::{
    Coord, Dir, Entry, Error, ErrorKind, Freshness, IntoDir, Key, Lifetime, Result, Retry, Txn, TxnOutcome,
    Version, WatchEvent, encode_segment,
};
use futures::StreamExt;

use crate::{
    Leadership,
    dirs::own,
    insist::{insist, insist_telling},
};

pub use marker::{Marker, MarkerState};

/// Most markers that one run deletes.
const PRUNE_MAX: usize = 50;

/// What to do with a job that an earlier run began and did not finish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unfinished {
    /// Do not run it again: at most once.
    #[default]
    Skip,
    /// Run it again: at least once. Also if it failed, or its leader died at the last line.
    RunAgain,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the job may not have run"]
pub enum RunOutcome<T, E> {
    /// It ran and is marked as finished.
    Ran(T),
    /// It ran and failed. Its marker says that it started.
    Failed(E),
    /// It had run before: this is the marker of that run.
    Finished(Marker),
    /// It had begun before, did not finish, and [`Unfinished::Skip`] says to leave it so.
    Unfinished(Marker),
}

/// Runs a job once for each period, under a leadership.
///
/// Leadership alone does not do it: a job that began before a failover is begun again by the next leader. Here a marker
/// for job and period is written in one transaction with the proof that we lead, before the job begins, and again when
/// it is done. The next leader finds it and knows who ran, and whether to the end.
///
/// A marker is the key `<dir>/<job>/<period>`. The newest ones of each job are kept, so ask for no period older than
/// those.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_api::SessionOptions;
/// # use coord_recipes::{Candidate, RunOnce, RunOutcome, SessionKeeper};
///
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let jobs = RunOnce::new("/jobs")?;
/// let archive = async || Ok::<_, std::io::Error>("archived");
///
/// let leadership = Candidate::new(&keeper, "/elections/jobs", "node-1")?.leadership().await?;
/// let ran = jobs.run(&leadership, "archive", "2026-05-01", archive).await?;
/// assert!(matches!(ran, RunOutcome::Ran("archived")));
/// leadership.resign().await?;
///
/// // The next leader wakes up for the same period.
/// let leadership = Candidate::new(&keeper, "/elections/jobs", "node-2")?.leadership().await?;
/// let ran = jobs.run(&leadership, "archive", "2026-05-01", archive).await?;
/// assert!(matches!(ran, RunOutcome::Finished(marker) if marker.by() == "node-1"));
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct RunOnce {
    dir: Dir,
    unfinished: Unfinished,
    keep: usize,
    /// What runs in this process: a marker does not tell a run that goes on from one that fell over.
    running: Arc<Mutex<BTreeSet<Key>>>,
}

impl RunOnce {
    /// Jobs with their markers below the directory `name`. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the name is no directory, or the root.
    pub fn new(name: impl IntoDir) -> Result<Self> {
        let dir = own(name, "markers need a directory of their own, not the root")?;
        Ok(Self { dir, unfinished: Unfinished::Skip, keep: 100, running: Arc::default() })
    }

    /// The same jobs with another way to treat one that did not finish.
    #[must_use]
    pub const fn with_unfinished(mut self, unfinished: Unfinished) -> Self {
        self.unfinished = unfinished;
        self
    }

    /// The same jobs, keeping at least this many markers of each; 100 if not set.
    ///
    /// Each run deletes up to 50 of the oldest beyond it.
    #[must_use]
    pub const fn with_keep(mut self, markers: usize) -> Self {
        self.keep = markers;
        self
    }

    /// Runs `job` for `period`, unless its marker says that it ran. Any text will do for both.
    ///
    /// The body is dropped when the leadership is lost. Its own writes are safe against a leader of the past only if they
    /// go through [`Leadership::commit`](crate::Hold::commit), or carry the epoch.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost) or [`SessionLost`](ErrorKind::SessionLost) if the leadership is lost: before the
    /// body began, in the middle, or before the end could be marked. [`InvalidArgument`](ErrorKind::InvalidArgument) if
    /// the job runs already in this process, [`Malformed`](ErrorKind::Malformed) if the marker's key has other data.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body; the marker says that the job started.
    pub async fn run<T, E>(
        &self,
        leadership: &Leadership,
        job: &str,
        period: &str,
        body: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<RunOutcome<T, E>> {
        let key = self.key(job, period)?;
        let _running = Running::begin(&self.running, &key)?;
        let nonce = leadership.session().coord().runtime().nonce();
        let marker = Marker::new(leadership.id(), leadership.epoch(), nonce);
        let version = match self.start(leadership, &key, &marker).await? {
            Started::Now(version) => version,
            Started::Before(before) if before.state() == MarkerState::Finished => {
                return Ok(RunOutcome::Finished(before));
            }
            Started::Before(before) => return Ok(RunOutcome::Unfinished(before)),
        };
        let ran = tokio::select! {
            biased;
            // First: a body that was frozen with us must not take another step.
            () = leadership.lost() => {
                leadership.check().await?;
                return Err(lost(&key));
            }
            ran = body() => ran,
        };
        match ran {
            Ok(value) => {
                finish(leadership, &key, version, marker).await?;
                self.prune(leadership, &key).await;
                Ok(RunOutcome::Ran(value))
            }
            Err(error) => Ok(RunOutcome::Failed(error)),
        }
    }

    /// What the marker of a job and period says; `None` if it never began, or was forgotten. Asks the store.
    ///
    /// # Errors
    /// As [`Coord::get`]; [`Malformed`](ErrorKind::Malformed) if the key has other data.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn marker(&self, coord: &Coord, job: &str, period: &str) -> Result<Option<Marker>> {
        let key = self.key(job, period)?;
        let entry = coord.clone().with_freshness(Freshness::Latest).get(&key).await?;
        entry.map(|entry| Marker::read(&entry)).transpose()
    }

    fn key(&self, job: &str, period: &str) -> Result<Key> {
        self.dir.dir(&encode_segment(job))?.key(&encode_segment(period))
    }

    /// Marks the job as started, if it is to run.
    async fn start(&self, leadership: &Leadership, key: &Key, marker: &Marker) -> Result<Started> {
        let create = Txn::new().create(key, marker.write(), Lifetime::Persistent);
        if let Some(version) = write(leadership, key, marker, create.clone()).await? {
            return Ok(Started::Now(version));
        }
        loop {
            let Some(entry) = look(leadership, key).await? else {
                // Pruned by an earlier leader in between.
                match write(leadership, key, marker, create.clone()).await? {
                    Some(version) => return Ok(Started::Now(version)),
                    None => continue,
                }
            };
            let before = Marker::read(&entry)?;
            if before.state() == MarkerState::Finished || self.unfinished == Unfinished::Skip {
                return Ok(Started::Before(before));
            }
            let again = Txn::new().check_version(key, entry.meta.version).update(key, marker.write());
            if let Some(version) = write(leadership, key, marker, again).await? {
                return Ok(Started::Now(version));
            }
        }
    }

    /// Forgets the oldest markers beyond those to keep. Never fails a job that has run.
    async fn prune(&self, leadership: &Leadership, newest: &Key) {
        if let Err(error) = self.try_prune(leadership, newest).await {
            tracing::debug!(key = %newest, %error, "old markers were not deleted");
        }
    }

    async fn try_prune(&self, leadership: &Leadership, newest: &Key) -> Result<()> {
        let (coord, dir) = (leadership.session().coord(), newest.parent());
        if coord.list(&dir).await?.children.len() <= self.keep {
            return Ok(());
        }
        let Some(WatchEvent::Snapshot { mut entries, .. }) =
            coord.watch(&dir).await?.next().await.transpose()?
        else {
            return Ok(());
        };
        entries.sort_by_key(|entry| entry.meta.created);
        let beyond = entries.len().saturating_sub(self.keep.max(1)).min(PRUNE_MAX);
        let old = entries
            .into_iter()
            .take(beyond)
            .filter(|entry| entry.key != *newest && Marker::read(entry).is_ok());
        let forget = old.fold(Txn::new(), |txn, entry| txn.delete(entry.key));
        if !forget.ops().is_empty() {
            // Refused if one is gone already: the next run looks again.
            let _ = leadership.commit(forget).await?;
        }
        Ok(())
    }
}

enum Started {
    Now(Version),
    Before(Marker),
}

async fn finish(leadership: &Leadership, key: &Key, version: Version, marker: Marker) -> Result<()> {
    let finished = marker.finished();
    let update = Txn::new().check_version(key, version).update(key, finished.write());
    match write(leadership, key, &finished, update).await? {
        Some(_) => Ok(()),
        None => {
            Err(Error::new(ErrorKind::NotHolder, "the marker of a running job was changed by somebody else")
                .with_context("key", key))
        }
    }
}

/// Writes a marker while we lead; `None` if what the transaction expects is not so.
///
/// Tries until the store answers or the leadership is lost. A marker carries the nonce of its run, so that one whose
/// reply was lost is known again.
async fn write(leadership: &Leadership, key: &Key, marker: &Marker, txn: Txn) -> Result<Option<Version>> {
    match insist_telling(leadership.session(), || leadership.commit(txn.clone())).await? {
        (TxnOutcome::Committed(commit), _) => Ok(commit.first().map(|written| written.version)),
        (TxnOutcome::Rejected(_), false) => Ok(None),
        (TxnOutcome::Rejected(_), true) => {
            let ours = |entry: &Entry| Marker::read(entry).is_ok_and(|found| found == *marker);
            let found = look(leadership, key).await.map_err(|error| error.with_retry(Retry::Ambiguous))?;
            Ok(found.filter(ours).map(|entry| entry.meta.version))
        }
    }
}

/// Reads the marker, as long as we lead.
async fn look(leadership: &Leadership, key: &Key) -> Result<Option<Entry>> {
    let coord = leadership.session().coord().clone().with_freshness(Freshness::Latest);
    insist(leadership.session(), || coord.get(key)).await
}

fn lost(key: &Key) -> Error {
    Error::new(ErrorKind::LockLost, "the leadership was lost while the job ran").with_context("key", key)
}

/// A job that runs in this process.
struct Running {
    running: Arc<Mutex<BTreeSet<Key>>>,
    key: Key,
}

impl Running {
    fn begin(running: &Arc<Mutex<BTreeSet<Key>>>, key: &Key) -> Result<Self> {
        if !lock(running).insert(key.clone()) {
            return Err(Error::invalid("the job runs already").with_context("key", key));
        }
        Ok(Self { running: Arc::clone(running), key: key.clone() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.running).remove(&self.key);
    }
}

fn lock(running: &Mutex<BTreeSet<Key>>) -> MutexGuard<'_, BTreeSet<Key>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
