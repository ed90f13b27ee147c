//! What is kept of the past.

use std::time::Duration;

use coord_api::{Check, Key, Lifetime, Op, Result, Txn, TxnOutcome, Version};

use crate::{
    Digest, Namespace, WallTime,
    model::{Anchor, Generation, Head, LogEntry, Release, ReleaseVersion, read, write},
};

/// Most keys that one transaction removes.
const BATCH: usize = 64;
/// How often a batch is tried against publishers and others who collect.
const TRIES: usize = 8;

/// How much of the past is kept: so many of the newest, and whatever is young enough.
///
/// What the head or a gray rule points at is always kept. Removed are only those that are beyond the count *and* too old,
/// if an age is set: the clocks of publishers decide nothing alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Retention {
    releases: usize,
    log: usize,
    within: Option<Duration>,
}

impl Default for Retention {
    /// 50 releases and 1,000 generations of the log.
    fn default() -> Self {
        Self { releases: 50, log: 1_000, within: None }
    }
}

impl Retention {
    /// The same with this many releases, of whatever age; at least 1.
    pub const fn with_releases(mut self, count: usize) -> Self {
        self.releases = if count == 0 { 1 } else { count };
        self
    }

    /// The same with this many generations of the log, of whatever age; at least 1.
    pub const fn with_log(mut self, count: usize) -> Self {
        self.log = if count == 0 { 1 } else { count };
        self
    }

    /// The same, keeping everything that is younger than this too, by the clocks of those who made it.
    ///
    /// Beyond the counts, a publisher looks after every change then whether something has become old enough.
    pub const fn with_within(mut self, age: Duration) -> Self {
        self.within = Some(age);
        self
    }

    /// The oldest release and generation that the counts keep.
    fn floor(&self, head: &Head) -> (ReleaseVersion, Generation) {
        let floor = |newest: u64, count: usize| (newest + 1).saturating_sub(count as u64).max(1);
        (
            ReleaseVersion::new(floor(head.newest.get(), self.releases)),
            Generation::new(floor(head.generation.get(), self.log)),
        )
    }

    /// Whether so much is beyond the counts that it is worth a look.
    fn is_due(&self, head: &Head, anchor: &Anchor) -> bool {
        let (release, generation) = self.floor(head);
        let slack = |count: usize| (count / 10) as u64;
        let beyond = |floor: u64, oldest: u64, count: usize| floor > oldest + slack(count);
        beyond(release.get(), anchor.release.get(), self.releases)
            || beyond(generation.get(), anchor.generation.get(), self.log)
    }

    fn is_old(&self, at: WallTime) -> bool {
        self.within.is_none_or(|within| at.age(WallTime::now()) > within)
    }
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Releases.
    pub releases: usize,
    /// Entries of the log.
    pub entries: usize,
}

/// What one transaction removes.
struct Batch {
    anchor: Anchor,
    releases: Vec<Key>,
    entries: Vec<Key>,
}

impl Namespace {
    /// Removes what [retention](Retention) does not keep, and says how much that was.
    ///
    /// Publishers do it by themselves, in the background and now and then; this is for those who want it now. What a head
    /// points at is not removed, also if the head is changed at the same moment.
    ///
    /// Costs five round trips to look, and one for 64 keys; with an age, one more for each key.
    ///
    /// # Errors
    /// As [`head`](Self::head) and [`Coord::commit`](coord_api::Coord::commit). What was removed before is gone.
    ///
    /// # Cancel safety
    /// If the future is dropped, something was removed or not. Asked again, it goes on.
    pub async fn collect(&self) -> Result<Collected> {
        let mut collected = Collected::default();
        let mut refused = 0;
        while refused < TRIES {
            let Some((txn, batch)) = self.next_batch().await? else { break };
            // A lost reply does no harm: whoever looks again finds what is left.
            if let TxnOutcome::Committed(_) = self.coord().commit(txn).await? {
                refused = 0;
                collected.releases += batch.releases.len();
                collected.entries += batch.entries.len();
                self.remember_anchor(&batch.anchor);
            } else {
                refused += 1;
            }
        }
        Ok(collected)
    }

    /// Collects if there is something to, and never fails a change that was made.
    pub(crate) fn collect_in_background(&self, head: &Head) {
        let (namespace, head) = (self.clone(), head.clone());
        let due = move |anchor: &Anchor| namespace.settings().retention.is_due(&head, anchor);
        if self.last_anchor().is_some_and(|anchor| !due(&anchor)) {
            return;
        }
        // One at a time: it starts again while others publish, and more of them would only be in each other's way.
        let Some(turn) = self.turn_to_collect() else { return };
        let namespace = self.clone();
        self.coord().runtime().spawn(async move {
            let _turn = turn;
            let collected = async {
                let (anchor, _) = namespace.anchor().await?;
                if due(&anchor) { namespace.collect().await.map(drop) } else { Ok(()) }
            };
            if let Err(error) = Box::pin(collected).await {
                tracing::warn!(namespace = namespace.name(), %error, "old releases were not collected");
            }
        });
    }

