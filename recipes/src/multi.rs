//! Several locks at once, or none.

use std::{collections::BTreeMap, future::poll_fn, task::Poll, time::Duration};

use coord_api::{Dir, Error, FencingToken, IntoDir, Result, Session, Txn, TxnOutcome};
use tokio::time::Instant;

use crate::planted::{Bug, planted};
use crate::{Hold, Lock, LockGuard, hold::commit_while, line::in_time};

/// A set of locks that are acquired all or none.
///
/// They are acquired one after another in the order of their names, whatever the order in which they were given, so
/// that two who want some of the same locks never wait for each other in a circle. Each is an ordinary
/// [`Lock`](crate::Lock): whoever wants only one of them stands in the same line. While this waits for one lock it
/// holds those before it.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use std::time::Duration;
/// # use coord_api::Txn;
/// # use coord_recipes::MultiLock;
/// # let session = store.session(Duration::from_secs(10)).await?;
/// let accounts = MultiLock::new(&session, ["/accounts/bob/lock", "/accounts/alice/lock"])?;
/// let guard = accounts.acquire().await?;
/// // Applied only while all are held.
/// guard.commit(Txn::new().put("/accounts/alice/amount", "5").put("/accounts/bob/amount", "7")).await?;
/// guard.release().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock {
    /// By name, each once.
    locks: BTreeMap<String, Lock>,
}

impl MultiLock {
    /// The locks of these names, for `session`; a name that is given twice is one lock. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if there is no name, or one is no directory, or the
    /// root.
    pub fn new<N: IntoDir>(session: &Session, names: impl IntoIterator<Item = N>) -> Result<Self> {
        let mut locks = BTreeMap::new();
        for name in names {
            let lock = Lock::new(session, name)?;
            locks.insert(lock.name().as_str().to_owned(), lock);
        }
        if locks.is_empty() {
            return Err(Error::invalid("a lock over no names would protect nothing"));
        }
        Ok(Self { locks })
    }

    /// The directories of the locks, in the order in which they are acquired.
    pub fn names(&self) -> impl Iterator<Item = &Dir> {
        self.locks.values().map(Lock::name)
    }

    /// Waits until all locks are ours, however long. One round trip a lock, one after another.
    ///
    /// # Errors
    /// As [`Lock::acquire`], for the first lock that failed; the others are given back in the background.
    ///
    /// # Cancel safety
    /// Safe: dropping the future gives back what was acquired and leaves the line that it stood in.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        let mut guards = Vec::with_capacity(self.locks.len());
        let mut locks: Vec<_> = self.locks.values().collect();
        if planted(Bug::MultiInAnyOrder) && locks[0].session().coord().runtime().unit() < 0.5 {
            locks.reverse();
        }
        for lock in locks {
            guards.push((lock.name().clone(), lock.acquire().await?));
        }
        Ok(MultiGuard { guards })
    }

    /// Takes the locks if nobody has one of them or waits for it; `None`, with all given back, if somebody does.
    ///
    /// # Errors
    /// As [`MultiLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`MultiLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut held = MultiGuard { guards: Vec::with_capacity(self.locks.len()) };
        for lock in self.locks.values() {
            match lock.try_acquire().await? {
                Some(guard) => held.guards.push((lock.name().clone(), guard)),
                None if planted(Bug::MultiKeepsPart) => {
                    std::mem::forget(held);
                    return Ok(None);
                }
                None => {
                    held.release().await?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(held))
    }

    /// Waits for all locks, but not longer than `timeout` altogether; `None` if the time ran out, and what was acquired
    /// is given back in the background. Zero means one try.
    ///
    /// # Errors
    /// As [`MultiLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`MultiLock::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<MultiGuard>> {
        if timeout.is_zero() {
            return self.try_acquire().await;
        }
        in_time(timeout, self.acquire()).await
    }
}

/// Several held locks.
///
/// They are held together: when one is lost, count all as lost. Ends by [`MultiGuard::release`], or in the background
/// when it is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks: bind it to a name (`let guard`); `let _` drops it at once"]
pub struct MultiGuard {
    guards: Vec<(Dir, LockGuard)>,
}

impl MultiGuard {
    /// The fencing token of each lock, in the order of the names. Send to each resource the token of its own lock.
    pub fn tokens(&self) -> impl Iterator<Item = (&Dir, FencingToken)> {
        self.guards.iter().map(|(name, guard)| (name, guard.token()))
    }

    /// What is held of the lock of this name; `None` if it is none of them.
    #[must_use]
    pub fn hold(&self, name: &Dir) -> Option<&Hold> {
        self.guards.iter().find(|(known, _)| known == name).map(|(_, guard)| &**guard)
    }

    /// Until when nobody else can be granted one of the locks, unless the session is renewed before.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        self.holds().map(Hold::valid_until).min()
    }

    /// Whether all locks are surely still ours, by the local clock. Asks nobody.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.holds().all(Hold::is_valid)
    }

    /// Resolves once one of the locks is lost.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn lost(&self) {
        let mut losses: Vec<_> = self.holds().map(|hold| Box::pin(hold.lost())).collect();
        poll_fn(|cx| {
            let lost = losses.iter_mut().any(|lost| lost.as_mut().poll(cx).is_ready());
            if lost { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Asks the store whether all locks are still ours, one after another.
    ///
    /// # Errors
    /// As [`Hold::check`], for the first that is not.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn check(&self) -> Result<()> {
        for hold in self.holds() {
            hold.check().await?;
        }
        Ok(())
    }

    /// Commits a transaction that applies only while all locks are held. Each lock counts as one check.
    ///
    /// # Errors
    /// As [`Hold::commit`].
    ///
    /// # Cancel safety
    /// As [`Hold::commit`].
    pub async fn commit(&self, txn: Txn) -> Result<TxnOutcome> {
        commit_while(&self.holds().collect::<Vec<_>>(), txn).await
    }

    /// Gives all locks back, the last acquired first, and reports the first failure. Tries all, whatever fails.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// Safe: the release goes on in the background.
    pub async fn release(self) -> Result<()> {
        let mut outcome = Ok(());
        for (_, guard) in self.guards.into_iter().rev() {
            outcome = outcome.and(guard.release().await);
        }
        outcome
    }

    fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.guards.iter().map(|(_, guard)| &**guard)
    }
}
