//! Permits of a semaphore whose number changes.

use std::collections::BTreeMap;

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Hold, Line, Resize},
    holds::{asks, permits},
};

/// A change of the number: when it was called, and when it was done.
struct Change<'h> {
    name: &'h str,
    to: u64,
    called: usize,
    done: Option<usize>,
}

/// A permit is granted only if, together with all who stand ahead, no more are out than there may have been at some
/// moment between joining and the grant.
///
/// A number may be in force from when its change is called until another change, called after it was done, is done.
/// Nobody loses a permit when there are fewer: who holds already is not judged again. The mode of an ask says only how
/// much is taken.
///
/// # Errors
/// `permits`: the grant that was one too many.
pub fn resize(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let asks = asks(history);
    let changes = changes(history);
    // Of each name, the entries in its line: how much each takes, and when it joined.
    let mut lines: BTreeMap<&str, BTreeMap<u64, (u64, usize)>> = BTreeMap::new();
    for (at, what) in history.facts() {
        match what {
            What::Line(Line::Joined { name, entry, mode, .. }) => {
                lines.entry(name).or_default().insert(*entry, (permits(*mode), at));
            }
            What::Line(Line::Left { name, entry, .. }) => {
                lines.entry(name).or_default().remove(entry);
            }
            What::Hold(Hold::Granted { ask, entry, .. }) => {
                let Some(ask) = asks.get(ask) else { continue };
                let of_name = changes.values().filter(|change| change.name == ask.name);
                let line = lines.entry(ask.name).or_default();
                let Some(&(_, joined)) = line.get(entry) else { continue };
                let Some(most) = most(&of_name.collect::<Vec<_>>(), joined, at) else { continue };
                let out: u64 = line.range(..=entry).map(|(_, (take, _))| take).sum();
                stats.judged += 1;
                stats.contended += usize::from(line.len() > 1);
                if out > most {
                    let message = format!("{}: {out} permits out, and at most {most} agreed on", ask.name);
                    return Err(Violation::new("permits", message, [joined, at]));
                }
            }
            _ => {}
        }
    }
    Ok(stats)
}

fn changes(history: &History) -> BTreeMap<u64, Change<'_>> {
    let mut changes = BTreeMap::new();
    for (at, what) in history.facts() {
        match what {
            What::Resize(Resize::Calling { resize, name, to }) => {
                changes.insert(*resize, Change { name, to: *to, called: at, done: None });
            }
            What::Resize(Resize::Done { resize }) => {
                if let Some(change) = changes.get_mut(resize) {
                    change.done = Some(at);
                }
            }
            _ => {}
        }
    }
    changes
}

/// The largest number that may have been in force at some moment from `from` to `to`.
fn most(changes: &[&Change<'_>], from: usize, to: usize) -> Option<u64> {
    let replaced = |change: &Change<'_>| {
        let done =
            |at: usize| changes.iter().any(|other| other.called > at && other.done.is_some_and(|d| d < from));
        change.done.is_some_and(done)
    };
    changes.iter().filter(|change| change.called < to && !replaced(change)).map(|change| change.to).max()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::Mode,
            story::{breaks, story},
        },
        *,
    };

    const ONE: Mode = Mode::Permits { take: 1, of: u64::MAX };

    fn calling(resize: u64, to: u64) -> What {
        Resize::Calling { resize, name: "/s".into(), to }.into()
    }

    fn done(resize: u64) -> What {
        Resize::Done { resize }.into()
    }

    fn asked(ask: u64) -> What {
        Hold::Asked { ask, name: "/s".into(), owner: ask, mode: ONE, group: None }.into()
    }

    fn joined(entry: u64) -> What {
        Line::Joined { name: "/s".into(), entry, session: entry, mode: ONE, ask: None }.into()
    }

    fn granted(ask: u64) -> What {
        Hold::Granted { ask, token: ask.into(), entry: ask }.into()
    }

    #[test]
    fn no_more_than_the_number() {
        let two = |number| {
            let [one, other] = [asked(1), asked(2)];
            story([calling(9, number), done(9), one, other, joined(1), granted(1), joined(2), granted(2)])
        };
        assert_eq!(resize(&two(2)).unwrap().judged, 2);
        breaks(resize(&two(1)), "permits");
    }

    #[test]
    fn a_change_counts_for_those_who_join_when_it_is_done() {
        let shrink = |first: What, second: What| {
            story([
                calling(8, 2),
                done(8),
                asked(1),
                joined(1),
                granted(1),
                calling(9, 1),
                first,
                second,
                asked(2),
                granted(2),
            ])
        };
        breaks(resize(&shrink(done(9), joined(2))), "permits");
        // It joined before: it may know the old number.
        resize(&shrink(joined(2), done(9))).unwrap();
    }

    #[test]
    fn of_changes_that_overlap_either_may_stand() {
        let overlap = story([
            calling(8, 2),
            calling(9, 1),
            done(8),
            done(9),
            asked(1),
            asked(2),
            joined(1),
            granted(1),
            joined(2),
            granted(2),
        ]);
        resize(&overlap).unwrap();
    }
}
