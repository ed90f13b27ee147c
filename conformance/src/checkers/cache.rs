//! Caches: a listener can rebuild the cache from its events, and readers never go back.

use std::collections::BTreeMap;

use super::{
    History, Stats, Verdict, Violation, What,
    facts::Cache,
    ledger::{Ledger, State},
};

/// What a cache has told so far.
struct Copy<'h> {
    id: u64,
    dir: &'h str,
    /// What a listener that applies the events has by now.
    mirror: State,
    initialised: Option<usize>,
    /// What the last reader saw: the moment, the keys, the event.
    read: Option<(u64, &'h State, usize)>,
    last: usize,
}

/// The events of a cache are the steps of a mirror: a key is created only if it was absent, changed only with the value
/// before it, deleted only if it was there; in the end the mirror shows what the store has. What readers see is never
/// older than what they saw.
///
/// # Errors
/// `cache-mirror`: an event that does not follow from those before; `cache-invented`: a value that nobody stored;
/// `cache-order`: a key told again, or older than told before; `cache-initialised`: initialised twice, or never;
/// `cache-read`: a reader who saw something older than a reader before; `cache-final`: an open cache whose mirror is
/// not what the store has at the end of the run.
pub fn cache(history: &History) -> Verdict {
    let ledger = Ledger::of(history);
    let mut stats = Stats::default();
    let mut copies: BTreeMap<u64, Copy<'_>> = BTreeMap::new();
    for (at, what) in history.facts() {
        let What::Cache(fact) = what else { continue };
        stats.judged += 1;
        let (Cache::Opened { cache, .. }
        | Cache::Initialised { cache }
        | Cache::Put { cache, .. }
        | Cache::Deleted { cache, .. }
        | Cache::Resynced { cache }
        | Cache::Read { cache, .. }
        | Cache::Closed { cache }) = fact;
        match fact {
            Cache::Opened { dir, .. } => {
                let mirror = State::new();
                let copy = Copy { id: *cache, dir, mirror, initialised: None, read: None, last: at };
                copies.insert(*cache, copy);
            }
            Cache::Closed { .. } => {
                copies.remove(cache);
            }
            fact => {
                if let Some(copy) = copies.get_mut(cache) {
                    copy.tell(&ledger, fact, at)?;
                }
            }
        }
    }
    for copy in copies.values() {
        stats.contended += usize::from(copy.mirror.len() > 1);
        copy.finish(&ledger)?;
    }
    Ok(stats)
}

impl<'h> Copy<'h> {
    fn wrong(&self, rule: &'static str, what: &str, at: usize) -> Violation {
        Violation::new(rule, format!("cache {} of {:?}: {what}", self.id, self.dir), [self.last, at])
    }

    fn tell(&mut self, ledger: &Ledger<'_>, fact: &'h Cache, at: usize) -> Result<(), Violation> {
        match fact {
            Cache::Put { key, old, new, revision, .. } => {
                if !ledger.was_put(key, *revision, *new) {
                    return Err(self.wrong("cache-invented", &format!("{key} never had this value"), at));
                }
                let before = self.mirror.get(key).copied();
                if before.map(|(_, value)| value) != *old {
                    let message = format!("{key} told as {old:?} -> {new}, but was {before:?}");
                    return Err(self.wrong("cache-mirror", &message, at));
                }
                if before.is_some_and(|(by, _)| by >= *revision) {
                    return Err(self.wrong("cache-order", &format!("{key} goes back to {revision}"), at));
                }
                self.mirror.insert(key.clone(), (*revision, *new));
            }
            Cache::Deleted { key, old, .. } => {
                let before = self.mirror.remove(key);
                if before.is_none_or(|(_, value)| value != *old) {
                    let message = format!("{key} told as gone with {old}, but was {before:?}");
                    return Err(self.wrong("cache-mirror", &message, at));
                }
            }
            Cache::Initialised { .. } => {
                if self.initialised.replace(at).is_some() {
                    return Err(self.wrong("cache-initialised", "initialised twice", at));
                }
            }
            Cache::Read { revision, entries, .. } => {
                if let Some((before, seen, when)) = self.read.replace((*revision, entries, at)) {
                    let older =
                        entries.iter().any(|(key, (by, _))| seen.get(key).is_some_and(|(was, _)| was > by));
                    if older || before > *revision {
                        let message = format!("cache {}: a reader saw something older", self.id);
                        return Err(Violation::new("cache-read", message, [when, at]));
                    }
                }
                return Ok(());
            }
            Cache::Opened { .. } | Cache::Resynced { .. } | Cache::Closed { .. } => {}
        }
        self.last = at;
        Ok(())
    }

