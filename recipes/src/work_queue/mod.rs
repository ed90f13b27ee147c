//! Tasks that are done at least once.

mod item;
mod layout;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use coord_api::{
    Check, Dir, Entry, Freshness, IntoDir, Key, Lifetime, Result, Retry, Revision, Session, Txn, TxnOutcome,
    kit::Backoff,
};

use crate::{
    Cache, Hold, Snapshot,
    dirs::beside,
    insist::{RETRY_CAP, insist},
    line::{Line, first_in_line, in_time},
};
use item::Claim;
use layout::Layout;

pub use item::Item;

/// The tag of those who want an item.
const TAG: &str = "take-";

/// How urgent an item is; the larger, the sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

impl Priority {
    /// When there is nothing else to do.
    pub const LOW: Self = Self(64);
    /// As most.
    pub const NORMAL: Self = Self(128);
    /// Before all of the usual.
    pub const HIGH: Self = Self(192);
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// A queue of tasks, each done at least once.
///
/// Items wait by priority, and first come, first served within one. Whoever [takes](WorkQueue::take) an item has it
/// until it says that it is done ([`Item::ack`]); if it gives the item back, drops it, or its session ends, the item is
/// delivered again, at its old place. So an item may be done twice: make doing it idempotent, by [`Item::id`] if nothing
/// better is at hand. Consumers wait in line, so that a new item wakes one of them.
///
/// It is good for tasks that take seconds and number in the thousands at most: everything waiting is in the store's
/// memory, and in that of each consumer. It is no message broker: for streams, for much data, for many small messages
/// use one.
///
/// The directory of the queue is its own, and so is `<name>.meta`.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use std::time::Duration;
/// # use coord_recipes::{Priority, WorkQueue};
/// let session = store.session(Duration::from_secs(10)).await?;
/// let queue = WorkQueue::new(&session, "/queues/thumbnails")?;
/// queue.put("cat.png", Priority::NORMAL).await?;
/// queue.put("front-page.png", Priority::HIGH).await?;
///
/// let item = queue.take().await?;
/// assert_eq!(item.payload(), "front-page.png");
/// // ... do it ...
/// item.ack().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct WorkQueue {
    session: Session,
    layout: Layout,
    /// Those who want an item; the first of them takes.
    line: Line,
    /// What consumers look at, from the first take on.
    cache: Arc<OnceLock<Cache>>,
}

/// How a try to claim an item ended.
enum Claimed {
    Ours(Item),
    /// Somebody has it, or it is gone. We are first in line still.
    Refused(Hold),
    /// The same, but to find that out we had to leave the line.
    Left,
}

impl WorkQueue {
    /// The queue of this name, for `session`. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no directory, or the root.
    pub fn new(session: &Session, name: impl IntoDir) -> Result<Self> {
        let layout = Layout::new(name)?;
        let line = Line::new(session, beside(&layout.dir)?.dir("takers")?, TAG)?;
        Ok(Self { session: session.clone(), layout, line, cache: Arc::default() })
    }

