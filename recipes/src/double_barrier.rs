//! A group that begins together and ends together.

use std::{
    ops::Deref,
    str,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use coord_api::{
    Check, Child, Dir, Entry, Error, ErrorKind, Freshness, IntoDir, Key, Lifetime, Result, Retry, Seen,
    Session, Tag, Txn, Version, kit::Backoff,
};
use futures::future::try_join_all;

use crate::{
    Hold,
    dirs::beside,
    insist::{RETRY_CAP, insist},
    line::{Line, Place, Rule, Verdict, in_time},
    planted::{Bug, planted},
};

/// The tag of members.
const TAG: &str = "member-";
/// Most members: the round is opened by one transaction that checks that each of them is there.
const MEMBERS_MAX: usize = 100;
/// The value of a member's entry once the member has said that it is there.
const HERE: &str = "here";
/// What the key of the round begins with.
const HEADER: &str = "round";

/// A barrier that lets a group of a fixed size in together, and out together.
///
/// [`DoubleBarrier::enter`] waits until as many as agreed are there; [`Entered::leave`] waits until all of them have
/// left. Then the next round may begin, with the same members or others. Whoever comes while a round is full waits for
/// the next one; nobody gets into a round twice, or into one that was complete without them.
///
/// A member that is cancelled or dies before the round opens is not counted, from when its entry is gone: a cancelled one
/// is taken out in the background, a dead one when its session is over. One that dies in the round has left then, too. All
/// members must agree on the number.
///
/// The directory of the barrier is its own; so is `<name>.meta`, where one key stays that says who is in the round.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use std::time::Duration;
/// # use coord_recipes::DoubleBarrier;
/// let session = store.session(Duration::from_secs(10)).await?;
/// let barrier = DoubleBarrier::new(&session, "/jobs/shuffle", 2)?;
/// // Two members, here in one process.
/// let (a, b) = tokio::try_join!(barrier.enter(), barrier.enter())?;
/// println!("both are here");
/// tokio::try_join!(a.leave(), b.leave())?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    line: Line,
    tag: Tag,
    /// Says who is in the round. Never deleted, so that its versions are never used twice.
    round: Key,
    members: usize,
}

impl DoubleBarrier {
    /// The barrier of this name for `members` members, of whom `session` makes one with each
    /// [`enter`](DoubleBarrier::enter). Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the name is no directory, or the root, or there are no
    /// members; [`LimitExceeded`](ErrorKind::LimitExceeded) for more than 100.
    pub fn new(session: &Session, name: impl IntoDir, members: usize) -> Result<Self> {
        if members == 0 {
            return Err(Error::invalid("a barrier has at least one member"));
        }
        if members > MEMBERS_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, "too many members for one barrier")
                .with_context("members", members)
                .with_context("limit", MEMBERS_MAX));
        }
        let line = Line::new(session, name, TAG)?;
        let round = beside(line.dir())?.key("round")?;
        Ok(Self { line, tag: Tag::new(TAG)?, round, members })
    }

    /// The directory of the barrier.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        self.line.dir()
    }

    /// Waits, however long, until as many as agreed are here, and enters with them.
    ///
    /// # Errors
    /// [`SessionLost`](ErrorKind::SessionLost) as soon as the session ends;
    /// [`LockLost`](ErrorKind::LockLost) if somebody deleted our entry; [`Malformed`](ErrorKind::Malformed) if the key
    /// of the round holds something else, with nothing changed. Lost connections are waited out.
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the line in the background. A round that opens before the store knows counts us,
    /// as if we had died inside.
    pub async fn enter(&self) -> Result<Entered> {
        let opening = Opening::new(self);
        let hold = self.come().await?.hold(&opening).await?;
        Ok(opening.entered(hold))
    }

    /// The same, but not longer than `timeout`; `None` if the time ran out. Zero means one try.
    ///
    /// # Errors
    /// As [`DoubleBarrier::enter`].
    ///
    /// # Cancel safety
    /// As [`DoubleBarrier::enter`].
    pub async fn enter_timeout(&self, timeout: Duration) -> Result<Option<Entered>> {
        if timeout.is_zero() {
            let opening = Opening::new(self);
            let hold = self.come().await?.try_hold(&opening).await?;
            return Ok(hold.map(|hold| opening.entered(hold)));
        }
        in_time(timeout, self.enter()).await
    }

    /// Joins, and says that we are there.
    ///
    /// Only who has said so counts. A request to join that arrives late, when its member has left or was never told,
    /// makes an entry that stands for nobody; a request to say so is refused then, as it names the entry that it is
    /// about.
    async fn come(&self) -> Result<Place> {
        let place = self.line.join(Bytes::new()).await?;
        if !planted(Bug::CountsWhoIsNotThere) {
            place.set(HERE).await?;
        }
        Ok(place)
    }
}

