//! A gate that opens after so many have reported.

use std::time::Duration;

use coord_api::{Error, ErrorKind, IntoKey, Key, Result, Seen, Session};

use crate::planted::{Bug, planted};
use crate::{
    cell::{Cell, Changed, Decision},
    insist::insist,
    line::in_time,
};

/// A gate that opens, for good, once it was counted down as often as agreed.
///
/// Each [`CountDownLatch::count_down`] counts once, whatever happens to its reply, and stays counted when the caller
/// dies. Everybody who uses the latch must agree on the count. It begins to count with the first call; to use it again,
/// use another name, or delete the key while nobody uses it.
///
/// The directory `<name>.meta` is the latch's.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use std::time::Duration;
/// # use coord_recipes::CountDownLatch;
/// let session = store.session(Duration::from_secs(10)).await?;
/// let ready = CountDownLatch::new(&session, "/latches/warm", 2)?;
/// assert_eq!(ready.count_down().await?, 1);
/// assert_eq!(ready.count_down().await?, 0);
/// ready.wait().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct CountDownLatch {
    cell: Cell,
    session: Session,
    count: u32,
}

impl CountDownLatch {
    /// The latch at this key, for `session`. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the name is no key, or the count is 0.
    pub fn new(session: &Session, name: impl IntoKey, count: u32) -> Result<Self> {
        if count == 0 {
            return Err(Error::invalid("a latch counts down from at least 1"));
        }
        Ok(Self { cell: Cell::new(session, name.into_key()?)?, session: session.clone(), count })
    }

    /// The key of the latch.
    #[must_use]
    pub const fn name(&self) -> &Key {
        self.cell.key()
    }

    /// Counts down by one and returns what is left; an open latch stays open.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed) if the key holds something that is no count of this latch, with nothing
    /// changed; [`SessionLost`](ErrorKind::SessionLost) if the session ended first; ambiguous if the reply was lost and
    /// the store could not tell before the session ended, or more than 16 counts later. Lost connections are waited
    /// out.
    ///
    /// # Cancel safety
    /// If the future is dropped, it was counted once or not at all.
    pub async fn count_down(&self) -> Result<u32> {
        let changed = self.cell.change(|left| {
            Ok(match self.left(left)? {
                0 => Decision::Keep,
                left => Decision::Write(i64::from(left) - 1),
            })
        });
        match changed.await? {
            Changed::To(left) => self.left(Some(left)),
            Changed::Not(left) => self.left(left),
        }
    }

    /// How many are missing.
    ///
    /// # Errors
    /// As [`CountDownLatch::count_down`], but never ambiguous.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn count(&self) -> Result<u32> {
        self.left(self.cell.get().await?.map(|(left, _)| left))
    }

    /// Waits, however long, until the latch is open.
    ///
    /// # Errors
    /// As [`CountDownLatch::count`].
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn wait(&self) -> Result<()> {
        loop {
            let found = self.cell.get().await?;
            let seen = match found {
                Some((left, entry)) => {
                    if self.left(Some(left))? == 0 {
                        return Ok(());
                    }
                    Seen::Value(entry.key, entry.meta.modified)
                }
                None => Seen::Absent(self.name().clone()),
            };
            tokio::select! {
                biased;
                () = self.session.lost() => return self.session.ensure_valid(),
                woken = insist(&self.session, || self.session.coord().wait(&seen)) => woken?,
            }
            if planted(Bug::LatchTrustsWake) {
                return Ok(());
            }
        }
    }

    /// The same, but not longer than `timeout`; `false` if the time ran out. Zero means one look.
    ///
    /// # Errors
    /// As [`CountDownLatch::wait`].
    ///
    /// # Cancel safety
    /// As [`CountDownLatch::wait`].
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        if timeout.is_zero() {
            return self.count().await.map(|left| left == 0);
        }
        Ok(in_time(timeout, self.wait()).await?.is_some())
    }

    /// What is left, from the number in the store.
    fn left(&self, number: Option<i64>) -> Result<u32> {
        let Some(number) = number else { return Ok(self.count) };
        u32::try_from(number).ok().filter(|left| *left <= self.count).ok_or_else(|| {
            Error::new(ErrorKind::Malformed, "the key holds no count of this latch")
                .with_context("key", self.name())
                .with_context("found", number)
                .with_context("count", self.count)
        })
    }
}
