//! What holding means, for every recipe that lets some wait for others.

use std::sync::atomic::{AtomicBool, Ordering};

use coord_api::{
    Check, Error, ErrorKind, Failed, FencingToken, Freshness, Key, Rejection, Result, Revision, Seen,
    Session, Txn, TxnOutcome,
};
use tokio::time::Instant;

use crate::line::Place;
use crate::planted::{Bug, planted};

/// A place at the head of a line: what every guard has in common.
///
/// [`LockGuard`](crate::LockGuard) and the other guards dereference to it.
#[derive(Debug)]
pub struct Hold {
    place: Place,
    token: FencingToken,
    /// Set once our entry was seen to be gone while the session lived.
    entry_gone: AtomicBool,
}

impl Hold {
    pub(crate) fn new(mut place: Place) -> Self {
        let coord = place.session().coord();
        let token = if planted(Bug::TokenOfSession) {
            // Ids of sessions do not grow with the revisions.
            let id = place.session().id().as_str().bytes().fold(0, |id, byte| id * 256 + u64::from(byte));
            coord.fencing_token(Revision::new(id))
        } else {
            coord.fencing_token(place.created())
        };
        place.acquired(token);
        Self { place, token, entry_gone: AtomicBool::new(false) }
    }

    /// The fencing token: larger than that of every earlier holder, on every store (promise G1).
    ///
    /// Send it with every request to the resource that the lock protects, and let the resource refuse a token smaller
    /// than one it has seen. This alone protects against a holder that was frozen and does not know it yet.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The key of our entry in the store.
    #[must_use]
    pub const fn key(&self) -> &Key {
        self.place.key()
    }

    /// The session that holds.
    #[must_use]
    pub const fn session(&self) -> &Session {
        self.place.session()
    }

    /// Until when nobody else can be granted what we hold, unless the session is renewed before (promise G2).
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.session().valid_until()
    }

    /// Whether what we hold is surely still ours, by the local clock. Asks nobody and costs next to nothing.
    ///
    /// Never becomes `true` again (promise G3).
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.entry_gone.load(Ordering::Acquire)
            && (self.session().is_valid() || planted(Bug::GuardNeverExpires))
    }

    /// Resolves once it is lost: the session ended, its local deadline passed, or somebody deleted our entry.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use std::time::Duration;
    /// # use coord_recipes::Lock;
    /// # let session = store.session(Duration::from_secs(10)).await?;
    /// # let guard = Lock::new(&session, "/locks/orders")?.acquire().await?;
    /// # async fn work() {}
    /// tokio::select! {
    ///     () = work() => guard.release().await?,
    ///     () = guard.lost() => eprintln!("stop at once: somebody else may hold the lock"),
    /// }
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn lost(&self) {
        let coord = self.session().coord();
        let own = Seen::Exists(self.key().clone());
        if planted(Bug::LossUntold) {
            return std::future::pending().await;
        }
        loop {
            if !self.is_valid() {
                return;
            }
            tokio::select! {
                biased;
                () = self.session().lost() => return,
                woken = coord.wait(&own) => {
                    // Woken early or refused: only an answer of the store ends the lock.
                    if woken.is_err() || matches!(self.check().await, Err(e) if e.kind() != ErrorKind::LockLost) {
                        tokio::time::sleep(self.session().ttl() / 10).await;
                    }
                }
            }
        }
    }

    /// Asks the store whether our entry still stands.
    ///
    /// True when the store answered; it may be false when the answer arrives. For writes into the same store
    /// use [`Hold::commit`], for others the token.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost) or [`SessionLost`](ErrorKind::SessionLost) if the lock is lost; others if the
    /// store could not be asked.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn check(&self) -> Result<()> {
        self.session().ensure_valid()?;
        let coord = self.session().coord().clone().with_freshness(Freshness::Latest);
        match coord.get(self.key()).await? {
            Some(entry) if entry.meta.created == self.place.created() => Ok(()),
            _ => Err(self.found_gone()),
        }
    }

    /// The condition that makes a transaction apply only while this guard holds.
    #[must_use]
    pub fn condition(&self) -> Check {
        self.place.stands()
    }

    /// Commits a transaction that applies only while this guard holds: a stale holder changes nothing.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use std::time::Duration;
    /// # use coord_api::Txn;
    /// # use coord_recipes::Lock;
    /// # let session = store.session(Duration::from_secs(10)).await?;
    /// let guard = Lock::new(&session, "/locks/orders")?.acquire().await?;
    /// guard.commit(Txn::new().put("/orders/next", "8")).await?;
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost) if our entry is gone, with nothing applied; else as
    /// [`Coord::commit`](coord_api::Coord::commit).
    ///
    /// # Cancel safety
    /// As [`Coord::commit`](coord_api::Coord::commit): a transaction that was sent may be applied, while the guard
    /// holds.
    pub async fn commit(&self, txn: Txn) -> Result<TxnOutcome> {
        commit_while(&[self], txn).await
    }

    /// Leaves the line and reports; goes on in the background if the future is dropped. Holds no more from here on.
    pub(crate) async fn release(&self) -> Result<()> {
        self.entry_gone.store(true, Ordering::Release);
        self.place.released();
        self.place.leave().await
    }

    /// The store showed that our entry is gone.
    fn found_gone(&self) -> Error {
        self.entry_gone.store(true, Ordering::Release);
        self.place.lost();
        Error::new(ErrorKind::LockLost, "the lock is lost: its entry is gone from the store")
            .with_context("key", self.key())
    }
}

/// Commits a transaction that applies only while all of `holds` hold.
pub(crate) async fn commit_while(holds: &[&Hold], txn: Txn) -> Result<TxnOutcome> {
    let Some(first) = holds.first() else { return Err(Error::invalid("nothing is held")) };
    for hold in holds {
        hold.session().ensure_valid()?;
    }
    let theirs = txn.checks().len();
    if planted(Bug::CommitUnguarded) {
        return first.session().coord().commit(txn).await;
    }
    let txn = holds.iter().fold(txn, |txn, hold| txn.check(hold.condition()));
    match first.session().coord().commit(txn).await? {
        TxnOutcome::Rejected(Rejection { failed: Some(Failed::Check(at)), .. }) if at >= theirs => {
            let hold = holds.get(at - theirs).unwrap_or(first);
            Err(hold.found_gone())
        }
        TxnOutcome::Rejected(rejection) if rejection.failed.is_none() => {
            // The store does not tell which condition failed: find out whether it was one of ours.
            for hold in holds {
                hold.check().await?;
            }
            Ok(TxnOutcome::Rejected(rejection))
        }
        outcome => Ok(outcome),
    }
}
