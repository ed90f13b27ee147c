//! A lock that its owner may take again.

mod entry;

use std::{ops::Deref, sync::Arc, time::Duration};

use coord_api::{Dir, Error, ErrorKind, IntoDir, Result, Session, events::Recipe};

use self::entry::{Claim, End, Entries, Entry};
use crate::{
    Hold,
    line::{Line, in_time},
};

pub use self::entry::Owner;
use crate::planted::{Bug, planted};

/// The tag of lock entries, so that this lock and [`Lock`](crate::Lock) exclude each other.
const TAG: &str = "lock-";

/// A fair, fenced lock that its owner may take again while it has it.
///
/// Who owns is a value, an [`Owner`], and never the task or thread that calls: hand it to whoever acts for the same
/// owner. Each acquire gives a guard, each guard gives up one hold, and with the last the lock is free. Clones of the
/// lock know the same owners; another lock object, also of the same name and session, does not, and its owners wait.
/// Different owners wait for each other in the order in which the store received them. In the store it is an ordinary
/// lock: [`Lock`](crate::Lock) of the same name and this exclude each other.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use std::time::Duration;
/// # use coord_recipes::{Owner, ReentrantLock};
/// # let session = store.session(Duration::from_secs(10)).await?;
/// let lock = ReentrantLock::new(&session, "/locks/orders")?;
/// let (me, you) = (Owner::unique(), Owner::named("night job"));
///
/// let outer = lock.acquire(&me).await?;
/// let inner = lock.acquire(&me).await?;
/// assert_eq!(lock.count(&me), 2);
/// inner.release().await?;
/// assert!(lock.try_acquire(&you).await?.is_none(), "still mine");
/// outer.release().await?;
/// assert!(lock.try_acquire(&you).await?.is_some());
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantLock {
    line: Line,
    entries: Entries,
}

impl ReentrantLock {
    /// The lock of this name, for `session`. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the name is no directory, or the root.
    pub fn new(session: &Session, name: impl IntoDir) -> Result<Self> {
        Ok(Self { line: Line::new(session, name, TAG)?.told_as(Recipe::Lock), entries: Entries::default() })
    }

    /// The directory of the lock.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        self.line.dir()
    }

    /// Adds a hold if `owner` has the lock; joins the line and waits for it if not, however long.
    ///
    /// Acquires of one owner that wait at the same time share one entry in the line. Adding a hold asks nobody.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the line, unless another acquire of the same owner still waits, which goes on
    /// in the same place.
    pub async fn acquire(&self, owner: &Owner) -> Result<ReentrantGuard> {
        loop {
            let entry = self.entries.of(owner);
            let hold = match entry.hold() {
                Some(hold) => hold,
                None => entry.turn(&self.line).await?,
            };
            // Lost while we waited for others of the same owner? Then begin anew.
            if hold.is_valid() {
                return Ok(ReentrantGuard::new(owner, &entry, hold));
            }
        }
    }

    /// Adds a hold if `owner` has the lock, or takes it if nobody has it or waits for it; `None` if not. Leaves nothing
    /// in the line then.
    ///
    /// # Errors
    /// As [`ReentrantLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`ReentrantLock::acquire`].
    pub async fn try_acquire(&self, owner: &Owner) -> Result<Option<ReentrantGuard>> {
        loop {
            let entry = self.entries.of(owner);
            let hold = match entry.hold() {
                Some(hold) => hold,
                None => match entry.try_turn(&self.line).await? {
                    Some(hold) => hold,
                    None => return Ok(None),
                },
            };
            // Lost or given up meanwhile? Then begin anew.
            if hold.is_valid() {
                return Ok(Some(ReentrantGuard::new(owner, &entry, hold)));
            }
        }
    }

    /// As [`ReentrantLock::acquire`], but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`ReentrantLock::acquire`].
    ///
    /// # Cancel safety
    /// As [`ReentrantLock::acquire`].
    pub async fn acquire_timeout(&self, owner: &Owner, timeout: Duration) -> Result<Option<ReentrantGuard>> {
        if timeout.is_zero() {
            return self.try_acquire(owner).await;
        }
        in_time(timeout, self.acquire(owner)).await
    }

    /// Whether `owner` has the lock, as far as can be told without asking the store.
    #[must_use]
    pub fn holds(&self, owner: &Owner) -> bool {
        self.count(owner) > 0
    }

    /// How many holds `owner` has; zero if it does not have the lock, or has lost it.
    #[must_use]
    pub fn count(&self, owner: &Owner) -> usize {
        self.entries.held_by(owner).map_or(0, |entry| entry.holds())
    }

    /// Gives up all holds of `owner` at once and reports; the guards that are left hold nothing from here on.
    ///
    /// # Errors
    /// [`NotHolder`](ErrorKind::NotHolder) if `owner` does not have the lock, with nothing changed; else as
    /// [`ReentrantGuard::release`].
    ///
    /// # Cancel safety
    /// Safe: the release goes on in the background.
    pub async fn release_all(&self, owner: &Owner) -> Result<()> {
        match self.entries.held_by(owner).and_then(|entry| entry.give_up()) {
            Some(hold) => hold.release().await,
            None => Err(not_holder(owner)),
        }
    }
}

fn not_holder(owner: &Owner) -> Error {
    Error::new(ErrorKind::NotHolder, "this owner does not hold the lock").with_context("owner", owner)
}

/// One hold of a lock that its owner may have several of.
///
/// Ends by [`ReentrantGuard::release`], or when it is dropped; the last one frees the lock. All holds of an owner are
/// one entry in the store, with one token and one fate: what a guard can do meanwhile is in [`Hold`].
#[derive(Debug)]
#[must_use = "dropping the guard gives up its hold: bind it to a name (`let guard`); `let _` drops it at once"]
pub struct ReentrantGuard {
    owner: Owner,
    hold: Arc<Hold>,
    claim: Claim,
}

impl ReentrantGuard {
    fn new(owner: &Owner, entry: &Arc<Entry>, hold: Arc<Hold>) -> Self {
        Self { owner: owner.clone(), hold, claim: Claim::new(entry) }
    }

    /// Who holds.
    #[must_use]
    pub const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Gives up this hold, and reports; frees the lock if it was the owner's last.
    ///
    /// The last one tries until the store confirms or the session is over, also if the future is dropped. The others
    /// ask nobody.
    ///
    /// # Errors
    /// [`NotHolder`](ErrorKind::NotHolder) if [`ReentrantLock::release_all`] was faster;
    /// [`SessionLost`](ErrorKind::SessionLost) and the like if the store did not confirm before the session ended.
    ///
    /// # Cancel safety
    /// Safe: the release goes on in the background.
    pub async fn release(self) -> Result<()> {
        let Self { owner, hold, claim } = self;
        match claim.end() {
            End::GivenUpBefore => Err(not_holder(&owner)),
            End::Last => hold.release().await,
            End::OthersHold if planted(Bug::FirstReleaseFrees) => hold.release().await,
            End::OthersHold => Ok(()),
        }
    }
}

impl Deref for ReentrantGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