    /// Where the log begins, with the version of the key; `None` if there is no key yet.
    pub(crate) async fn anchor(&self) -> Result<(Anchor, Option<Version>)> {
        let found = match self.coord().get(&self.paths().anchor).await? {
            Some(entry) => (read(&entry)?, Some(entry.meta.version)),
            None => (Anchor::default(), None),
        };
        self.remember_anchor(&found.0);
        Ok(found)
    }

    /// The next keys to remove, the oldest first; `None` if there are none.
    async fn next_batch(&self) -> Result<Option<(Txn, Batch)>> {
        let Some(seen) = self.look().await? else { return Ok(None) };
        let (before, anchored) = self.anchor().await?;
        let (release_floor, log_floor) = self.settings().retention.floor(&seen.head);
        let (release, releases) = self.old_releases(&seen.head, before.release, release_floor).await?;
        let (generation, previous_sha256, entries) = self.old_entries(&before, log_floor).await?;
        let anchor = Anchor { generation, previous_sha256, release };
        if releases.is_empty() && entries.is_empty() {
            return Ok(None);
        }
        let paths = self.paths();
        // No head may come to point at a release while it is removed, and two may not move the anchor.
        let txn = Txn::new().check(Check::Version(paths.head.clone(), seen.version));
        let bytes = write(&anchor)?;
        let txn = match anchored {
            Some(version) => txn
                .check(Check::Version(paths.anchor.clone(), version))
                .op(Op::Update { key: paths.anchor.clone(), value: bytes }),
            None => txn.create(&paths.anchor, bytes, Lifetime::Persistent),
        };
        let txn = releases.iter().chain(&entries).fold(txn, Txn::delete);
        Ok(Some((txn, Batch { anchor, releases, entries })))
    }

    /// Old releases that are there, half a batch of them at most, and the oldest that is not among them or before them.
    async fn old_releases(
        &self,
        head: &Head,
        oldest: ReleaseVersion,
        floor: ReleaseVersion,
    ) -> Result<(ReleaseVersion, Vec<Key>)> {
        let mut versions = self.releases().await?;
        versions.sort_unstable();
        let mut old = Vec::new();
        for version in versions.into_iter().take_while(|version| *version < floor) {
            if head.releases().any(|release| release.version == version) {
                continue;
            }
            let key = self.paths().release(version)?;
            if old.len() == BATCH / 2 || !self.release_is_old(&key).await? {
                return Ok((version.max(oldest), old));
            }
            old.push(key);
        }
        Ok((floor.max(oldest), old))
    }

    async fn release_is_old(&self, key: &Key) -> Result<bool> {
        let retention = &self.settings().retention;
        if retention.within.is_none() {
            return Ok(true);
        }
        let entry = self.coord().get(key).await?;
        // What nobody can read has no age that counts.
        let release = entry.and_then(|entry| Release::read(&entry).ok());
        Ok(release.is_none_or(|(release, _)| retention.is_old(release.made.at)))
    }

    /// Old entries of the log, half a batch of them at most; the first generation after them, and the digest of the entry
    /// before that one.
    async fn old_entries(
        &self,
        anchor: &Anchor,
        floor: Generation,
    ) -> Result<(Generation, Option<Digest>, Vec<Key>)> {
        let listing = self.coord().list(&self.paths().log).await?;
        let names = listing.children.iter().filter_map(|child| Generation::from_name(child.key.name()));
        let mut generations: Vec<_> = names.filter(|generation| *generation < floor).collect();
        generations.sort_unstable();
        let mut old = Vec::new();
        for generation in generations.into_iter().take(BATCH / 2) {
            if !self.entry_is_old(generation).await? {
                break;
            }
            old.push(generation);
        }
        let last = match old.last() {
            Some(last) => self.logged(*last).await?.map(|entry| (last.next(), Digest::of(&entry.value))),
            None => None,
        };
        let unmoved = (anchor.generation, anchor.previous_sha256);
        let (next, digest) = match last {
            Some((next, digest)) if next > anchor.generation => (next, Some(digest)),
            _ => unmoved,
        };
        let keys = old.into_iter().map(|generation| self.paths().entry(generation)).collect::<Result<_>>()?;
        Ok((next, digest, keys))
    }

    async fn entry_is_old(&self, generation: Generation) -> Result<bool> {
        let retention = &self.settings().retention;
        if retention.within.is_none() {
            return Ok(true);
        }
        let entry = self.logged(generation).await?;
        let logged = entry.and_then(|entry| LogEntry::decode(&entry).ok());
        Ok(logged.is_none_or(|(logged, _)| retention.is_old(logged.made.at)))
    }
}
