//! Asking the holder of a lock to give it back.

use coord_api::{Freshness, Key, Result, Seen, Session, Txn};

use crate::{Lock, LockGuard, insist::insist};

/// What is written into the holder's entry: Curator's word, so that its revokers and ours understand each other.
const REVOKE: &str = "__REVOKE__";

impl Lock {
    /// Asks whoever has the lock now to give it back; `false` if nobody has it. Two round trips.
    ///
    /// Only asks: the holder sees it in [`LockGuard::revocation_requested`] and decides. Nothing is taken from it, and
    /// who comes next is not asked. Does not need to wait for the lock oneself.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use std::time::Duration;
    /// # use coord_recipes::Lock;
    /// # let session = store.session(Duration::from_secs(10)).await?;
    /// let lock = Lock::new(&session, "/locks/reindex")?;
    /// let guard = lock.acquire().await?;
    /// assert!(lock.request_release().await?, "somebody was asked");
    ///
    /// // The holder finishes what it is at, and goes.
    /// guard.revocation_requested().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// The store's. Lost connections are waited out while the session lives.
    ///
    /// # Cancel safety
    /// Safe: the request may have been made.
    pub async fn request_release(&self) -> Result<bool> {
        let session = self.session();
        let coord = session.coord().clone().with_freshness(Freshness::Latest);
        loop {
            let line = insist(session, || coord.list(self.name())).await?;
            // Places come first: a first child without a tag means that nobody stands in the line, or a foreigner.
            let Some(holder) = line.children.first().filter(|first| first.tag.is_some()) else {
                return Ok(false);
            };
            // Asking twice is asking once, and an entry's name is never used again.
            let ask = || coord.commit(Txn::new().update(&holder.key, REVOKE));
            if insist(session, ask).await?.is_committed() {
                return Ok(true);
            }
            // It was released just now; who has the lock next was not there when we looked.
        }
    }
}

impl LockGuard {
    /// Resolves once somebody asked for the lock by [`Lock::request_release`], or did before.
    ///
    /// The lock stays ours until we release it. Work that can stop should run beside this:
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use std::time::Duration;
    /// # use coord_recipes::Lock;
    /// # let session = store.session(Duration::from_secs(10)).await?;
    /// # let guard = Lock::new(&session, "/locks/reindex")?.acquire().await?;
    /// # async fn work() {}
    /// tokio::select! {
    ///     () = work() => {}
    ///     asked = guard.revocation_requested() => asked?,
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`LockLost`](coord_api::ErrorKind::LockLost) or [`SessionLost`](coord_api::ErrorKind::SessionLost) if the lock is lost; what the store
    /// refuses for good. Lost connections are waited out.
    ///
    /// # Cancel safety
    /// Safe: a request is not consumed, and shows again.
    pub async fn revocation_requested(&self) -> Result<()> {
        let session = self.session();
        tokio::select! {
            biased;
            () = session.lost() => session.ensure_valid(),
            asked = requested(session, self.key()) => match asked? {
                true => Ok(()),
                false => self.check().await,
            },
        }
    }
}

/// Waits until the entry carries the request; `false` if it is gone.
async fn requested(session: &Session, key: &Key) -> Result<bool> {
    let coord = session.coord();
    loop {
        let Some(entry) = insist(session, || coord.get(key)).await? else { return Ok(false) };
        if entry.value == REVOKE {
            return Ok(true);
        }
        let seen = Seen::Value(key.clone(), entry.meta.modified);
        insist(session, || coord.wait(&seen)).await?;
    }
}
