//! Who may hold together: locks, readers and writers, permits, re-entry by one owner.

use super::{
    History, Stats, Verdict, Violation,
    facts::Mode,
    holds::{Ask, Grant, asks, exclude, grants, permits},
};

/// No two holds that exclude each other believe in themselves at the same moment.
///
/// A hold believes from the return of the grant to the last time that it surely did: a validity check that said yes,
/// or the call of release. Holds of one owner are one hold (re-entry), readers share, and the permits of all believers
/// of a semaphore are at most its number.
///
/// # Errors
/// `exclusion`: the two holds, or the hold that is one too many.
pub fn exclusion(history: &History) -> Verdict {
    no_clash(history, "exclusion", |ask| ask.last_belief())
}

/// One grant a release: a hold is granted only behind an event that made way for it.
///
/// That is, of each earlier hold that excludes it: its release was called, its loss was told, or its entry left the
/// line. Stricter than [`exclusion`] for holds that nobody asks whether they are valid, and blind to beliefs.
///
/// # Errors
/// `one-grant`: the two holds, or the hold that is one too many.
pub fn one_grant_a_release(history: &History) -> Verdict {
    no_clash(history, "one-grant", |ask| Some(ask.made_way()))
}

/// Sweeps over the grants of each name with the holds that last until `end`.
fn no_clash(history: &History, rule: &'static str, end: impl Fn(&Ask<'_>) -> Option<usize>) -> Verdict {
    let mut stats = Stats::default();
    let asks = asks(history);
    for (name, grants) in grants(&asks) {
        let mut active: Vec<(&Ask<'_>, Grant)> = Vec::new();
        for (ask, grant) in grants {
            active.retain(|(earlier, _)| end(earlier).is_some_and(|end| end > grant.at));
            stats.judged += 1;
            stats.contended += usize::from(waited_for_others(&asks, ask, grant));
            let others = || active.iter().filter(|(earlier, _)| earlier.owner != ask.owner);
            if let Some((_, earlier)) = others().find(|(earlier, _)| exclude(earlier.mode, ask.mode)) {
                let message =
                    format!("{name}: held twice, with tokens {} and {}", earlier.token, grant.token);
                return Err(Violation::new(rule, message, [earlier.at, grant.at]));
            }
            active.push((ask, grant));
            if let Mode::Permits { of, .. } = ask.mode {
                let held: u64 = active.iter().map(|(hold, _)| permits(hold.mode)).sum();
                if held > of {
                    let message = format!("{name}: {held} permits held of {of}");
                    return Err(Violation::new(rule, message, active.iter().map(|(_, grant)| grant.at)));
                }
            }
        }
    }
    Ok(stats)
}

/// Whether somebody else asked for the same name, or held it, while this ask waited.
fn waited_for_others(asks: &std::collections::BTreeMap<u64, Ask<'_>>, ask: &Ask<'_>, grant: Grant) -> bool {
    asks.values().any(|other| {
        other.name == ask.name
            && other.asked != ask.asked
            && other.asked < grant.at
            && other.refused.unwrap_or(usize::MAX).min(other.made_way()) > ask.asked
    })
}
