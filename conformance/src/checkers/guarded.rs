//! Writes that apply only while a hold holds.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Applied, Guarded, Line, Stored},
};

/// A write that a holder sent.
struct Write<'h> {
    name: &'h str,
    entry: u64,
    key: &'h str,
    sent: usize,
    applied: Option<usize>,
}

/// A write under a guard is applied only while the guard's entry stands in the line, at most once, and as its holder was
/// told.
///
/// # Errors
/// `guarded-late`: applied when the entry was gone; `guarded-twice`: applied twice; `guarded-told`: told as applied and
/// not applied, or told as not applied and applied.
pub fn guarded(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let mut writes: BTreeMap<u64, Write<'_>> = BTreeMap::new();
    let mut standing: BTreeSet<(&str, u64)> = BTreeSet::new();
    let mut told: Vec<(u64, Applied, usize)> = Vec::new();
    for (at, what) in history.facts() {
        match what {
            What::Line(Line::Joined { name, entry, .. }) => drop(standing.insert((name, *entry))),
            What::Line(Line::Left { name, entry, .. }) => drop(standing.remove(&(name.as_str(), *entry))),
            What::Guarded(Guarded::Sent { write, name, entry, key }) => {
                writes.insert(*write, Write { name, entry: *entry, key, sent: at, applied: None });
            }
            What::Guarded(Guarded::Told { write, applied }) => told.push((*write, *applied, at)),
            What::Stored(Stored::Put { key, value, .. }) => {
                let Some(write) = writes.get_mut(value).filter(|write| write.key == key) else { continue };
                stats.judged += 1;
                stats.contended += usize::from(standing.len() > 1);
                if let Some(before) = write.applied.replace(at) {
                    let message = format!("{key}: {value} was written twice");
                    return Err(Violation::new("guarded-twice", message, [before, at]));
                }
                if !standing.contains(&(write.name, write.entry)) {
                    let message = format!("{key}: {value} was written when its guard held no more");
                    return Err(Violation::new("guarded-late", message, [write.sent, at]));
                }
            }
            _ => {}
        }
    }
    for (id, applied, at) in told {
        let Some(write) = writes.get(&id) else { continue };
        stats.unknown += usize::from(applied == Applied::Unknown);
        let wrong = match applied {
            Applied::Yes => write.applied.is_none_or(|when| when > at),
            Applied::No => write.applied.is_some(),
            Applied::Unknown => false,
        };
        if wrong {
            let message = format!("{}: {id} was told as applied: {applied:?}, and that is wrong", write.key);
            return Err(Violation::new("guarded-told", message, [write.sent, at]));
        }
    }
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::{Mode, Why},
            story::{breaks, story},
        },
        *,
    };

    fn joined() -> What {
        Line::Joined { name: "/l".into(), entry: 1, session: 1, mode: Mode::Exclusive, ask: None }.into()
    }

    fn left() -> What {
        Line::Left { name: "/l".into(), entry: 1, why: Why::Owner }.into()
    }

    fn sent() -> What {
        Guarded::Sent { write: 7, name: "/l".into(), entry: 1, key: "/k".into() }.into()
    }

    fn stored(revision: u64) -> What {
        Stored::Put { key: "/k".into(), revision, value: 7, session: None }.into()
    }

    fn told(applied: Applied) -> What {
        Guarded::Told { write: 7, applied }.into()
    }

    #[test]
    fn a_write_is_applied_while_its_guard_holds() {
        let stats = guarded(&story([joined(), sent(), stored(2), told(Applied::Yes), left()])).unwrap();
        assert_eq!(stats.judged, 1);
        guarded(&story([joined(), sent(), left(), told(Applied::No)])).unwrap();
        guarded(&story([joined(), sent(), told(Applied::Unknown), stored(2), left()])).unwrap();
        breaks(guarded(&story([joined(), sent(), left(), stored(2)])), "guarded-late");
    }

    #[test]
    fn an_entry_that_came_back_is_another() {
        let again =
            Line::Joined { name: "/l".into(), entry: 5, session: 1, mode: Mode::Exclusive, ask: None };
        breaks(guarded(&story([joined(), sent(), left(), again.into(), stored(6)])), "guarded-late");
    }

    #[test]
    fn what_is_told_is_so() {
        breaks(guarded(&story([joined(), sent(), told(Applied::Yes), left()])), "guarded-told");
        breaks(guarded(&story([joined(), sent(), stored(2), told(Applied::No)])), "guarded-told");
        breaks(guarded(&story([joined(), sent(), stored(2), stored(3)])), "guarded-twice");
    }
}
