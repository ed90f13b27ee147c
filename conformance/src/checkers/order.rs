//! The order of grants: tokens, and the line.

use std::collections::BTreeMap;

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Hold, Line, Mode, Token, Why},
    holds::{Ask, Grant, asks, exclude, grants, permits},
};

/// Each grant has a larger token than every earlier grant of the name that it excludes (promise G1).
///
/// For readers and permits, which may be granted in any order, tokens are at least unique. A place in the line that is
/// entered again, by its owner or by another task of its process, keeps its token.
///
/// # Errors
/// `token`: the grant whose token is too small, or was used before.
pub fn tokens(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let asks = asks(history);
    for (name, grants) in grants(&asks) {
        // The largest so far: of holds that exclude all, and of all.
        let (mut exclusive, mut any): (Option<Grant>, Option<Grant>) = (None, None);
        let mut used: BTreeMap<Token, Grant> = BTreeMap::new();
        for (ask, grant) in grants {
            stats.judged += 1;
            let alone = matches!(ask.mode, Mode::Exclusive | Mode::Permits { of: 1, .. });
            let bound = if alone { any } else { exclusive };
            let again = used.get(&grant.token).filter(|earlier| earlier.entry != grant.entry).copied();
            let larger = bound.filter(|earlier| earlier.token > grant.token);
            if let Some(earlier) = larger.or(again) {
                let message = format!("{name}: token {} behind token {}", grant.token, earlier.token);
                return Err(Violation::new("token", message, [earlier.at, grant.at]));
            }
            stats.contended += usize::from(bound.is_some());
            used.insert(grant.token, grant);
            any = Some(larger_of(any, grant));
            if alone {
                exclusive = Some(larger_of(exclusive, grant));
            }
        }
    }
    Ok(stats)
}

fn larger_of(one: Option<Grant>, other: Grant) -> Grant {
    one.filter(|one| one.token > other.token).unwrap_or(other)
}

/// First come, first served (promise G5): no grant passes an entry that stands ahead of it in the line.
///
/// Judged by the line as the store has it: entries of dead sessions count until the store removes them, and not
/// longer. A reader passes readers; permits pass where they fit behind all who are ahead. An owner who holds already
/// passes everybody (re-entry, and a writer's step down to reader). Where the history has no line, the entries of
/// grants that exclude each other must still be in order.
///
/// # Errors
/// `fifo`: the grant and whom it passed.
pub fn fifo(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let asks = asks(history);
    // Of each name, the entries in its line with their mode and the moment they joined.
    let mut lines: BTreeMap<&str, BTreeMap<u64, (Mode, usize)>> = BTreeMap::new();
    let mut granted: BTreeMap<&str, Vec<(&Ask<'_>, Grant)>> = BTreeMap::new();
    for (at, what) in history.facts() {
        match what {
            What::Line(Line::Joined { name, entry, mode, .. }) => {
                lines.entry(name).or_default().insert(*entry, (*mode, at));
            }
            What::Line(Line::Left { name, entry, .. }) => {
                lines.entry(name).or_default().remove(entry);
            }
            What::Hold(Hold::Granted { ask, .. }) => {
                let Some((ask, grant)) = asks.get(ask).and_then(|ask| Some((ask, ask.granted?))) else {
                    continue;
                };
                let line = lines.entry(ask.name).or_default();
                let earlier = granted.entry(ask.name).or_default();
                stats.judged += 1;
                stats.contended += usize::from(line.len() > 1);
                let holds =
                    |(other, _): &(&Ask<'_>, Grant)| other.owner == ask.owner && other.made_way() > at;
                if !earlier.iter().any(holds) {
                    passes_nobody(ask, grant, line, earlier)?;
                }
                earlier.push((ask, grant));
            }
            _ => {}
        }
    }
    Ok(stats)
}

fn passes_nobody(
    ask: &Ask<'_>,
    grant: Grant,
    line: &BTreeMap<u64, (Mode, usize)>,
    earlier: &[(&Ask<'_>, Grant)],
) -> Result<(), Violation> {
    let ahead = || line.range(..grant.entry).map(|(_, &(mode, joined))| (mode, joined));
    if let Some((_, joined)) = ahead().find(|(mode, _)| exclude(*mode, ask.mode)) {
        let message = format!("{}: entry {} was granted with others ahead of it", ask.name, grant.entry);
        return Err(Violation::new("fifo", message, [joined, grant.at]));
    }
    if let Mode::Permits { take, of } = ask.mode {
        let taken: u64 = ahead().map(|(mode, _)| permits(mode)).sum();
        if taken + take > of {
            let message = format!("{}: {take} permits of {of} granted behind {taken} asked for", ask.name);
            return Err(Violation::new("fifo", message, ahead().map(|(_, joined)| joined).chain([grant.at])));
        }
    }
    let passed = |(other, one): &&(&Ask<'_>, Grant)| one.entry > grant.entry && exclude(other.mode, ask.mode);
    if let Some((_, one)) = earlier.iter().find(passed) {
        let message = format!("{}: entry {} was granted behind entry {}", ask.name, grant.entry, one.entry);
        return Err(Violation::new("fifo", message, [one.at, grant.at]));
    }
    Ok(())
}

/// Re-entry: while an owner is inside, its entry stays, and entering again changes neither entry nor token.
///
/// # Errors
/// `re-entry`: an entry that its owner's client deleted while holds of it were not released; or two holds of one owner
/// in one mode at the same time that differ in entry or token.
pub fn re_entry(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let asks = asks(history);
    for (name, grants) in grants(&asks) {
        for (at, (ask, grant)) in grants.iter().enumerate() {
            stats.judged += 1;
            for (other, earlier) in &grants[..at] {
                let inside =
                    other.owner == ask.owner && other.mode == ask.mode && other.made_way() > grant.at;
                if !inside || !matches!(ask.mode, Mode::Exclusive | Mode::Shared) {
                    continue;
                }
                stats.contended += 1;
                if (earlier.entry, earlier.token) != (grant.entry, grant.token) {
                    let message = format!("{name}: owner {} entered again with another entry", ask.owner);
                    return Err(Violation::new("re-entry", message, [earlier.at, grant.at]));
                }
            }
            if let Some(gone) =
                ask.deleted_by_owner().filter(|&gone| ask.releasing.is_none_or(|at| at > gone))
            {
                let message = format!("{name}: the entry was deleted while owner {} was inside", ask.owner);
                return Err(Violation::new("re-entry", message, [grant.at, gone]));
            }
        }
    }
    Ok(stats)
}

impl Ask<'_> {
    /// When its own client deleted the entry, if it had not been told before that it is lost.
    fn deleted_by_owner(&self) -> Option<usize> {
        let (gone, why) = self.entry_gone()?;
        (why == Why::Owner && self.ended().is_none_or(|ended| ended > gone)).then_some(gone)
    }
}
