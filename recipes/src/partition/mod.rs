//! Dividing work between the members of a group.

mod ring;

use std::{
    collections::{BTreeMap, BTreeSet},
    convert, fmt,
    sync::{Arc, OnceLock},
};

use coord_api::{Error, ErrorKind, Result, kit::Runtime};
use futures::{StreamExt, stream, stream::BoxStream};
use tokio::sync::watch;

use crate::{
    Joined, Member, MemberEvent,
    keeper::again,
    membership::MemberStream,
    persistent::Status,
    planted::{Bug, planted},
};

pub use ring::HashRing;

/// Divides items between the members of a group, by consistent hashing ([`HashRing`]).
///
/// Each member computes for itself what is its own, from the members that it sees. While a change spreads, two may see
/// different members and both take an item for theirs, or neither: where that must not be, take a
/// [`Lock`](crate::Lock) an item, or let the resource compare fencing tokens. A member that may have dropped out of the
/// group owns nothing, by the local clock.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_api::SessionOptions;
/// # use coord_recipes::{Membership, Partition, SessionKeeper};
/// use futures::StreamExt;
///
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let me = Membership::new(&store, "/groups/workers")?.join(&keeper, "worker-1", "").await?;
/// let partition = Partition::new(&me).await?;
/// assert!(partition.is_mine("shard-17"), "nobody else is there");
///
/// let mut shares = partition.mine(["shard-17", "shard-18"]);
/// let share = shares.next().await.expect("endless")?;
/// assert_eq!(share.gained, ["shard-17", "shard-18"]);
/// # Ok(())
/// # });
/// ```
#[derive(Clone)]
pub struct Partition {
    id: Arc<str>,
    ring: watch::Receiver<Arc<HashRing>>,
    status: watch::Receiver<Status>,
    failed: Arc<OnceLock<Error>>,
}

/// Which of some items are ours, and what changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// All that are ours now, sorted.
    pub mine: Vec<String>,
    /// Those that were not before.
    pub gained: Vec<String>,
    /// Those that are no longer.
    pub lost: Vec<String>,
}

/// Our share of some items, and its changes.
pub type ShareStream = BoxStream<'static, Result<Share>>;

/// What weight a member has.
type Weight = Box<dyn Fn(&Member) -> u32 + Send + Sync>;

impl Partition {
    /// Divides equally between all members.
    ///
    /// # Errors
    /// As [`Membership::events`](crate::Membership::events).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn new(me: &Joined) -> Result<Self> {
        Self::with_weights(me, |_| 1).await
    }

    /// Divides by weights, which all members must compute alike: from the payload, for example.
    ///
    /// # Errors
    /// As [`Partition::new`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn with_weights(
        me: &Joined,
        weight: impl Fn(&Member) -> u32 + Send + Sync + 'static,
    ) -> Result<Self> {
        let mut events = me.group().events().await?;
        let mut weights = Weights { weight: Box::new(weight), members: BTreeMap::new() };
        let first = match events.next().await {
            Some(first) => weights.apply(first?)?,
            None => return Err(ended()),
        };
        let (sender, ring) = watch::channel(Arc::new(first));
        let failed = Arc::new(OnceLock::new());
        let runtime = me.group().coord().runtime();
        runtime.clone().spawn({
            let failed = Arc::clone(&failed);
            async move {
                let error = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    error = follow(events, weights, &sender, &runtime) => error,
                };
                let _ = failed.set(error);
            }
        });
        Ok(Self { id: me.id().into(), ring, status: me.registration().status(), failed })
    }

    /// The member that owns an item, as we see it; `None` if nobody does.
    #[must_use]
    pub fn owner(&self, item: impl AsRef<[u8]>) -> Option<String> {
        self.ring.borrow().owner(item).map(str::to_owned)
    }

    /// Whether an item is ours, as we see it, while we surely are a member. Asks nobody.
    #[must_use]
    pub fn is_mine(&self, item: impl AsRef<[u8]>) -> bool {
        let member = self.status.borrow().is_registered() || planted(Bug::ShareOutlivesSession);
        self.failed.get().is_none() && member && self.owned(item.as_ref())
    }

    /// The ring as we see it.
    #[must_use]
    pub fn ring(&self) -> Arc<HashRing> {
        Arc::clone(&self.ring.borrow())
    }

    /// Streams which of these items are ours: the share now, then each change.
    ///
    /// Stop work on what is lost before you do anything else: its next owner may have begun. After an `Err` the stream
    /// ends.
    #[must_use]
    pub fn mine<I: Into<String>>(&self, items: impl IntoIterator<Item = I>) -> ShareStream {
        let shares = Shares {
            partition: self.clone(),
            items: items.into_iter().map(Into::into).collect(),
            told: None,
        };
        stream::unfold(Some(shares), |shares| async move {
            let mut shares = shares?;
            let item = shares.next().await;
            let more = item.is_ok().then_some(shares);
            Some((item, more))
        })
        .boxed()
    }

    fn owned(&self, item: &[u8]) -> bool {
        self.ring.borrow().owner(item) == Some(&*self.id)
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("id", &self.id)
            .field("members", &self.ring.borrow().members())
            .finish_non_exhaustive()
    }
}

