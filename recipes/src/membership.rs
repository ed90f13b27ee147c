//! Who is there: a group whose members come and go.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use coord_api::{
    Coord, Dir, Entry, Error, ErrorKind, IntoDir, Key, Result, Revision, WatchEvent, WatchStream,
};
use futures::{StreamExt, stream, stream::BoxStream};

use crate::{
    PersistentEphemeral, RegistrationState, SessionKeeper,
    dirs::own,
    planted::{Bug, planted},
};

/// A group: who is in it, and what each says about itself.
///
/// A member is an ephemeral key in the group's directory, whose name is the member's id and whose value its payload.
/// It goes with its process, and is back after a lost session with the latest payload
/// ([`PersistentEphemeral`]). On ZooKeeper it is one with Curator's `GroupMember`.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_api::SessionOptions;
/// # use coord_recipes::{Membership, SessionKeeper};
///
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let group = Membership::new(&store, "/groups/workers")?;
/// let me = group.join(&keeper, "worker-1", "10.0.0.7:80").await?;
/// let members = group.members().await?;
/// assert_eq!(members[0].id(), "worker-1");
/// assert_eq!(*members[0].payload(), "10.0.0.7:80");
/// me.leave().await?;
/// assert!(group.members().await?.is_empty());
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Membership {
    coord: Coord,
    dir: Dir,
}

/// A member of a group, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    entry: Entry,
}

/// What happens in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberEvent {
    /// All members there are, by id. Comes first, and again after any gap: it replaces all that came before.
    Members(Vec<Member>),
    /// A member came, or came back with a new session.
    Joined(Member),
    /// A member changed its payload.
    Updated(Member),
    /// A member went; this is how it was last seen.
    Left(Member),
}

/// What happens in a group, beginning with who is there.
pub type MemberStream = BoxStream<'static, Result<MemberEvent>>;

/// Our own membership of a group.
///
/// Ends by [`Joined::leave`], or in the background when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it leaves the group: bind it to a name (`let me`); `let _` drops it at once"]
pub struct Joined {
    group: Membership,
    registration: PersistentEphemeral,
}

impl Member {
    /// The id, unique in the group.
    #[must_use]
    pub fn id(&self) -> &str {
        self.entry.key.name()
    }

    /// What the member says about itself.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.entry.value
    }

    /// When it joined, with the session that it has now.
    #[must_use]
    pub fn since(&self) -> Revision {
        self.entry.meta.created
    }
}

impl Membership {
    /// The group in the directory `name`. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the name is no directory, or the root.
    pub fn new(coord: &Coord, name: impl IntoDir) -> Result<Self> {
        let dir = own(name, "a group needs a directory of its own, not the root")?;
        Ok(Self { coord: coord.clone(), dir })
    }

