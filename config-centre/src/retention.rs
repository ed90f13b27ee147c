//! What is kept of the past.

use std::time::Duration;

use bytes::Bytes;
use coord_api::{Key, Lifetime, Result, Txn, TxnOutcome, Version};

use crate::{
    Digest, Namespace, WallTime,
    model::{Anchor, Generation, Head, LogEntry, Release, ReleaseVersion, read, write},
};

/// Most keys that one transaction removes.
const BATCH: usize = 64;
/// How often a batch is tried against rollbacks and others who collect.
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
#[derive(Debug)]
struct Batch {
    anchor: Anchor,
    releases: Vec<Key>,
    entries: Vec<Key>,
}

impl Batch {
    /// Whether more may be left of what was old.
    fn is_full(&self) -> bool {
        self.releases.len().max(self.entries.len()) >= BATCH / 2
    }
}

impl Namespace {
    /// Removes what [retention](Retention) does not keep, and says how much that was.
    ///
    /// Publishers do it by themselves, in the background and now and then; this is for those who want it now. What a head
    /// points at is not removed, also if the head is changed at the same moment. What others publish meanwhile holds
    /// nothing up, and what it makes old is left for the next time.
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
                if !batch.is_full() {
                    break;
                }
            } else {
                refused += 1;
            }
        }
        Ok(collected)
    }

    /// Collects if there is something to, and never fails a change that was made.
    pub(crate) fn collect_in_background(&self, head: &Head) {
        let (namespace, head, generation) = (self.clone(), head.clone(), head.generation);
        let due = move |anchor: &Anchor| namespace.settings().retention.is_due(&head, anchor);
        if self.last_anchor().is_some_and(|anchor| !due(&anchor)) {
            return;
        }
        // One at a time: of several that look at the same moment, one removes what the others have found.
        let Some(turn) = self.turn_to_collect() else { return };
        let namespace = self.clone();
        self.coord().runtime().spawn(async move {
            let collected = async {
                let (anchor, _) = namespace.anchor().await?;
                if due(&anchor) {
                    namespace.collect().await?;
                }
                drop(turn);
                namespace.peek().await
            };
            match Box::pin(collected).await {
                // Those who published meanwhile had no turn, and went on.
                Ok(Some(seen)) if seen.head.generation > generation => {
                    namespace.collect_in_background(&seen.head);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(namespace = namespace.name(), %error, "old releases were not collected");
                }
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

    /// The anchor as it is stored, for who touches it and changes nothing; with the version of the key.
    pub(crate) async fn stored_anchor(&self) -> Result<(Bytes, Option<Version>)> {
        Ok(match self.coord().get(&self.paths().anchor).await? {
            Some(entry) => (entry.value, Some(entry.meta.version)),
            None => (write(&Anchor::default())?, None),
        })
    }

    /// Writes the anchor, if it is in the version that was seen.
    pub(crate) fn write_anchor(&self, txn: Txn, value: Bytes, seen: Option<Version>) -> Txn {
        let key = &self.paths().anchor;
        match seen {
            Some(version) => txn.check_version(key, version).update(key, value),
            None => txn.create(key, value, Lifetime::Persistent),
        }
    }

    /// The next keys to remove, the oldest first; `None` if there are none.
    ///
    /// The transaction checks the anchor and not the head, which may change at any moment while others publish. What is
    /// old and not pointed at stays so: every change keeps what the head points at or adds releases of its own; only a
    /// rollback brings an old one back, and it writes the anchor with the head. So whoever reads the anchor, and then the
    /// head, has seen all rollbacks there were, and is refused if there was one since.
    async fn next_batch(&self) -> Result<Option<(Txn, Batch)>> {
        let (before, anchored) = self.anchor().await?;
        let Some(seen) = self.peek().await? else { return Ok(None) };
        let (release_floor, log_floor) = self.settings().retention.floor(&seen.head);
        let (release, releases) = self.old_releases(&seen.head, before.release, release_floor).await?;
        let (generation, previous_sha256, entries) = self.old_entries(&before, log_floor).await?;
        let anchor = Anchor { generation, previous_sha256, release };
        if releases.is_empty() && entries.is_empty() {
            return Ok(None);
        }
        let txn = self.write_anchor(Txn::new(), write(&anchor)?, anchored);
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

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