/// The rule of entering: the member that makes the group complete writes down who is in it, and whoever finds itself
/// written down has entered.
///
/// What is written down outlasts the moment at which all were there, so that a member that looks late, when others
/// have left again, still knows that it was let in. Entries are never used twice, so that a member that comes again is
/// not the one who was written down.
struct Opening<'a> {
    barrier: &'a DoubleBarrier,
    /// Who is in our round, once we are.
    members: Mutex<Vec<Key>>,
}

impl<'a> Opening<'a> {
    const fn new(barrier: &'a DoubleBarrier) -> Self {
        Self { barrier, members: Mutex::new(Vec::new()) }
    }

    fn entered(self, hold: Hold) -> Entered {
        let members = self.members.into_inner().unwrap_or_else(PoisonError::into_inner);
        Entered { hold, dir: self.barrier.name().clone(), members }
    }

    fn granted(&self, members: Vec<Key>) -> Verdict {
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
        Verdict::Granted
    }
}

impl Rule for Opening<'_> {
    async fn judge(&self, place: &Place, line: &[Child], _: usize) -> Result<Verdict> {
        let Self { barrier, .. } = self;
        // Keys of others in the directory are no members.
        let here: Vec<&Key> = line
            .iter()
            .filter(|child| child.tag.as_ref() == Some(&barrier.tag))
            .map(|child| &child.key)
            .collect();
        let mut backoff = Backoff::new(RETRY_CAP);
        loop {
            let entry = place.read(&barrier.round, Freshness::Latest).await?;
            let round = match &entry {
                Some(entry) => decode(barrier.name(), entry)?,
                None => Vec::new(),
            };
            if round.contains(place.key()) {
                return Ok(self.granted(round));
            }
            let inside = round.iter().find(|member| here.contains(member));
            if let Some(member) = inside {
                // The round before us is not over.
                return Ok(Verdict::Until(vec![Seen::Exists(member.clone())]));
            }
            let seen = match &entry {
                Some(entry) => Seen::Value(barrier.round.clone(), entry.meta.modified),
                None => Seen::Absent(barrier.round.clone()),
            };
            let up_to_us = here.iter().position(|key| *key == place.key()).map_or(here.len(), |at| at + 1);
            let enough = barrier.members - usize::from(planted(Bug::EnterOneShort));
            if up_to_us < enough {
                // Only those behind us can make it complete: the one who does writes us down.
                return Ok(Verdict::Until(vec![seen]));
            }
            let Present { members: group, coming } = barrier.present(place, &here[..up_to_us]).await?;
            if group.len() < enough {
                return Ok(Verdict::Until(coming.into_iter().chain([seen]).collect()));
            }
            if !group.iter().any(|(member, _)| *member == place.key()) {
                // Enough are ahead of us for a round of their own; if one of them goes, we move up.
                let gone = group.iter().map(|(member, _)| Seen::Exists((*member).clone()));
                return Ok(Verdict::Until(gone.chain([seen]).collect()));
            }
            match place.session().coord().commit(barrier.open(entry.as_ref(), &group)).await {
                Ok(outcome) if outcome.is_committed() => {
                    return Ok(self.granted(group.iter().map(|(member, _)| (*member).clone()).collect()));
                }
                // One of us has gone, or another opened a round with us or without us: the reads above tell.
                Ok(_) => {}
                // Looked up again, also if it was ambiguous: it can be applied only once.
                Err(error) if error.retry() != Retry::Never && place.session().is_valid() => {
                    backoff.sleep(&place.session().coord().runtime()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Those who are at a barrier.
struct Present<'k> {
    /// The first who have said that they are there, as many as agreed, and the versions of their entries.
    members: Vec<(&'k Key, Version)>,
    /// What ends when one of the others says so or goes.
    coming: Vec<Seen>,
}

impl DoubleBarrier {
    /// Asks each of `here`, in order, until as many as agreed are there.
    async fn present<'k>(&self, place: &Place, here: &[&'k Key]) -> Result<Present<'k>> {
        let (mut members, mut coming) = (Vec::new(), Vec::new());
        for keys in here.chunks(self.members) {
            let entries = try_join_all(keys.iter().map(|key| place.read(key, Freshness::Latest))).await?;
            for (key, entry) in keys.iter().zip(entries) {
                // One that has gone comes back further behind, if at all.
                let Some(entry) = entry else { continue };
                if entry.value == HERE || planted(Bug::CountsWhoIsNotThere) {
                    members.push((*key, entry.meta.version));
                } else {
                    coming.push(Seen::Value(entry.key, entry.meta.modified));
                }
            }
            if members.len() >= self.members {
                members.truncate(self.members);
                break;
            }
        }
        Ok(Present { members, coming })
    }

    /// Writes down who is in the next round, if all of them are there and nobody else did it first.
    fn open(&self, entry: Option<&Entry>, group: &[(&Key, Version)]) -> Txn {
        let mut value = HEADER.to_owned();
        let mut txn = Txn::new();
        for (member, version) in group {
            value.push('\n');
            value.push_str(member.name());
            txn = txn.check(Check::Version((*member).clone(), *version));
        }
        match entry {
            Some(entry) => txn.check_version(&self.round, entry.meta.version).update(&self.round, value),
            None => txn.create(&self.round, value, Lifetime::Persistent),
        }
    }
}

/// Who is in the round.
fn decode(dir: &Dir, entry: &Entry) -> Result<Vec<Key>> {
    let foreign = || {
        Error::new(ErrorKind::Malformed, "the key of the round holds something else")
            .with_context("key", &entry.key)
    };
    let mut lines = str::from_utf8(&entry.value).map_err(|_| foreign())?.lines();
    if lines.next() != Some(HEADER) {
        return Err(foreign());
    }
    lines.map(|name| Ok(Key::from_store(&format!("{}{name}", dir.prefix())))).collect()
}

/// A member inside a [`DoubleBarrier`].
///
/// Dropping it leaves without waiting for the others. What it can do while inside is in [`Hold`].
#[derive(Debug)]
#[must_use = "dropping it leaves the barrier at once"]
pub struct Entered {
    hold: Hold,
    dir: Dir,
    members: Vec<Key>,
}

impl Entered {
    /// How many entered together.
    #[must_use]
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Leaves, and waits, however long, until all who entered with us have left or died.
    ///
    /// # Errors
    /// [`SessionLost`](ErrorKind::SessionLost) if the session ended first: we have left then, and whether the others
    /// have is not known.
    ///
    /// # Cancel safety
    /// Safe: we leave also if the future is dropped.
    pub async fn leave(self) -> Result<()> {
        self.hold.release().await?;
        let session = self.hold.session();
        loop {
            let line = insist(session, || session.coord().list(&self.dir)).await?;
            let inside = self.members.iter().find(|member| line.position(member).is_some());
            let Some(member) = inside else { return Ok(()) };
            let inside = Seen::Exists(member.clone());
            tokio::select! {
                biased;
                () = session.lost() => session.ensure_valid()?,
                woken = insist(session, || session.coord().wait(&inside)) => woken?,
            }
            if planted(Bug::LeaveTrustsWake) {
                return Ok(());
            }
        }
    }

    /// The same, but waits not longer than `timeout`: `true` if all have left, `false` if only we have, for sure or
    /// in the background.
    ///
    /// # Errors
    /// As [`Entered::leave`].
    ///
    /// # Cancel safety
    /// As [`Entered::leave`].
    pub async fn leave_timeout(self, timeout: Duration) -> Result<bool> {
        in_time(timeout, self.leave()).await.map(|left| left.is_some())
    }
}

impl Deref for Entered {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
