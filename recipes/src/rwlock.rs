//! A fair, fenced lock that readers share.

use std::time::Duration;

use bytes::Bytes;
use coord_api::{
    Child, Dir, Error, ErrorKind, Freshness, IntoDir, Result, Seen, Session, Txn, events::Recipe,
};

use crate::planted::{Bug, planted};
use crate::{
    guard::guard,
    insist::insist,
    line::{Line, Place, Rule, Verdict, first_in_line, in_time},
};

/// The tags of Curator's read/write lock, whose entries share one line as ours do.
const READ: &str = "__READ__";
const WRITE: &str = "__WRIT__";

/// The value of a writer's entry that reads from now on.
const DOWNGRADED: &[u8] = READ.as_bytes();

/// A fair, fenced lock: many readers at once, or one writer.
///
/// One line for both, in the order in which the store received them: readers that stand next to each other share, and
/// nobody overtakes, so that neither readers nor writers starve. A reader waits for the nearest writer ahead, a writer
/// for whoever is ahead. On ZooKeeper the entries are those of Curator's `InterProcessReadWriteLock`.
///
/// It is not re-entrant, also not from write to read: [`WriteGuard::downgrade`] does that. A reader cannot become a
/// writer, because two who tried would wait for each other for ever: give up reading, acquire for writing, and look
/// again at what was read.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use std::time::Duration;
/// # use coord_recipes::RwLock;
/// # let session = store.session(Duration::from_secs(10)).await?;
/// let lock = RwLock::new(&session, "/locks/catalogue")?;
///
/// let (one, other) = (lock.read().await?, lock.read().await?);
/// assert!(lock.try_write().await?.is_none(), "two are reading");
/// one.release().await?;
/// other.release().await?;
///
/// let writing = lock.write().await?;
/// let reading = writing.downgrade().await?;
/// assert!(lock.try_read().await?.is_some(), "others may read again");
/// reading.release().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    read: Line,
    write: Line,
}

impl RwLock {
    /// The lock of this name, for `session`. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the name is no directory, or the root.
    pub fn new(session: &Session, name: impl IntoDir) -> Result<Self> {
        let dir = name.into_dir()?;
        let read = Line::new(session, &dir, READ)?.told_as(Recipe::ReadLock);
        let write = Line::new(session, &dir, WRITE)?.told_as(Recipe::WriteLock);
        Ok(Self { read, write })
    }

    /// The directory of the lock.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        self.write.dir()
    }

    /// Joins the line and waits until no writer is ahead, however long.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the line, also if the store had not answered yet.
    pub async fn read(&self) -> Result<ReadGuard> {
        let place = self.read.join(Bytes::new()).await?;
        place.hold(&Reader).await.map(ReadGuard::new)
    }

    /// Reads if no writer has the lock or waits for it; `None` if one does. Leaves nothing in the line then.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        let place = self.read.join(Bytes::new()).await?;
        Ok(place.try_hold(&Reader).await?.map(ReadGuard::new))
    }

    /// Waits until no writer is ahead, but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn read_timeout(&self, timeout: Duration) -> Result<Option<ReadGuard>> {
        if timeout.is_zero() { self.try_read().await } else { in_time(timeout, self.read()).await }
    }

    /// Joins the line and waits until nobody is ahead, however long.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn write(&self) -> Result<WriteGuard> {
        if planted(Bug::WriterPassesReaders) {
            return self.write.enter(Bytes::new(), first_writer).await.map(WriteGuard::new);
        }
        self.write.enter(Bytes::new(), first_in_line).await.map(WriteGuard::new)
    }

    /// Writes if nobody has the lock or waits for it; `None` if somebody does. Leaves nothing in the line then.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        Ok(self.write.try_enter(Bytes::new(), first_in_line).await?.map(WriteGuard::new))
    }

    /// Waits until nobody is ahead, but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`RwLock::write`].
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn write_timeout(&self, timeout: Duration) -> Result<Option<WriteGuard>> {
        Ok(self.write.enter_timeout(Bytes::new(), first_in_line, timeout).await?.map(WriteGuard::new))
    }
}

/// Lets a reader pass when no writer is ahead of it.
struct Reader;

/// The bug [`Bug::WriterPassesReaders`].
fn first_writer(line: &[Child], at: usize) -> Verdict {
    let writes = |child: &&Child| child.tag.as_ref().is_some_and(|tag| tag.as_str() == WRITE);
    match line[..at].iter().rfind(writes) {
        None => Verdict::Granted,
        Some(ahead) => Verdict::Behind(vec![ahead.key.clone()]),
    }
}

impl Rule for Reader {
    async fn judge(&self, place: &Place, line: &[Child], at: usize) -> Result<Verdict> {
        for ahead in line[..at].iter().rev() {
            match ahead.tag.as_ref().map(coord_api::Tag::as_str) {
                Some(READ) => {}
                Some(WRITE) if planted(Bug::ReaderPassesWriters) => {}
                // Latest: an older view may not show the writer yet, and would let us past it.
                Some(WRITE) => match place.read(&ahead.key, Freshness::Latest).await? {
                    Some(writer) if writer.value != DOWNGRADED => {
                        return Ok(Verdict::Until(vec![Seen::Value(
                            ahead.key.clone(),
                            writer.meta.modified,
                        )]));
                    }
                    _ => {}
                },
                // Not ours: whatever it is, it was here first.
                _ => return Ok(Verdict::Behind(vec![ahead.key.clone()])),
            }
        }
        Ok(Verdict::Granted)
    }
}

guard! {
    /// Permission to read, shared with other readers.
    ///
    /// Its token is larger than that of every writer before it, and smaller than that of every writer after it. Tokens
    /// of readers that share are in the order in which they joined.
    ReadGuard
}

guard! {
    /// Permission to write, alone.
    WriteGuard
}

impl WriteGuard {
    /// Goes on as a reader, with the same token and the same place: no writer gets in between, and the readers that
    /// wait next in line may join. One round trip.
    ///
    /// Tries until the store confirms or the session is over. A reader of Curator does not see the change and goes on
    /// waiting until this guard is released.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost) or [`SessionLost`](ErrorKind::SessionLost) if the lock is lost. With any error
    /// the lock is given up.
    ///
    /// # Cancel safety
    /// Safe, but not without effect: dropping the future gives up the lock, as dropping the guard does.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let Self { hold } = self;
        hold.session().ensure_valid()?;
        // A repeated change finds the entry as it should be, so it may be sent again after a lost reply.
        let step = || match planted(Bug::DowngradeReleases) {
            true => Txn::new().delete(hold.key()),
            false => Txn::new().update(hold.key(), DOWNGRADED),
        };
        let change = || hold.session().coord().commit(step());
        if insist(hold.session(), change).await?.is_committed() {
            // The reply may be older than the end of our session, as after a freeze.
            hold.session().ensure_valid()?;
            Ok(ReadGuard::new(hold))
        } else {
            Err(Error::new(ErrorKind::LockLost, "the lock is lost: its entry is gone from the store")
                .with_context("key", hold.key()))
        }
    }
}