    /// The directory of the queue.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        &self.layout.dir
    }

    /// Puts an item into the queue, and returns its id.
    ///
    /// If a reply is lost, it is put again under the same id: it is in the queue once, and is delivered once more only
    /// if the first copy was already done by then.
    ///
    /// # Errors
    /// [`LimitExceeded`](coord_api::ErrorKind::LimitExceeded) if the payload is too large, with nothing changed;
    /// [`SessionLost`](coord_api::ErrorKind::SessionLost) if the session ended first; ambiguous if the reply was lost and the
    /// session ended. Lost connections are waited out.
    ///
    /// # Cancel safety
    /// If the future is dropped, the item is in the queue or not.
    pub async fn put(&self, payload: impl Into<Bytes> + Send, priority: Priority) -> Result<String> {
        let id = self.session.coord().runtime().nonce().to_uuid();
        self.put_once(&id, payload, priority).await?;
        Ok(id)
    }

    /// Puts an item under an id of the caller's choice, any text; does nothing if an item with this id waits or is
    /// being worked on.
    ///
    /// # Errors
    /// As [`WorkQueue::put`], and [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the id is too long for a key.
    ///
    /// # Cancel safety
    /// As [`WorkQueue::put`].
    pub async fn put_once(
        &self,
        id: &str,
        payload: impl Into<Bytes> + Send,
        priority: Priority,
    ) -> Result<()> {
        let key = self.layout.item(id)?;
        let value = layout::encode(priority, &payload.into());
        self.session.ensure_valid()?;
        // Rejected means that it is there, put by somebody or by our own earlier try.
        insist(&self.session, || {
            self.session.coord().commit(Txn::new().create(&key, value.clone(), Lifetime::Persistent))
        })
        .await
        .map(drop)
    }

    /// Waits, however long, until it is our turn and there is an item, and takes it.
    ///
    /// # Errors
    /// [`SessionLost`](coord_api::ErrorKind::SessionLost) as soon as the session ends; [`LockLost`](coord_api::ErrorKind::LockLost) if
    /// somebody deleted our entry among those who wait; [`Malformed`](coord_api::ErrorKind::Malformed) if there is something else
    /// than items among the items, with nothing changed. Lost connections are waited out.
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the line, and an item that was taken already is given back.
    pub async fn take(&self) -> Result<Item> {
        let cache = self.cache()?;
        loop {
            let mut first = self.line.enter(Bytes::new(), first_in_line).await?;
            let mut refused = BTreeSet::new();
            loop {
                let entry = self.next_free(cache, &first, &mut refused).await?;
                match self.claim(first, &entry).await? {
                    Claimed::Ours(item) => return Ok(item),
                    Claimed::Left => break,
                    Claimed::Refused(hold) => {
                        refused.insert(entry.key);
                        first = hold;
                    }
                }
            }
        }
    }

    /// Takes an item if there is one and nobody waits before us; `None` if not.
    ///
    /// Looks at the local copy: an item that somebody else has just put may not be in it yet.
    ///
    /// # Errors
    /// As [`WorkQueue::take`].
    ///
    /// # Cancel safety
    /// As [`WorkQueue::take`].
    pub async fn try_take(&self) -> Result<Option<Item>> {
        let cache = self.cache()?;
        let Some(mut first) = self.line.try_enter(Bytes::new(), first_in_line).await? else {
            return Ok(None);
        };
        cache.ready().await?;
        let mut refused = BTreeSet::new();
        while let Some(entry) = self.layout.first_free(&cache.snapshot(), &refused)? {
            match self.claim(first, &entry).await? {
                Claimed::Ours(item) => return Ok(Some(item)),
                Claimed::Left => return Ok(None),
                Claimed::Refused(hold) => {
                    refused.insert(entry.key);
                    first = hold;
                }
            }
        }
        first.release().await?;
        Ok(None)
    }

    /// As [`WorkQueue::take`], but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`WorkQueue::take`].
    ///
    /// # Cancel safety
    /// As [`WorkQueue::take`].
    pub async fn take_timeout(&self, timeout: Duration) -> Result<Option<Item>> {
        if timeout.is_zero() {
            return self.try_take().await;
        }
        in_time(timeout, self.take()).await
    }

    fn cache(&self) -> Result<&Cache> {
        if let Some(cache) = self.cache.get() {
            return Ok(cache);
        }
        let cache = Cache::tree(self.session.coord(), &self.layout.dir)?;
        Ok(self.cache.get_or_init(|| cache))
    }

    /// Waits for an item that nobody has, as the first in line. Those that were `refused` are asked for again later.
    async fn next_free(&self, cache: &Cache, first: &Hold, refused: &mut BTreeSet<Key>) -> Result<Entry> {
        let (mut backoff, runtime) = (Backoff::new(RETRY_CAP), self.session.coord().runtime());
        loop {
            let due = |queue: &Snapshot| self.layout.first_free(queue, refused).transpose();
            tokio::select! {
                biased;
                () = first.lost() => {
                    first.check().await?;
                }
                queue = cache.wait_until(|queue| due(queue).is_some()) => {
                    if let Some(entry) = due(&queue?) {
                        return entry;
                    }
                }
                // The copy lags behind what the store said, or somebody gave an item back: ask again.
                () = backoff.sleep(&runtime), if !refused.is_empty() => {}
            }
            refused.clear();
        }
    }

    /// Makes an item ours if nobody has it. Goes on if the caller goes away, and gives the item back then.
    async fn claim(&self, first: Hold, entry: &Entry) -> Result<Claimed> {
        let (session, key) = (self.session.clone(), self.layout.claim(&entry.key));
        let (entry, runtime) = (entry.clone(), session.coord().runtime());
        let claimed = runtime.run(async move { claim(session, key, first, entry).await }).await?;
        // An answer that is older than the session proves nothing: the item may be somebody else's by now.
        self.session.ensure_valid()?;
        Ok(claimed)
    }
}

async fn claim(session: Session, key: Key, first: Hold, entry: Entry) -> Result<Claimed> {
    let nonce = session.coord().runtime().nonce().to_uuid();
    let (priority, payload) = layout::parse(&entry)?;
    let ours = |created| {
        let claim = Claim { session: session.clone(), item: entry.key.clone(), key: key.clone(), created };
        Claimed::Ours(Item::new(claim, payload.clone(), priority))
    };
    // What the store says of our claim.
    let claimed = async || {
        let latest = session.coord().clone().with_freshness(Freshness::Latest);
        let claim = insist(&session, || latest.get(&key)).await?;
        Ok(match claim {
            Some(claim) if claim.value == nonce.as_bytes() => ours(claim.meta.created),
            _ => Claimed::Left,
        })
    };
    let mut backoff = Backoff::new(RETRY_CAP);
    loop {
        // The copy may lag: another item that was put under the same id since is not the one that it shows.
        let txn = Txn::new().check(Check::Created(entry.key.clone(), entry.meta.created)).create(
            &key,
            nonce.clone(),
            Lifetime::Session,
        );
        match first.commit(txn).await {
            Ok(TxnOutcome::Committed(commit)) => match commit.revision() {
                Some(revision) if revision != Revision::ZERO => return Ok(ours(revision)),
                // An old server does not tell it, and the reply to the question was lost.
                _ => return claimed().await,
            },
            Ok(TxnOutcome::Rejected(_)) => return Ok(Claimed::Refused(first)),
            Err(error) if error.retry() == Retry::Safe && session.is_valid() => {
                backoff.sleep(&session.coord().runtime()).await;
            }
            Err(error) if error.retry() == Retry::Ambiguous => {
                // Without our place in line the request is refused if it arrives late: then what is there is the truth.
                first.release().await?;
                return claimed().await;
            }
            Err(error) => return Err(error),
        }
    }
}
