//! A lock for which many tasks of one process stand in line with one entry.

use std::{
    num::NonZeroU32,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use coord_api::{Dir, Error, IntoDir, Result, Session, events::Recipe};
use tokio::sync::OwnedMutexGuard;

use crate::{
    Hold,
    line::{Line, Seat, in_time},
};

/// The tag of lock entries, so that this lock and [`Lock`](crate::Lock) exclude each other.
const TAG: &str = "lock-";

/// How many tasks use an entry before it goes back to the end of the line.
const TURNS: NonZeroU32 = NonZeroU32::MIN.saturating_add(15);

/// A fair lock with a local queue in front: many tasks of one process stand in line with one entry.
///
/// A [`Lock`](crate::Lock) makes one entry for each task that waits. Where many tasks of a process want one lock, this
/// one makes one entry for all of them, and hands the lock from task to task without asking the store. Clones share the
/// queue. It is the same lock in the store: [`Lock`](crate::Lock) of the same name and this exclude each other.
///
/// What that costs:
///
/// * *Fairness.* Tasks of one process are served in their order, and so are entries; but a task that comes late to a
///   process that holds is served before another process that has waited longer. After 16 tasks in a row
///   ([`SharedLock::with_turns`] sets another number), the entry is given up and made anew at the end of the line, so
///   that others wait for a bounded number of tasks.
/// * *Fencing.* The token is the entry's, so tasks that follow each other on one entry have the same. It fences
///   processes from each other, and not the tasks of one process: a request that a task has sent and not awaited may
///   arrive when the next task works, and nothing refuses it; the same is true for a transaction by [`Hold::commit`].
///   Await what you send before you release. A resource that can compare pairs may be given
///   [`SharedGuard::turn`] with the token; the pair grows with every task.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use std::time::Duration;
/// # use coord_recipes::SharedLock;
/// # let session = store.session(Duration::from_secs(10)).await?;
/// let lock = SharedLock::new(&session, "/locks/orders")?;
/// let guard = lock.acquire().await?;
/// let next = tokio::spawn({
///     let lock = lock.clone();
///     async move { lock.acquire().await?.release().await }
/// });
/// guard.release().await?;
/// next.await.expect("no panic")?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct SharedLock {
    line: Line,
    turns: NonZeroU32,
    /// What the tasks share that hold or wait. The last of them takes it with it, and the entry leaves the line.
    queue: Arc<Mutex<Weak<Queue>>>,
}

/// The tasks queue for the mutex. Async, because who has it waits for the store, or holds.
type Queue = tokio::sync::Mutex<Shared>;

#[derive(Debug, Default)]
struct Shared {
    seat: Seat,
    /// How many tasks have used the entry that is in the seat.
    used: u32,
}

impl SharedLock {
    /// The lock of this name, for `session`. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no directory, or the root.
    pub fn new(session: &Session, name: impl IntoDir) -> Result<Self> {
        Ok(Self {
            line: Line::new(session, name, TAG)?.told_as(Recipe::Lock),
            turns: TURNS,
            queue: Arc::default(),
        })
    }

    /// The same lock, with another number of tasks that may use an entry before it goes back to the end of the line.
    #[must_use]
    pub const fn with_turns(mut self, turns: NonZeroU32) -> Self {
        self.turns = turns;
        self
    }

    /// The directory of the lock.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        self.line.dir()
    }

    /// Waits until it is our turn in this process, and this process's turn in the line, however long.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the queue, and leaves the line unless others of this process wait.
    pub async fn acquire(&self) -> Result<SharedGuard> {
        // Whoever is ahead here may be slow to notice that the session is over.
        let mut shared = tokio::select! {
            biased;
            () = self.line.session().lost() => return Err(Error::session_lost("the session is over: open a new one")),
            shared = self.queue().lock_owned() => shared,
        };
        self.retire(&mut shared).await?;
        let hold = shared.seat.turn(&self.line).await?;
        Ok(SharedGuard::new(hold, shared))
    }

    /// Takes the lock if nobody has it or waits for it, here or elsewhere; `None` if somebody does.
    ///
    /// # Errors
    /// As [`SharedLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`SharedLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<SharedGuard>> {
        let Ok(mut shared) = self.queue().try_lock_owned() else { return Ok(None) };
        self.retire(&mut shared).await?;
        let hold = shared.seat.try_turn(&self.line).await?;
        Ok(hold.map(|hold| SharedGuard::new(hold, shared)))
    }

    /// As [`SharedLock::acquire`], but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`SharedLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`SharedLock::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<SharedGuard>> {
        if timeout.is_zero() {
            return self.try_acquire().await;
        }
        in_time(timeout, self.acquire()).await
    }

    fn queue(&self) -> Arc<Queue> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.upgrade().unwrap_or_else(|| {
            let new = Arc::default();
            *queue = Arc::downgrade(&new);
            new
        })
    }

    /// Gives up an entry that was used often enough, so that we join again behind those who wait.
    async fn retire(&self, shared: &mut Shared) -> Result<()> {
        let held = shared.seat.is_held();
        if held && shared.used < self.turns.get() {
            return Ok(());
        }
        shared.used = 0;
        match shared.seat.take_hold() {
            Some(hold) => hold.release().await,
            None => Ok(()),
        }
    }
}

/// A held lock, whose entry in the line other tasks of this process may wait for.
///
/// Ends by [`SharedGuard::release`], or when it is dropped. What it can do meanwhile is in [`Hold`].
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock: bind it to a name (`let guard`); `let _` drops it at once"]
pub struct SharedGuard {
    hold: Arc<Hold>,
    turn: u32,
    shared: OwnedMutexGuard<Shared>,
}

impl SharedGuard {
    fn new(hold: Arc<Hold>, mut shared: OwnedMutexGuard<Shared>) -> Self {
        shared.used += 1;
        Self { hold, turn: shared.used, shared }
    }

    /// Which task of this process it is that uses the entry: 1 for the first.
    ///
    /// Grows while the token is the same.
    #[must_use]
    pub const fn turn(&self) -> u32 {
        self.turn
    }

    /// Hands the lock to the next task that waits in this process; gives it back, and reports, if there is none.
    ///
    /// # Errors
    /// As [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Cancel safety
    /// Safe: the release goes on in the background.
    pub async fn release(self) -> Result<()> {
        let Self { hold, shared, .. } = self;
        let queue = Arc::clone(OwnedMutexGuard::mutex(&shared));
        drop(shared);
        // Of all that end at once exactly one is the last, and none while a task of this process waits.
        if Arc::into_inner(queue).is_some() { hold.release().await } else { Ok(()) }
    }
}

impl Deref for SharedGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
