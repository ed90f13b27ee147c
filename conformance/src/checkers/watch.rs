//! Watches, against what the store did.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    History, Stats, Verdict, Violation, What,
    facts::Watch,
    ledger::{Ledger, State},
};

/// How much a watch must tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Every change.
    EveryChange,
    /// Of several changes of one key in a row, the last (see `Guarantees::watch_every_change`).
    LastOfSeveral,
}

/// A watch tells what happened, in order, once, without a gap that it does not announce by a snapshot, and in the end
/// all of it.
///
/// # Errors
/// `watch-order`: a revision that goes back; `watch-twice`: a change told again; `watch-invented`: a change or a
/// snapshot that was not so; `watch-gap`: changes left out, or a watch that begins without a snapshot; `watch-final`:
/// an open watch that is not up to date at the end of the run.
pub fn watch(history: &History, detail: Detail) -> Verdict {
    let ledger = Ledger::of(history);
    let mut stats = Stats::default();
    let mut views: BTreeMap<u64, View<'_>> = BTreeMap::new();
    for (at, what) in history.facts() {
        let What::Watch(fact) = what else { continue };
        stats.judged += 1;
        let (Watch::Opened { watch, .. }
        | Watch::Snapshot { watch, .. }
        | Watch::Put { watch, .. }
        | Watch::Deleted { watch, .. }
        | Watch::Progress { watch, .. }
        | Watch::Closed { watch }) = fact;
        match fact {
            Watch::Opened { dir, after, .. } => {
                views.insert(*watch, View::new(&ledger, *watch, dir, *after, detail));
            }
            Watch::Closed { .. } => {
                views.remove(watch);
            }
            fact => {
                if let Some(view) = views.get_mut(watch) {
                    view.tell(fact, at)?;
                }
            }
        }
    }
    for view in views.values() {
        stats.contended += usize::from(view.told.len() > 1);
        view.finish()?;
    }
    Ok(stats)
}

/// What one watch has told so far.
struct View<'h> {
    id: u64,
    detail: Detail,
    ledger: &'h Ledger<'h>,
    /// The changes that concern it: their indices in the ledger.
    changes: Vec<usize>,
    /// Those that it told, or that a snapshot covers.
    told: BTreeSet<usize>,
    /// Where it stands; `None` before the first snapshot.
    revision: Option<u64>,
    /// What its consumer has by now.
    mirror: State,
    dir: &'h str,
    last: Option<usize>,
}

impl<'h> View<'h> {
    fn new(ledger: &'h Ledger<'h>, id: u64, dir: &'h str, after: Option<u64>, detail: Detail) -> Self {
        let changes = ledger.below(dir);
        let (told, mirror) = (BTreeSet::new(), State::new());
        let mut view = Self { id, detail, ledger, changes, told, revision: None, mirror, dir, last: None };
        if let Some(after) = after {
            view.cover(after, ledger.state(dir, after));
        }
        view
    }

    /// Counts all changes up to `revision` as told.
    fn cover(&mut self, revision: u64, state: State) {
        let covered = self.changes.iter().filter(|&&change| self.ledger.revision(change) <= revision);
        self.told.extend(covered);
        self.mirror = state;
        self.revision = Some(revision);
    }

    fn wrong(&self, rule: &'static str, what: &str, at: usize) -> Violation {
        let events = self.last.into_iter().chain([at]);
        Violation::new(rule, format!("watch {} of {:?}: {what}", self.id, self.dir), events)
    }

