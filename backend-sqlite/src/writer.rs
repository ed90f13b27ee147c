//! The thread that writes: what waits is committed together.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use coord_api::Result;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{
    call::WriteJob,
    error::{During, classify, is_busy},
    query,
    queue::Turn,
    state::State,
    store::Store,
};

/// Most jobs that are committed together.
const BATCH: usize = 64;
/// How long the write lock is waited for.
const BUSY: Duration = Duration::from_secs(2);
/// How often it is tried: doubling between these.
const TRIES: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(4));
/// A look at the sessions of others is due at least so often.
const TICK: Duration = Duration::from_secs(1);

pub(crate) struct Writer {
    conn: Connection,
    store: Arc<Store>,
}

impl Writer {
    pub(crate) const fn new(conn: Connection, store: Arc<Store>) -> Self {
        Self { conn, store }
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(&self) {
        let mut pause = TICK;
        while let Turn::Go(jobs) = self.store.writes.take(Some(pause), BATCH) {
            let well = (jobs.is_empty() && !self.is_due()) || self.batch(jobs);
            // What could not be done for others is not tried again and again.
            pause = if well { self.pause() } else { TICK };
        }
    }

    /// Until the next session is due. A little later, and not all processes at the same moment.
    fn pause(&self) -> Duration {
        let Ok(Some(next)) = query::next_deadline(&self.conn) else { return TICK };
        let left = next.saturating_sub(self.store.clock.now_ms());
        let jitter = Duration::from_millis(2).mul_f64(1.0 + 9.0 * self.store.runtime.unit());
        TICK.min(Duration::from_millis(u64::try_from(left).unwrap_or(0)) + jitter)
    }

    fn is_due(&self) -> bool {
        let now = self.store.clock.now_ms();
        matches!(query::next_deadline(&self.conn), Ok(Some(next)) if next <= now)
    }

    /// Whether it was committed.
    fn batch(&self, mut jobs: Vec<WriteJob>) -> bool {
        let done = self.write(&mut jobs);
        if let Err(error) = &done {
            tracing::debug!(%error, "not committed");
        }
        for job in jobs {
            job.work.settle(done.as_ref().map(|_| ()));
        }
        if matches!(done, Ok(true)) {
            self.store.reads.nudge();
            self.store.presence.ring();
        }
        done.is_ok()
    }

    /// Whether watchers must be told.
    fn write(&self, jobs: &mut Vec<WriteJob>) -> Result<bool> {
        self.store.identity.ensure_same()?;
        let txn = self.begin(jobs)?;
        // Only now: who waits for the lock in vain has surely written nothing.
        jobs.retain(|job| job.claim.take());
        let moved = self.apply(&txn, jobs).map_err(|error| classify(&error, During::Work))?;
        txn.commit().map_err(|error| classify(&error, During::Commit))?;
        Ok(moved)
    }

    fn apply(&self, txn: &Transaction<'_>, jobs: &mut [WriteJob]) -> rusqlite::Result<bool> {
        let mut state = State::load(txn, self.store.clock.now_ms(), self.store.limit)?;
        state.end_due_sessions()?;
        for job in jobs {
            job.work.apply(&mut state)?;
        }
        state.save()?;
        Ok(state.moved())
    }

    /// Takes the write lock. Whoever comes meanwhile is committed too.
    fn begin(&self, jobs: &mut Vec<WriteJob>) -> Result<Transaction<'_>> {
        let until = Instant::now() + BUSY;
        let (mut pause, most) = TRIES;
        loop {
            let refused = match Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate) {
                Ok(txn) => return Ok(txn),
                Err(error) => error,
            };
            // A look at others' sessions can wait: whoever has the lock has looked.
            let wait = is_busy(&refused) && !jobs.is_empty() && Instant::now() < until;
            if !wait {
                return Err(classify(&refused, During::Work));
            }
            jobs.extend(self.store.writes.pause(pause, BATCH.saturating_sub(jobs.len())));
            pause = most.min(pause.mul_f64(1.0 + self.store.runtime.unit()));
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}