    fn finish(&self, ledger: &Ledger<'_>) -> Result<(), Violation> {
        if self.initialised.is_none() {
            return Err(self.wrong("cache-initialised", "never initialised", self.last));
        }
        let state = ledger.state(self.dir, u64::MAX);
        if self.mirror == state {
            return Ok(());
        }
        let differs = |(key, has): &(&String, &(u64, u64))| self.mirror.get(*key) != Some(*has);
        let key = state
            .iter()
            .find(differs)
            .or_else(|| self.mirror.iter().find(|(key, _)| !state.contains_key(*key)));
        let message = format!("it is not up to date: {:?}", key.map(|(key, _)| key));
        Err(self.wrong("cache-final", &message, self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::Stored,
            story::{breaks, story},
        },
        *,
    };

    fn stored(key: &str, revision: u64) -> What {
        Stored::Put { key: key.into(), revision, value: revision, session: None }.into()
    }

    fn put(key: &str, old: Option<u64>, new: u64) -> What {
        Cache::Put { cache: 1, key: key.into(), old, new, revision: new }.into()
    }

    fn deleted(key: &str, old: u64) -> What {
        Cache::Deleted { cache: 1, key: key.into(), old }.into()
    }

    fn read<const N: usize>(revision: u64, entries: [(&str, u64); N]) -> What {
        let entries = entries.into_iter().map(|(key, by)| (key.into(), (by, by))).collect();
        Cache::Read { cache: 1, revision, entries }.into()
    }

    fn initialised() -> What {
        Cache::Initialised { cache: 1 }.into()
    }

    /// What a cache that tells `told` is worth, when /d/a was put by 1 and 3, and /d/b by 2 and deleted by 4.
    fn judge<const N: usize>(told: [What; N]) -> Verdict {
        let gone = Stored::Gone { key: "/d/b".into(), revision: 4, with_session: false };
        let mut history = story([
            stored("/d/a", 1),
            stored("/d/b", 2),
            stored("/d/a", 3),
            gone.into(),
            Cache::Opened { cache: 1, dir: "/d/".into() }.into(),
        ]);
        for fact in told {
            history.record(history.duration(), 0, fact);
        }
        cache(&history)
    }

    #[test]
    fn events_are_the_steps_of_a_mirror() {
        let steps = [
            put("/d/a", None, 1),
            put("/d/b", None, 2),
            initialised(),
            put("/d/a", Some(1), 3),
            deleted("/d/b", 2),
            Cache::Resynced { cache: 1 }.into(),
        ];
        judge(steps).unwrap();
        judge([put("/d/a", None, 3), initialised()]).unwrap();
    }

    #[test]
    fn a_step_that_does_not_follow() {
        breaks(judge([put("/d/a", None, 1), initialised(), put("/d/a", None, 3)]), "cache-mirror");
        breaks(judge([initialised(), put("/d/a", Some(1), 3)]), "cache-mirror");
        breaks(judge([put("/d/a", None, 3), initialised(), deleted("/d/b", 2)]), "cache-mirror");
        let wrong_value =
            judge([put("/d/b", None, 2), put("/d/a", None, 3), initialised(), deleted("/d/b", 3)]);
        breaks(wrong_value, "cache-mirror");
    }

    #[test]
    fn values_are_of_the_store_and_in_order() {
        breaks(judge([initialised(), put("/d/a", None, 2)]), "cache-invented");
        breaks(judge([put("/d/a", None, 3), initialised(), put("/d/a", Some(3), 1)]), "cache-order");
        breaks(judge([put("/d/a", None, 3), initialised(), put("/d/a", Some(3), 3)]), "cache-order");
    }

    #[test]
    fn it_is_initialised_once() {
        breaks(judge([put("/d/a", None, 3)]), "cache-initialised");
        breaks(judge([put("/d/a", None, 3), initialised(), initialised()]), "cache-initialised");
    }

    #[test]
    fn it_is_up_to_date_in_the_end_unless_closed() {
        breaks(judge([put("/d/a", None, 1), initialised()]), "cache-final");
        breaks(judge([put("/d/a", None, 3), put("/d/b", None, 2), initialised()]), "cache-final");
        judge([put("/d/a", None, 1), Cache::Closed { cache: 1 }.into()]).unwrap();
    }

    #[test]
    fn readers_never_go_back() {
        let reads = |first, second| judge([put("/d/a", None, 3), initialised(), first, second]);
        reads(read(1, [("/d/a", 1)]), read(3, [("/d/a", 3)])).unwrap();
        reads(read(3, [("/d/a", 3)]), read(4, [])).unwrap();
        reads(read(0, []), read(3, [("/d/a", 3)])).unwrap();
        breaks(reads(read(3, [("/d/a", 3)]), read(1, [("/d/a", 1)])), "cache-read");
        breaks(reads(read(3, [("/d/a", 3)]), read(3, [("/d/a", 1)])), "cache-read");
    }
}