    /// The directory of the group.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        &self.dir
    }

    /// Joins with this id, which must be one segment of a key and nobody else's. Returns once the store has it.
    ///
    /// # Errors
    /// [`NotHolder`](ErrorKind::NotHolder) if somebody else has the id: also what this process was before a crash,
    /// until the ttl of that session has passed ([`Membership::join_timeout`] waits for it).
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a bad id, [`LimitExceeded`](ErrorKind::LimitExceeded) for a
    /// payload that is too large; those of [`SessionKeeper::session`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the group in the background.
    pub async fn join(&self, keeper: &SessionKeeper, id: &str, payload: impl Into<Bytes>) -> Result<Joined> {
        let joined = self.register(keeper, id, payload.into())?;
        match joined.registration.changed(RegistrationState::Pending).await {
            RegistrationState::Taken => {
                joined.registration.close().await?;
                Err(taken(&joined.registration))
            }
            _ => joined.registration.registered().await.map(|()| joined),
        }
    }

    /// The same, but waits up to `timeout` for the id to be free.
    ///
    /// # Errors
    /// As [`Membership::join`].
    ///
    /// # Cancel safety
    /// As [`Membership::join`].
    pub async fn join_timeout(
        &self,
        keeper: &SessionKeeper,
        id: &str,
        payload: impl Into<Bytes>,
        timeout: Duration,
    ) -> Result<Joined> {
        let joined = self.register(keeper, id, payload.into())?;
        match tokio::time::timeout(timeout, joined.registration.registered()).await {
            Ok(registered) => registered.map(|()| joined),
            Err(_) => {
                let held = joined.registration.state() == RegistrationState::Taken;
                joined.registration.close().await?;
                Err(if held { taken(&joined.registration) } else { too_late(&joined.registration) })
            }
        }
    }

    /// The members now, by id. Asks the store, or the copy of the group if somebody here watches it.
    ///
    /// # Errors
    /// As [`Coord::watch`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn members(&self) -> Result<Vec<Member>> {
        let mut events = self.events().await?;
        match events.next().await {
            Some(Ok(MemberEvent::Members(members))) => Ok(members),
            Some(Err(error)) => Err(error),
            _ => Err(Error::new(ErrorKind::Unexpected, "a watch did not begin with a snapshot")
                .with_context("dir", &self.dir)),
        }
    }

    /// Streams the members and their changes. All streams of one process share one watch of the store.
    ///
    /// After an `Err` the stream ends; lost connections show as a new [`MemberEvent::Members`].
    ///
    /// # Errors
    /// As [`Coord::watch`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn events(&self) -> Result<MemberStream> {
        let watch = self.coord.watch(&self.dir).await?;
        Ok(events(watch, Roll { group: self.clone(), members: BTreeMap::new() }))
    }

    pub(crate) const fn coord(&self) -> &Coord {
        &self.coord
    }

    fn register(&self, keeper: &SessionKeeper, id: &str, payload: Bytes) -> Result<Joined> {
        let key = self.dir.key(id)?;
        if key.parent() != self.dir {
            return Err(Error::invalid("an id is one segment of a key").with_context("id", id));
        }
        Ok(Joined { registration: PersistentEphemeral::new(keeper, key, payload)?, group: self.clone() })
    }
}

impl Joined {
    /// Our id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.registration.key().name()
    }

    /// The group.
    #[must_use]
    pub const fn group(&self) -> &Membership {
        &self.group
    }

    /// Whether the others surely see us, by the local clock.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.registration.is_registered()
    }

    /// The registration behind the membership: its state and changes.
    #[must_use]
    pub const fn registration(&self) -> &PersistentEphemeral {
        &self.registration
    }

    /// Changes what we say about ourselves, now and after each new session.
    ///
    /// # Errors
    /// As [`PersistentEphemeral::set`].
    ///
    /// # Cancel safety
    /// As [`PersistentEphemeral::set`].
    pub async fn update(&self, payload: impl Into<Bytes>) -> Result<()> {
        self.registration.set(payload).await
    }

    /// Leaves the group and reports.
    ///
    /// # Errors
    /// As [`PersistentEphemeral::close`].
    ///
    /// # Cancel safety
    /// As [`PersistentEphemeral::close`].
    pub async fn leave(self) -> Result<()> {
        self.registration.close().await
    }
}

fn taken(registration: &PersistentEphemeral) -> Error {
    Error::new(ErrorKind::NotHolder, "somebody else has this id in the group")
        .with_operation("join")
        .with_context("key", registration.key())
}

fn too_late(registration: &PersistentEphemeral) -> Error {
    Error::new(ErrorKind::Timeout, "the store did not take us into the group in time")
        .with_operation("join")
        .with_context("key", registration.key())
}

/// The members as the watch has told them so far.
struct Roll {
    /// Keeps the store's handle, with which the watch would end.
    group: Membership,
    members: BTreeMap<Key, Member>,
}

