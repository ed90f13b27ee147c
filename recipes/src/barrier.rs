//! A gate that holds everybody until it is opened.

use std::time::Duration;

use coord_api::{Coord, Freshness, IntoKey, Key, Lifetime, Result, Retry, Seen, kit::Backoff};

use crate::planted::{Bug, planted};
use crate::{insist::RETRY_CAP, line::in_time};

/// A gate that holds everybody who comes while it is set, and lets all of them go when it is removed.
///
/// The barrier is one key, as Curator's `DistributedBarrier` has it: set while the key is there. It stays set when
/// whoever set it dies.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use coord_recipes::Barrier;
/// let barrier = Barrier::new(&store, "/barriers/migration")?;
/// barrier.set().await?;
/// // Everybody else waits: `barrier.wait().await?`
/// barrier.remove().await?;
/// barrier.wait().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    /// Reads are latest: who comes after the barrier was set must see it.
    coord: Coord,
    key: Key,
}

impl Barrier {
    /// The barrier at this key. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no key.
    pub fn new(coord: &Coord, name: impl IntoKey) -> Result<Self> {
        Ok(Self { coord: coord.clone().with_freshness(Freshness::Latest), key: name.into_key()? })
    }

    /// The key of the barrier.
    #[must_use]
    pub const fn name(&self) -> &Key {
        &self.key
    }

    /// Sets the barrier: from now on everybody waits. `false` if it was set already.
    ///
    /// # Errors
    /// As [`Coord::create`]. If it is ambiguous, look at [`Barrier::is_set`]: set again, it might be set after somebody
    /// removed it.
    ///
    /// # Cancel safety
    /// If the future is dropped, the barrier was set or not.
    pub async fn set(&self) -> Result<bool> {
        Ok(self.coord.create(&self.key, "", Lifetime::Persistent).await?.is_some())
    }

    /// Removes the barrier: everybody goes. `false` if it was not set.
    ///
    /// # Errors
    /// As [`Coord::delete`]. If it is ambiguous, look at [`Barrier::is_set`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the barrier was removed or not.
    pub async fn remove(&self) -> Result<bool> {
        self.coord.delete(&self.key).await
    }

    /// Whether the barrier is set, as of now.
    ///
    /// # Errors
    /// As [`Coord::get`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn is_set(&self) -> Result<bool> {
        Ok(self.coord.get(&self.key).await?.is_some())
    }

    /// Waits, however long, until the barrier is not set; at once if it is not.
    ///
    /// # Errors
    /// What the store refuses for good. Lost connections are waited out.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn wait(&self) -> Result<()> {
        let (mut backoff, seen) = (Backoff::new(RETRY_CAP), Seen::Exists(self.key.clone()));
        loop {
            let waited = match self.is_set().await {
                Ok(false) => return Ok(()),
                Ok(true) => self.coord.wait(&seen).await,
                Err(error) => Err(error),
            };
            match waited {
                Ok(()) if planted(Bug::BarrierTrustsWake) => return Ok(()),
                Ok(()) => backoff.reset(),
                Err(error) if error.retry() == Retry::Never => return Err(error),
                Err(_) => backoff.sleep(&self.coord.runtime()).await,
            }
        }
    }

    /// The same, but not longer than `timeout`; `false` if the time ran out. Zero means one look.
    ///
    /// # Errors
    /// As [`Barrier::wait`].
    ///
    /// # Cancel safety
    /// As [`Barrier::wait`].
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        if timeout.is_zero() {
            return self.is_set().await.map(|set| !set);
        }
        Ok(in_time(timeout, self.wait()).await?.is_some())
    }
}
