//! Elections: one of many leads, and everybody can see who.
//!
//! Safety comes from the line alone: whoever stands first leads, and the store lets nobody pass. Priorities and
//! hand-over only make candidates step back ([`giveway`]), which can change who is next and never how many lead.

mod candidate;
mod giveway;
mod leadership;
mod observe;
mod run;

use coord_api::{Coord, Dir, FencingToken, Freshness, IntoDir, Key, Result, Revision};
use futures::{StreamExt, TryStreamExt, stream};

use crate::dirs::{beside, own};

pub use candidate::{Candidate, CandidateOptions, CandidateState};
pub use leadership::Leadership;
pub use observe::LeaderStream;

/// The tag of a candidate's entry: Curator's, whose `LeaderLatch` looks for exactly this text on ZooKeeper.
const TAG: &str = "latch-";

/// How many values are read at once.
const READS: usize = 16;

/// An election, as those see it who do not stand in it.
///
/// To stand, make a [`Candidate`]. The directory of the election is the election's alone, and so is the directory
/// beside it whose name ends in `.meta`. On ZooKeeper it is one with Curator's `LeaderLatch`, on etcd with
/// `etcdctl elect` and `concurrency.Election`: the value of an entry is the candidate's id.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_api::SessionOptions;
/// # use coord_recipes::{Candidate, Election, SessionKeeper};
///
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let leadership = Candidate::new(&keeper, "/elections/scheduler", "node-1")?.leadership().await?;
///
/// let election = Election::new(&store, "/elections/scheduler")?;
/// let leader = election.current_leader().await?.expect("elected");
/// assert_eq!((leader.id(), leader.epoch()), ("node-1", leadership.epoch()));
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    coord: Coord,
    dir: Dir,
}

/// A candidate in the line of an election, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    id: String,
    epoch: FencingToken,
}

impl Participant {
    /// The id that the candidate gave itself. What is not UTF-8 in the entry of another program is replaced.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The epoch with which it leads, or will lead if its turn comes.
    #[must_use]
    pub const fn epoch(&self) -> FencingToken {
        self.epoch
    }
}

impl Election {
    /// The election of this name. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no directory, or the root.
    pub fn new(coord: &Coord, name: impl IntoDir) -> Result<Self> {
        let dir = own(name, "an election needs a directory of its own, not the root")?;
        Ok(Self { coord: coord.clone(), dir })
    }

    /// The directory of the election.
    #[must_use]
    pub const fn name(&self) -> &Dir {
        &self.dir
    }

    /// All who stand, in the order in which they would lead; the first one does. Asks the store.
    ///
    /// # Errors
    /// As [`Coord::get`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let coord = self.coord.clone().with_freshness(Freshness::Latest);
        let line = coord.list(&self.dir).await?.children;
        let standing = stream::iter(line)
            .map(|child| participant(&coord, child.key))
            .buffered(READS)
            .try_collect::<Vec<_>>()
            .await?;
        Ok(standing.into_iter().flatten().map(|seen| seen.participant).collect())
    }

    /// Who leads now, if anybody does. Asks the store; for a stream of leaders see [`Election::observe`].
    ///
    /// # Errors
    /// As [`Coord::get`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn current_leader(&self) -> Result<Option<Participant>> {
        let coord = self.coord.clone().with_freshness(Freshness::Latest);
        loop {
            let line = coord.list(&self.dir).await?;
            let Some(head) = line.children.into_iter().next() else { return Ok(None) };
            match coord.get(&head.key).await? {
                Some(entry) if entry.meta.created <= line.revision => {
                    return Ok(seen(&coord, entry).map(|seen| seen.participant));
                }
                // It left in between, and may have come back further behind: somebody else is first.
                _ => {}
            }
        }
    }

    /// Streams who leads: first the state now, then each change.
    ///
    /// Every item is the whole truth of a moment, so what was missed in a gap needs no event of its own. Epochs never
    /// go back, and all observers see them in one order; a leader that came and went quickly may be left out.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use coord_api::SessionOptions;
    /// # use coord_recipes::{Candidate, Election, SessionKeeper};
    /// use futures::StreamExt;
    ///
    /// # let keeper = SessionKeeper::new(&store, SessionOptions::default());
    /// let mut leaders = Election::new(&store, "/elections/scheduler")?.observe();
    /// assert!(leaders.next().await.expect("endless")?.is_none(), "nobody stands yet");
    /// let _leadership = Candidate::new(&keeper, "/elections/scheduler", "node-1")?.leadership().await?;
    /// assert_eq!(leaders.next().await.expect("endless")?.expect("elected").id(), "node-1");
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// An outage is waited out. After an `Err` the stream ends.
    #[must_use]
    pub fn observe(&self) -> LeaderStream {
        observe::observe(self.clone())
    }

    /// Where candidates and leaders leave notes for each other: never in the line, where every key may be a place.
    fn notes(&self) -> Result<Dir> {
        beside(&self.dir)
    }
}

/// An entry of the line with who is behind it.
struct Seen {
    key: Key,
    created: Revision,
    modified: Revision,
    participant: Participant,
}

/// Reads an entry; `None` if it is gone, or nobody's.
async fn participant(coord: &Coord, key: Key) -> Result<Option<Seen>> {
    Ok(coord.get(&key).await?.and_then(|entry| seen(coord, entry)))
}

/// A key that belongs to no session is no candidate: it stands beside the line, or blocks it.
fn seen(coord: &Coord, entry: coord_api::Entry) -> Option<Seen> {
    entry.meta.owner.as_ref()?;
    Some(Seen {
        created: entry.meta.created,
        modified: entry.meta.modified,
        participant: Participant {
            id: String::from_utf8_lossy(&entry.value).into_owned(),
            epoch: coord.fencing_token(entry.meta.created),
        },
        key: entry.key,
    })
}