    fn tell(&mut self, fact: &'h Watch, at: usize) -> Result<(), Violation> {
        let revision = match fact {
            Watch::Snapshot { revision, .. }
            | Watch::Put { revision, .. }
            | Watch::Deleted { revision, .. }
            | Watch::Progress { revision, .. } => *revision,
            Watch::Opened { .. } | Watch::Closed { .. } => return Ok(()),
        };
        if self.revision.is_some_and(|before| revision < before) {
            return Err(self.wrong("watch-order", "its revision goes back", at));
        }
        match fact {
            Watch::Snapshot { entries, .. } => {
                let so = match self.detail {
                    Detail::EveryChange => *entries == self.ledger.state(self.dir, revision),
                    // Read key by key, so that each may be of another moment.
                    Detail::LastOfSeveral => {
                        entries.iter().all(|(key, (by, value))| self.ledger.was_put(key, *by, *value))
                    }
                };
                if !so {
                    return Err(self.wrong("watch-invented", "a snapshot that was never so", at));
                }
                self.cover(revision, entries.clone());
            }
            _ if self.revision.is_none() => {
                return Err(self.wrong("watch-gap", "it begins without a snapshot", at));
            }
            Watch::Put { key, value, .. } => {
                self.change(at, key, |ledger, change| ledger.is_put(change, key, revision, *value))?;
                self.nothing_left_out(revision, at, true)?;
                self.mirror.insert(key.clone(), (revision, *value));
            }
            Watch::Deleted { key, .. } => {
                // A store that does not tell when gives the largest revision that it told before.
                self.change(at, key, |ledger, change| {
                    ledger.is_gone(change, key) && revision <= ledger.revision(change)
                })?;
                self.nothing_left_out(revision, at, true)?;
                self.mirror.remove(key);
            }
            _ => self.nothing_left_out(revision, at, false)?,
        }
        self.revision = Some(revision);
        self.last = Some(at);
        Ok(())
    }

    /// Marks the change that was told, and those of its key that it makes up for.
    fn change(
        &mut self,
        at: usize,
        key: &str,
        is_it: impl Fn(&Ledger<'_>, usize) -> bool,
    ) -> Result<(), Violation> {
        let all = || self.changes.iter().copied().filter(|&change| is_it(self.ledger, change));
        let Some(found) = all().find(|change| !self.told.contains(change)) else {
            return Err(match all().next() {
                Some(_) => self.wrong("watch-twice", &format!("{key} told twice"), at),
                None => self.wrong("watch-invented", &format!("{key} did not change so"), at),
            });
        };
        let skipped =
            self.changes.iter().copied().find(|change| {
                *change < found && !self.told.contains(change) && self.ledger.key(*change) == key
            });
        if let (Some(_), Detail::EveryChange) = (skipped, self.detail) {
            return Err(self.wrong("watch-gap", &format!("a change of {key} was left out"), at));
        }
        let made_up: Vec<usize> = self
            .changes
            .iter()
            .copied()
            .filter(|&change| change <= found && self.ledger.key(change) == key)
            .collect();
        self.told.extend(made_up);
        Ok(())
    }

    /// All changes before `revision` must have been told; those by it too if `open` is false, since a transaction
    /// changes several keys by one revision.
    fn nothing_left_out(&self, revision: u64, at: usize, open: bool) -> Result<(), Violation> {
        if self.detail == Detail::LastOfSeveral {
            return Ok(());
        }
        let due = |change: usize| {
            let by = self.ledger.revision(change);
            by < revision || (by == revision && !open)
        };
        match self.changes.iter().find(|&&change| due(change) && !self.told.contains(&change)) {
            Some(&change) => {
                Err(self.wrong("watch-gap", &format!("{} was left out", self.ledger.key(change)), at))
            }
            None => Ok(()),
        }
    }

    fn finish(&self) -> Result<(), Violation> {
        if self.detail == Detail::LastOfSeveral {
            let same = self.mirror == self.ledger.state(self.dir, u64::MAX);
            let last = self.last.unwrap_or_default();
            return if same { Ok(()) } else { Err(self.wrong("watch-final", "it is not up to date", last)) };
        }
        match self.changes.iter().find(|change| !self.told.contains(change)) {
            Some(&change) => {
                let message = format!("{} was never told", self.ledger.key(change));
                Err(self.wrong("watch-final", &message, self.ledger.event(change)))
            }
            None => Ok(()),
        }
    }
}
