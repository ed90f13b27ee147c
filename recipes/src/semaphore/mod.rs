//! A fair semaphore whose permits go with their session.

mod limit;
mod rule;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use coord_api::{Child, Dir, Error, ErrorKind, IntoDir, Lifetime, Result, Revision, Session, events::Recipe};

use self::{
    limit::Limit,
    rule::{LEASE, Lease, mark, marked},
};
use crate::{
    guard::guard,
    insist::insist,
    line::{Line, in_time},
    planted::{Bug, planted},
};

/// A fair semaphore: as many permits at once as its users agreed on, and no more.
///
/// First come, first served, also where somebody wants several permits: nobody overtakes, so that a large request is
/// not starved by small ones. A permit goes back when it is released or dropped, or when its session ends.
///
/// The number of permits is agreed in the store, in `<name>.meta/permits`, by whoever opens the semaphore first; the
/// directory `<name>.meta` is reserved for that. Others must open it with the same number. [`Semaphore::resize`]
/// changes it for all.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use std::time::Duration;
/// # use coord_recipes::Semaphore;
/// # let session = store.session(Duration::from_secs(10)).await?;
/// let uploads = Semaphore::open(&session, "/limits/uploads", 3).await?;
///
/// let one = uploads.acquire().await?;
/// let two = uploads.acquire_many(2).await?;
/// assert!(uploads.try_acquire().await?.is_none(), "all three are out");
/// two.release().await?;
/// assert!(uploads.try_acquire().await?.is_some());
/// one.release().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    line: Line,
    limit: Arc<Limit>,
}

impl Semaphore {
    /// The semaphore of this name with `permits` permits, for `session`; agrees on the number if nobody did before.
    ///
    /// One round trip if the semaphore is there, three if it is new.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if `permits` is zero or is not the number agreed on (the error
    /// shows both), or the name is no directory, or the root; [`Malformed`](ErrorKind::Malformed) if something else
    /// stands where the number should. Nothing is changed then.
    ///
    /// # Cancel safety
    /// Safe: the number may have been agreed on.
    pub async fn open(session: &Session, name: impl IntoDir, permits: u32) -> Result<Self> {
        let permits = at_least_one(permits)?;
        let line = Line::new(session, name, LEASE)?.told_as(Recipe::Permit);
        let limit = Limit::agree(session, line.dir(), permits).await?;
        Ok(Self { line, limit: Arc::new(limit) })
    }

    /// The directory of the semaphore.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        self.line.dir()
    }

    /// How many permits there are, by a latest read.
    ///
    /// # Errors
    /// As [`Coord::get`](coord_api::Coord::get), and [`Malformed`](ErrorKind::Malformed) if the number is gone.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn permits(&self) -> Result<u32> {
        self.limit.latest(self.line.session()).await
    }

    /// Joins the line and waits for a permit, however long.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the line, also if the store had not answered yet.
    pub async fn acquire(&self) -> Result<Permit> {
        self.acquire_many(1).await
    }

    /// Takes a permit if one is free and nobody waits; `None` if not. Leaves nothing in the line then.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1).await
    }

    /// Waits for a permit, but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.acquire_many_timeout(1, timeout).await
    }

    /// Waits for `count` permits at once, however long: all of them or none.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`]; [`InvalidArgument`](ErrorKind::InvalidArgument) if `count` is zero, and
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) if there are not so many permits, or are no more while it waits.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire_many(&self, count: u32) -> Result<Permit> {
        let lease = self.lease(count).await?;
        let place = self.line.join_as(lease.tag()?, Bytes::new(), Lifetime::Session).await?;
        place.hold(&lease).await.map(Permit::new)
    }

    /// Takes `count` permits if so many are free and nobody waits; `None` if not.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>> {
        let lease = self.lease(count).await?;
        let place = self.line.join_as(lease.tag()?, Bytes::new(), Lifetime::Session).await?;
        Ok(place.try_hold(&lease).await?.map(Permit::new))
    }

    /// Waits for `count` permits, but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire_many_timeout(&self, count: u32, timeout: Duration) -> Result<Option<Permit>> {
        if timeout.is_zero() {
            return self.try_acquire_many(count).await;
        }
        in_time(timeout, self.acquire_many(count)).await
    }

    /// Changes how many permits there are, for all users.
    ///
    /// More permits: those who wait get them at once. Fewer: nobody loses a permit; who joins after this returned is
    /// granted only what the new number allows, and who waited before learns of it with the next look at the line. Of
    /// two changes at once the later one stands.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for zero, with nothing changed; otherwise the store's, and then
    /// some users may know the new number and others not until it is changed again.
    ///
    /// # Cancel safety
    /// Safe: the change goes on in the background.
    pub async fn resize(&self, permits: u32) -> Result<()> {
        let permits = at_least_one(permits)?;
        let this = self.clone();
        let change = async move {
            let changed = this.limit.change(this.line.session(), permits).await?;
            if planted(Bug::ResizeUnmarked) {
                return Ok(());
            }
            this.mark(changed).await
        };
        self.line.session().coord().runtime().run(change).await
    }

    /// Puts a mark into the line, by which everybody who joins behind it knows that the number has changed.
    ///
    /// The mark stays; those of earlier changes go.
    async fn mark(&self, changed: Revision) -> Result<()> {
        let place = self.line.join_as(mark(changed)?, Bytes::new(), Lifetime::Persistent).await?;
        place.stay();
        let (session, coord) = (self.line.session(), self.line.session().coord());
        let line = insist(session, || coord.list(self.line.dir())).await?;
        let earlier = |child: &Child| marked(child).is_some_and(|of| of < changed);
        for old in line.children.into_iter().filter(earlier) {
            insist(session, || coord.delete(&old.key)).await?;
        }
        Ok(())
    }

    /// The rule for so many permits. Refuses what cannot be granted before an entry is made for it.
    async fn lease(&self, count: u32) -> Result<Lease<'_>> {
        let count = at_least_one(count)?;
        if count > self.limit.known().permits {
            let permits = self.permits().await?;
            if count > permits {
                return Err(too_many(count, permits));
            }
        }
        Ok(Lease { limit: &self.limit, count })
    }
}

fn at_least_one(permits: u32) -> Result<u32> {
    if permits == 0 {
        return Err(Error::invalid("a number of permits is at least one"));
    }
    Ok(permits)
}

fn too_many(count: u32, permits: u32) -> Error {
    Error::new(ErrorKind::LimitExceeded, "the semaphore does not have so many permits")
        .with_context("asked", count)
        .with_context("permits", permits)
}

guard! {
    /// One or several permits.
    ///
    /// Tokens grow in the order of the line: who stands behind has the larger token.
    Permit
}
