//! An item in the hands of its consumer.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use coord_api::{Check, Error, ErrorKind, Freshness, Key, Result, Retry, Revision, Seen, Session, Txn};

use super::Priority;
use crate::{
    insist::{insist, insist_telling},
    planted::{Bug, planted},
};

/// An item that was taken from a [`WorkQueue`](super::WorkQueue), ours until it is done or given back.
///
/// Nobody else gets it while our session lives. [`Item::ack`] takes it out of the queue for good; dropping it gives it
/// back in the background, to its old place.
#[derive(Debug)]
#[must_use = "dropping an item gives it back: `ack` it when it is done"]
pub struct Item {
    claim: Claim,
    payload: Bytes,
    priority: Priority,
    /// Cleared when somebody took over ending the claim.
    armed: AtomicBool,
}

/// The ephemeral key that makes an item ours.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) session: Session,
    pub(super) item: Key,
    pub(super) key: Key,
    pub(super) created: Revision,
}

impl Item {
    pub(super) const fn new(claim: Claim, payload: Bytes, priority: Priority) -> Self {
        Self { claim, payload, priority, armed: AtomicBool::new(true) }
    }

    /// The name of the item in the queue: the same each time it is delivered.
    #[must_use]
    pub fn id(&self) -> &str {
        self.claim.item.name()
    }

    /// What was put.
    #[must_use]
    pub const fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// How urgent it is.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// Whether the item is surely still ours, by the local clock. Asks nobody.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.claim.session.is_valid()
    }

    /// Resolves once the item is no longer ours: the session ended, or somebody deleted the claim.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn lost(&self) {
        let Claim { session, key, .. } = &self.claim;
        let seen = Seen::Exists(key.clone());
        loop {
            tokio::select! {
                biased;
                () = session.lost() => return,
                woken = insist(session, || session.coord().wait(&seen)) => {
                    if woken.is_err() || !self.claim.stands().await.unwrap_or(true) {
                        return;
                    }
                }
            }
        }
    }

    /// The item is done: takes it out of the queue.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost) if it was not ours any more: somebody else has it or had it, and it may be
    /// done twice. [`SessionLost`](ErrorKind::SessionLost) and the like if the store did not confirm before the session
    /// ended: it may be delivered again.
    ///
    /// # Cancel safety
    /// Safe: it goes on in the background.
    pub async fn ack(self) -> Result<()> {
        self.armed.store(false, Ordering::Relaxed);
        let claim = self.claim.clone();
        self.claim.session.coord().runtime().run(async move { claim.done().await }).await
    }

    /// Gives the item back, to its old place, and reports. Dropping it does the same in the background.
    ///
    /// # Errors
    /// [`SessionLost`](ErrorKind::SessionLost) and the like if the store did not confirm before the session ended; the
    /// item goes back with the session then.
    ///
    /// # Cancel safety
    /// Safe: it goes on in the background.
    pub async fn give_back(self) -> Result<()> {
        self.armed.store(false, Ordering::Relaxed);
        let claim = self.claim.clone();
        self.claim.session.coord().runtime().run(async move { claim.end().await }).await
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        if self.armed.load(Ordering::Relaxed) {
            let claim = self.claim.clone();
            self.claim.session.coord().runtime().spawn(async move {
                if let Err(error) = claim.end().await {
                    tracing::debug!(key = %claim.key, %error, "an item was not given back; it goes back with its session");
                }
            });
        }
    }
}

impl Claim {
    /// Whether the claim is there and ours.
    async fn stands(&self) -> Result<bool> {
        let latest = self.session.coord().clone().with_freshness(Freshness::Latest);
        let claim = insist(&self.session, || latest.get(&self.key)).await?;
        Ok(claim.is_some_and(|claim| claim.meta.created == self.created))
    }

    /// Deletes the claim if it is ours still.
    pub(super) async fn end(&self) -> Result<()> {
        self.session.ensure_valid()?;
        // Rejected means that it is gone already, or somebody else's.
        let txn = Txn::new().check(Check::Created(self.key.clone(), self.created)).delete(&self.key);
        insist(&self.session, || self.session.coord().commit(txn.clone())).await.map(drop)
    }

    /// Deletes item and claim, if the claim is ours still.
    async fn done(&self) -> Result<()> {
        self.session.ensure_valid()?;
        // The item first: a copy that shows the two changes one by one must not show an item that is free.
        let txn = Txn::new()
            .check(Check::Created(self.key.clone(), self.created))
            .delete(&self.item)
            .delete(&self.key);
        // It can be applied once only, so that it may be sent again.
        let commit = || self.session.coord().commit(txn.clone());
        let (outcome, ambiguous) = insist_telling(&self.session, commit).await?;
        if outcome.is_committed() || planted(Bug::AckOnHope) {
            return Ok(());
        }
        if ambiguous {
            // Refused by our own earlier try, unless the item is there still.
            let latest = self.session.coord().clone().with_freshness(Freshness::Latest);
            match insist(&self.session, || latest.get(&self.item)).await {
                Ok(None) => return Ok(()),
                Ok(Some(_)) => {}
                Err(error) => return Err(error.with_retry(Retry::Ambiguous)),
            }
        }
        Err(Error::new(ErrorKind::LockLost, "the item is not ours any more").with_context("key", &self.item))
    }
}
