//! A fair, fenced, exclusive lock.

use std::time::Duration;

use bytes::Bytes;
use coord_api::{Dir, IntoDir, Result, Session, events::Recipe};

use crate::{
    guard::guard,
    line::{Line, first_in_line},
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
/// A lock in a distributed system can be lost while its holder works: watch [`lost`](crate::Hold::lost), and give
/// [`token`](crate::Hold::token) to the resource so that it can refuse a holder from the past.
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
    line: Line,
}

impl Lock {
    /// The lock of this name, for `session`. Talks to nobody.
    ///
    /// Warns once in the log if the store can lose acknowledged writes, since then only the token protects.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no directory, or the root.
    pub fn new(session: &Session, name: impl IntoDir) -> Result<Self> {
        Ok(Self { line: Line::new(session, name, TAG)?.told_as(Recipe::Lock) })
    }

    /// The directory of the lock.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        self.line.dir()
    }

    pub(crate) const fn session(&self) -> &Session {
        self.line.session()
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
        self.line.enter(Bytes::new(), first_in_line).await.map(LockGuard::new)
    }

    /// Takes the lock if nobody has it or waits for it; `None` if somebody does. Leaves nothing in the line then.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        Ok(self.line.try_enter(Bytes::new(), first_in_line).await?.map(LockGuard::new))
    }

    /// Waits for the lock, but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<LockGuard>> {
        Ok(self.line.enter_timeout(Bytes::new(), first_in_line, timeout).await?.map(LockGuard::new))
    }
}

guard! {
    /// A held lock.
    LockGuard
}
