//! A number that many change.

use coord_api::{Error, ErrorKind, IntoKey, Key, Result, Session};

use crate::cell::{Cell, Changed, Decision};

/// A number that many change at once, each change counted once.
///
/// A change is one read and one compare and set. Who is too slow a few times stands in line for the next try, so that
/// many who change it at once all get their turn. A change whose reply was lost is looked for in the store, and
/// reported as ambiguous only if that cannot tell any more; it is never made twice.
///
/// An absent counter is 0. Others may read the key (the number is the text up to the first space) and may write a plain
/// number to it while nobody changes the counter. Do not delete the key while somebody does: where versions begin anew
/// then (ZooKeeper), a change made on what was there before may be applied. The directory `<name>.meta` is the counter's.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use std::time::Duration;
/// # use coord_recipes::Counter;
/// let session = store.session(Duration::from_secs(10)).await?;
/// let orders = Counter::new(&session, "/counters/orders")?;
/// assert_eq!(orders.add(5).await?, 5);
/// assert_eq!(orders.add(-2).await?, 3);
/// assert!(orders.compare_and_set(3, 100).await?);
/// assert_eq!(orders.get().await?, 100);
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Counter {
    cell: Cell,
}

impl Counter {
    /// The counter at this key, for `session`. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the name is no key.
    pub fn new(session: &Session, name: impl IntoKey) -> Result<Self> {
        Ok(Self { cell: Cell::new(session, name.into_key()?)? })
    }

    /// The key of the counter.
    #[must_use]
    pub const fn name(&self) -> &Key {
        self.cell.key()
    }

    /// The number, with every change that was acknowledged to anybody; 0 if it is absent.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed) if the key holds something else;
    /// [`SessionLost`](ErrorKind::SessionLost) if the session ended first. Lost connections are waited out.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn get(&self) -> Result<i64> {
        Ok(self.cell.get().await?.map_or(0, |(value, _)| value))
    }

    /// Adds `delta`, which may be negative, and returns the new number.
    ///
    /// # Errors
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) if the number would not fit 64 bits with sign, and
    /// [`Malformed`](ErrorKind::Malformed) if the key holds something else, with nothing changed;
    /// [`SessionLost`](ErrorKind::SessionLost) if the session ended first; ambiguous if the reply was lost and the
    /// store could not tell before the session ended, or more than 16 changes later. Lost connections are waited out.
    ///
    /// # Cancel safety
    /// If the future is dropped, the change was made once or not at all.
    pub async fn add(&self, delta: i64) -> Result<i64> {
        let changed = self.cell.change(|value| {
            let value = value.unwrap_or(0);
            match value.checked_add(delta) {
                Some(sum) => Ok(Decision::Write(sum)),
                None => Err(Error::new(ErrorKind::LimitExceeded, "the counter would overflow")
                    .with_context("key", self.name())
                    .with_context("value", value)
                    .with_context("delta", delta)),
            }
        });
        match changed.await? {
            Changed::To(value) => Ok(value),
            Changed::Not(value) => Ok(value.unwrap_or(0)),
        }
    }

    /// Sets the number, whatever it was.
    ///
    /// # Errors
    /// As [`Counter::add`], but nothing overflows.
    ///
    /// # Cancel safety
    /// As [`Counter::add`].
    pub async fn set(&self, value: i64) -> Result<()> {
        self.cell.change(|_| Ok(Decision::Write(value))).await.map(drop)
    }

    /// Sets the number if it is `expected`; `false` if it is not.
    ///
    /// # Errors
    /// As [`Counter::set`].
    ///
    /// # Cancel safety
    /// As [`Counter::add`].
    pub async fn compare_and_set(&self, expected: i64, value: i64) -> Result<bool> {
        let changed = self.cell.change(|now| {
            Ok(if now.unwrap_or(0) == expected { Decision::Write(value) } else { Decision::Keep })
        });
        Ok(matches!(changed.await?, Changed::To(_)))
    }
}