impl Roll {
    /// What a change of the directory means for the group.
    fn apply(&mut self, event: WatchEvent) -> Vec<MemberEvent> {
        match event {
            WatchEvent::Snapshot { entries, .. } => {
                let members: Vec<_> = entries.into_iter().filter_map(|entry| self.member(entry)).collect();
                if !planted(Bug::MembersMerged) {
                    self.members.clear();
                }
                self.members.extend(members.into_iter().map(|member| (member.entry.key.clone(), member)));
                vec![MemberEvent::Members(self.members.values().cloned().collect())]
            }
            WatchEvent::Put(entry) => {
                let key = entry.key.clone();
                let Some(member) = self.member(entry) else { return self.left(&key) };
                match self.members.insert(key, member.clone()) {
                    None => vec![MemberEvent::Joined(member)],
                    Some(before) if before.since() == member.since() => vec![MemberEvent::Updated(member)],
                    // It went and came back; the watch told only how it ended.
                    Some(before) => vec![MemberEvent::Left(before), MemberEvent::Joined(member)],
                }
            }
            WatchEvent::Delete { key, .. } => self.left(&key),
            _ => Vec::new(),
        }
    }

    fn left(&mut self, key: &Key) -> Vec<MemberEvent> {
        self.members.remove(key).map(MemberEvent::Left).into_iter().collect()
    }

    /// Keys that belong to no session, or lie deeper, are not members.
    fn member(&self, entry: Entry) -> Option<Member> {
        let owned = entry.meta.owner.is_some() || planted(Bug::StrangersAreMembers);
        (owned && entry.key.parent() == self.group.dir).then_some(Member { entry })
    }
}

fn events(watch: WatchStream, roll: Roll) -> MemberStream {
    stream::unfold((watch, roll), |(mut watch, mut roll)| async move {
        let told = watch.next().await?.map(|event| roll.apply(event));
        let told: Vec<_> = match told {
            Ok(events) => events.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        Some((stream::iter(told), (watch, roll)))
    })
    .flatten()
    .boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coord_api::{Meta, SessionId, Version, kit::Runtime};
    use coord_backend_memory::{MemoryBackend, MemoryStore};

    use super::*;

    fn entry(key: &str, created: u64, modified: u64, owner: Option<&str>) -> Entry {
        let meta = Meta::new(
            Revision::new(created),
            Revision::new(modified),
            Version::new(modified),
            owner.map(SessionId::new),
        );
        Entry::new(Key::parse(key).unwrap(), Bytes::new(), meta)
    }

    fn roll() -> Roll {
        let runtime = Runtime::current().unwrap();
        let backend = MemoryBackend::new(&MemoryStore::new(&runtime), runtime);
        let group = Membership::new(&Coord::new(Arc::new(backend)), "/g").unwrap();
        Roll { group, members: BTreeMap::new() }
    }

    #[tokio::test]
    async fn a_member_that_came_back_has_left_and_joined() {
        let mut roll = roll();
        let entries = vec![entry("/g/a", 1, 1, Some("s"))];
        roll.apply(WatchEvent::Snapshot { entries, revision: Revision::new(1) });
        let told = roll.apply(WatchEvent::Put(entry("/g/a", 1, 2, Some("s"))));
        assert!(matches!(&told[..], [MemberEvent::Updated(_)]), "{told:?}");
        let told = roll.apply(WatchEvent::Put(entry("/g/a", 5, 5, Some("t"))));
        assert!(matches!(&told[..], [MemberEvent::Left(_), MemberEvent::Joined(_)]), "{told:?}");
    }

    #[tokio::test]
    async fn what_is_no_member_is_not_told() {
        let mut roll = roll();
        assert!(roll.apply(WatchEvent::Put(entry("/g/readme", 1, 1, None))).is_empty());
        assert!(roll.apply(WatchEvent::Put(entry("/g/deep/a", 1, 1, Some("s")))).is_empty());
        let delete = WatchEvent::Delete { key: Key::parse("/g/readme").unwrap(), revision: Revision::new(2) };
        assert!(roll.apply(delete).is_empty());
    }
}
