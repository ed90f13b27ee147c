//! Numbers that nobody gets twice.

use std::{ops::Range, str, sync::Arc};

use coord_api::{
    Coord, Error, ErrorKind, Freshness, IntoKey, Key, Lifetime, Result, Retry, Txn, TxnOutcome, kit::Backoff,
};
use tokio::sync::Mutex;

use crate::insist::RETRY_CAP;
use crate::planted::{Bug, planted};

/// How many ids are reserved at a time, if nothing else is said.
const BLOCK: u64 = 100;

/// Numbers that nobody gets twice: not another process, not this one after a restart or a crash.
///
/// Ids are reserved in blocks by compare and set and handed out from memory, so that most cost nothing. Within one
/// generator and its clones they grow; across processes they interleave by blocks. What a process has reserved and not
/// handed out is lost when it ends, so ids have gaps. The first id is 1.
///
/// The key must never be deleted or set back: ids would begin anew.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use coord_recipes::IdGenerator;
/// let ids = IdGenerator::new(&store, "/ids/orders")?.with_block(1000)?;
/// let (first, second) = (ids.next().await?, ids.next().await?);
/// assert!(second > first);
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct IdGenerator {
    coord: Coord,
    key: Key,
    block: u64,
    /// Held while a block is reserved: one reservation at a time, so that ids grow.
    reserved: Arc<Mutex<Range<u64>>>,
}

impl IdGenerator {
    /// The generator at this key, with blocks of 100. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the name is no key.
    pub fn new(coord: &Coord, name: impl IntoKey) -> Result<Self> {
        // The counter is read before each change: an old value would only be refused.
        let coord = coord.clone().with_freshness(Freshness::Latest);
        Ok(Self { coord, key: name.into_key()?, block: BLOCK, reserved: Arc::default() })
    }

    /// The same with blocks of `size` ids: larger means fewer round trips, and more ids lost with a process.
    ///
    /// Generators with different sizes may share a key.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the size is 0.
    pub fn with_block(mut self, size: u64) -> Result<Self> {
        if size == 0 {
            return Err(Error::invalid("a block holds at least one id").with_context("key", &self.key));
        }
        self.block = size;
        Ok(self)
    }

    /// The key of the generator.
    #[must_use]
    pub const fn name(&self) -> &Key {
        &self.key
    }

    /// The next id: larger than all that this generator and its clones gave before.
    ///
    /// # Errors
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) if no whole block is left below 2^64, and
    /// [`Malformed`](ErrorKind::Malformed) if the key holds something else or was set back, with nothing changed; as
    /// [`Coord::get`] if the store cannot be reached.
    ///
    /// # Cancel safety
    /// If the future is dropped, ids may be wasted, a block at most; none is given twice.
    pub async fn next(&self) -> Result<u64> {
        let mut reserved = self.reserved.lock().await;
        if reserved.is_empty() {
            *reserved = self.reserve(reserved.end).await?;
        }
        let id = reserved.start;
        reserved.start += 1;
        Ok(id)
    }

    /// A fresh block behind `known`, the end of the one before.
    async fn reserve(&self, known: u64) -> Result<Range<u64>> {
        let mut backoff = Backoff::new(RETRY_CAP);
        loop {
            let entry = self.coord.get(&self.key).await?;
            let start = match &entry {
                Some(entry) => str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok()),
                None => Some(1),
            };
            let start = start.filter(|start| *start >= known.max(1)).ok_or_else(|| {
                Error::new(
                    ErrorKind::Malformed,
                    "the key holds something else than the next id, or was set back",
                )
                .with_context("key", &self.key)
            })?;
            let end = start.checked_add(self.block).ok_or_else(|| {
                Error::new(ErrorKind::LimitExceeded, "the ids are used up")
                    .with_context("key", &self.key)
                    .with_context("next", start)
                    .with_context("block", self.block)
            })?;
            let txn = match entry {
                Some(entry) => {
                    Txn::new().check_version(&self.key, entry.meta.version).update(&self.key, end.to_string())
                }
                None => Txn::new().create(&self.key, end.to_string(), Lifetime::Persistent),
            };
            match self.coord.commit(txn).await {
                Ok(TxnOutcome::Committed(_)) => return Ok(start..end),
                // Somebody else was faster.
                Ok(TxnOutcome::Rejected(_)) => {}
                Err(error) if error.retry() == Retry::Ambiguous && planted(Bug::BlockOnHope) => {
                    return Ok(start..end);
                }
                // It may be ours, but only the reply would prove it: the block is wasted.
                Err(error) if error.retry() == Retry::Ambiguous => {}
                Err(error) => return Err(error),
            }
            backoff.sleep(&self.coord.runtime()).await;
        }
    }
}