/// Follows the group until its stream ends.
async fn follow(
    mut events: MemberStream,
    mut weights: Weights,
    sender: &watch::Sender<Arc<HashRing>>,
    runtime: &Runtime,
) -> Error {
    loop {
        let event = match events.next().await {
            Some(Ok(event)) => event,
            Some(Err(error)) => return error,
            None => return ended(),
        };
        // The weight is the program's code.
        let applied = runtime.run_blocking(move || weights.apply(event).map(|ring| (weights, ring)));
        match applied.await.and_then(convert::identity) {
            Ok((after, ring)) => {
                weights = after;
                sender.send_replace(Arc::new(ring));
            }
            Err(error) => return error,
        }
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Closed, "the watch of the group ended")
}

/// The members and how much each takes.
struct Weights {
    weight: Weight,
    members: BTreeMap<String, u32>,
}

impl Weights {
    fn apply(&mut self, event: MemberEvent) -> Result<HashRing> {
        match event {
            MemberEvent::Members(members) => {
                self.members =
                    members.iter().map(|member| (member.id().to_owned(), (self.weight)(member))).collect();
            }
            MemberEvent::Joined(member) | MemberEvent::Updated(member) => {
                self.members.insert(member.id().to_owned(), (self.weight)(&member));
            }
            MemberEvent::Left(_) if planted(Bug::RingForgetsNobody) => {}
            MemberEvent::Left(member) => drop(self.members.remove(member.id())),
        }
        HashRing::new(self.members.iter().map(|(id, weight)| (id.as_str(), *weight)))
    }
}

struct Shares {
    partition: Partition,
    items: BTreeSet<String>,
    /// `None` before the first share.
    told: Option<BTreeSet<String>>,
}

impl Shares {
    async fn next(&mut self) -> Result<Share> {
        loop {
            if let Some(error) = self.partition.failed.get() {
                return Err(again(error));
            }
            // One look at both for all items: the group may change in the middle.
            let member = self.partition.status.borrow_and_update().is_registered();
            let ring = Arc::clone(&self.partition.ring.borrow_and_update());
            let ours = |item: &&String| member && ring.owner(item.as_str()) == Some(&*self.partition.id);
            let now: BTreeSet<_> = self.items.iter().filter(ours).cloned().collect();
            if self.told.as_ref() != Some(&now) {
                let before = self.told.replace(now.clone()).unwrap_or_default();
                return Ok(Share {
                    gained: now.difference(&before).cloned().collect(),
                    lost: before.difference(&now).cloned().collect(),
                    mine: now.into_iter().collect(),
                });
            }
            let (ring, status) = (&mut self.partition.ring, &mut self.partition.status);
            tokio::select! {
                biased;
                changed = status.changed() => if changed.is_err() {
                    // We left for good, and were told so above.
                    return Err(ended());
                },
                changed = ring.changed() => if changed.is_err() && self.partition.failed.get().is_none() {
                    return Err(ended());
                },
            }
        }
    }
}
