//! A fair, fenced, exclusive lock.

use std::time::Duration;

use bytes::Bytes;
use coord_api::{Child, Dir, Error, IntoDir, Result, Session, Tag};

use crate::{
    LockGuard,
    queue::{Verdict, join},
};

/// The tag of lock entries: Curator's, whose locks look for exactly this text on ZooKeeper.
const TAG: &str = "lock-";

/// A fair, fenced, exclusive lock.
///
/// Waiters are served in the order in which the store received them, and each waits for the one ahead alone. The lock
/// is not re-entrant: acquiring it twice with one session waits for the first guard. The directory of the lock is the
/// lock's alone. On ZooKeeper it is one with Curator's `InterProcessMutex`, on etcd with `etcdctl lock` and
/// `concurrency.Mutex`: programs that use those and this exclude each other.
///
/// A lock in a distributed system can be lost while its holder works: watch [`LockGuard::lost`], and give
/// [`LockGuard::token`] to the resource so that it can refuse a holder from the past.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use std::time::Duration;
/// # use coord_recipes::Lock;
///
/// let session = store.session(Duration::from_secs(10)).await?;
/// let lock = Lock::new(&session, "/locks/orders")?;
///
/// let guard = lock.acquire().await?;
/// println!("ours, with token {}", guard.token());
/// assert!(lock.try_acquire().await?.is_none(), "it is taken");
/// guard.release().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    session: Session,
    dir: Dir,
    tag: Tag,
}

impl Lock {
    /// The lock of this name, for `session`. Talks to nobody.
    ///
    /// Warns once in the log if the store can lose acknowledged writes, since then only the token protects.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no directory, or the root.
    pub fn new(session: &Session, name: impl IntoDir) -> Result<Self> {
        let dir = name.into_dir()?;
        if dir.is_root() {
            return Err(Error::invalid("a lock needs a directory of its own, not the root"));
        }
        session.coord().warn_if_exclusion_is_weak();
        Ok(Self { session: session.clone(), dir, tag: Tag::new(TAG)? })
    }

    /// The directory of the lock.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        &self.dir
    }

    /// Joins the line and waits until the lock is ours, however long.
    ///
    /// # Errors
    /// [`SessionLost`](coord_api::ErrorKind::SessionLost) as soon as the session ends, also while others still hold
    /// the lock; [`LockLost`](coord_api::ErrorKind::LockLost) if somebody deleted our entry; what the store refuses
    /// for good. Lost connections are waited out.
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the line, also if the store had not answered yet.
    pub async fn acquire(&self) -> Result<LockGuard> {
        let mut place = join(&self.session, &self.dir, &self.tag, Bytes::new()).await?;
        place.turn(first_in_line).await?;
        Ok(LockGuard::new(place))
    }

    /// Takes the lock if nobody has it or waits for it; `None` if somebody does. Leaves nothing in the line then.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        let mut place = join(&self.session, &self.dir, &self.tag, Bytes::new()).await?;
        match place.verdict(first_in_line).await? {
            Verdict::Granted => Ok(Some(LockGuard::new(place))),
            Verdict::Behind(_) => {
                place.leave().await?;
                Ok(None)
            }
        }
    }

    /// Waits for the lock, but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<LockGuard>> {
        if timeout.is_zero() {
            return self.try_acquire().await;
        }
        match tokio::time::timeout(timeout, self.acquire()).await {
            Ok(acquired) => acquired.map(Some),
            Err(_) => Ok(None),
        }
    }
}

/// The lock is with the first in line; everybody else waits for the one ahead.
fn first_in_line(line: &[Child], at: usize) -> Verdict {
    match at.checked_sub(1).map(|ahead| &line[ahead]) {
        None => Verdict::Granted,
        Some(ahead) => Verdict::Behind(ahead.key.clone()),
    }
}
