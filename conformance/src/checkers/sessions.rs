//! Sessions: what they own lives exactly as long as they, and nothing is left over.

use std::{collections::BTreeMap, time::Duration};

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Leftover, LeftoverKind, Line, Session, Stored},
};

struct Life {
    ttl: Duration,
    /// The last renewal that the store accepted.
    renewed: (usize, Duration),
    closed: Option<(usize, Duration)>,
    /// The first of its keys that went with it.
    buried: Option<usize>,
}

impl Life {
    /// When the store must begin to treat it as dead, at the latest.
    fn dead_at(&self) -> Duration {
        let expires = self.renewed.1 + self.ttl;
        self.closed.map_or(expires, |(_, closed)| closed.min(expires))
    }
}

/// An ephemeral key is there exactly while its session lives (promise G6).
///
/// A session lives from its opening until it is closed, or until its ttl has passed since the last renewal that the
/// store accepted; `bound` is how much later the store may take its keys away. Deleting a key is no matter of this
/// rule.
///
/// # Errors
/// `ephemeral-early`: a key that went with a session that lived; `ephemeral-late`: a key that outlived its session;
/// `session-back`: a session that was renewed, or got a key, behind its end.
pub fn ephemeral(history: &History, bound: Duration) -> Verdict {
    let mut stats = Stats::default();
    let mut lives: BTreeMap<u64, Life> = BTreeMap::new();
    // Of each ephemeral key that is there: its session, and the event that put it.
    let mut keys: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (at, event) in history.events().iter().enumerate() {
        let now = event.at;
        match &event.what {
            What::Session(Session::Opened { session, ttl }) => {
                let life = Life { ttl: *ttl, renewed: (at, now), closed: None, buried: None };
                lives.insert(*session, life);
            }
            What::Session(Session::Renewed { session }) => {
                let Some(life) = lives.get_mut(session) else { continue };
                no_return(*session, life, at)?;
                life.renewed = (at, now);
            }
            What::Session(Session::Closed { session }) => {
                let Some(life) = lives.get_mut(session) else { continue };
                life.closed = life.closed.or(Some((at, now)));
            }
            What::Stored(Stored::Put { key, session: Some(session), .. }) => {
                if let Some(life) = lives.get(session) {
                    no_return(*session, life, at)?;
                }
                keys.insert(key, (*session, at));
            }
            What::Stored(Stored::Put { key, session: None, .. }) => {
                keys.remove(key.as_str());
            }
            What::Stored(Stored::Gone { key, with_session, .. }) => {
                let Some((session, put)) = keys.remove(key.as_str()) else { continue };
                let Some(life) = lives.get_mut(&session) else { continue };
                stats.judged += 1;
                stats.contended += usize::from(*with_session);
                if now > life.dead_at() + bound {
                    let message =
                        format!("{key} went {:?} behind the end of its session", now - life.dead_at());
                    return Err(Violation::new("ephemeral-late", message, [put, life.renewed.0, at]));
                }
                if *with_session {
                    life.buried = life.buried.or(Some(at));
                    if now < life.dead_at() {
                        let message = format!("{key} went {:?} before its session", life.dead_at() - now);
                        return Err(Violation::new("ephemeral-early", message, [put, life.renewed.0, at]));
                    }
                }
            }
            _ => {}
        }
    }
    for (key, (session, put)) in keys {
        let Some(life) = lives.get(&session) else { continue };
        if history.duration() > life.dead_at() + bound {
            let message = format!("{key} is still there behind the end of its session");
            return Err(Violation::new("ephemeral-late", message, [put, life.renewed.0]));
        }
    }
    Ok(stats)
}

fn no_return(session: u64, life: &Life, at: usize) -> Result<(), Violation> {
    match life.buried.or(life.closed.map(|(closed, _)| closed)) {
        Some(end) => {
            let message = format!("session {session} came back behind its end");
            Err(Violation::new("session-back", message, [end, at]))
        }
        None => Ok(()),
    }
}

/// Nothing is left over when all clients have ended (promise G14): no keys, watches, tasks or sessions, beyond what
/// `allowed` says; and no entry is left in a line.
///
/// # Errors
/// `leak`: what is left.
pub fn leaks(history: &History, allowed: &BTreeMap<LeftoverKind, u64>) -> Verdict {
    let mut stats = Stats::default();
    let mut lines: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for (at, what) in history.facts() {
        match what {
            What::Leftover(Leftover { kind, which, count }) => {
                stats.judged += 1;
                if *count > allowed.get(kind).copied().unwrap_or(0) {
                    let message = format!("{kind:?} left over: {count} {which:?}");
                    return Err(Violation::new("leak", message, [at]));
                }
            }
            What::Line(Line::Joined { name, entry, .. }) => {
                stats.judged += 1;
                lines.insert((name, *entry), at);
            }
            What::Line(Line::Left { name, entry, .. }) => {
                lines.remove(&(name.as_str(), *entry));
            }
            _ => {}
        }
    }
    match lines.into_iter().next() {
        Some(((name, entry), at)) => {
            Err(Violation::new("leak", format!("{name}: entry {entry} stays in the line"), [at]))
        }
        None => Ok(stats),
    }
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

    const TTL: Duration = Duration::from_secs(3);
    const BOUND: Duration = Duration::from_millis(100);

    /// A session with one key; then the facts, each at its milliseconds; judged until `end`.
    fn life<const N: usize>(facts: [(u64, What); N], end: u64) -> Verdict {
        let mut history = story([Session::Opened { session: 1, ttl: TTL }.into(), put()]);
        for (at, fact) in facts {
            history.record(Duration::from_millis(at), 0, fact);
        }
        history.record(Duration::from_millis(end), 0, Session::Lost { session: 1 });
        ephemeral(&history, BOUND)
    }

    fn put() -> What {
        Stored::Put { key: "/k".into(), revision: 1, value: 1, session: Some(1) }.into()
    }

    fn gone(with_session: bool) -> What {
        Stored::Gone { key: "/k".into(), revision: 2, with_session }.into()
    }

    fn renewed() -> What {
        Session::Renewed { session: 1 }.into()
    }

    fn closed() -> What {
        Session::Closed { session: 1 }.into()
    }

    #[test]
    fn a_key_goes_with_its_session() {
        assert_eq!(life([(3_000, gone(true))], 3_000).unwrap().contended, 1);
        life([(2_000, renewed()), (5_100, gone(true))], 6_000).unwrap();
        life([(1_000, closed()), (1_000, gone(true))], 6_000).unwrap();
        life([(1_000, gone(false))], 6_000).unwrap();
    }

    #[test]
    fn never_before() {
        breaks(life([(2_999, gone(true))], 6_000), "ephemeral-early");
        breaks(life([(2_000, renewed()), (4_999, gone(true))], 6_000), "ephemeral-early");
    }

    #[test]
    fn and_not_long_behind() {
        breaks(life([(3_101, gone(true))], 3_101), "ephemeral-late");
        breaks(life([(1_000, closed()), (1_101, gone(true))], 2_000), "ephemeral-late");
        breaks(life([], 3_101), "ephemeral-late");
        life([], 3_100).unwrap();
    }

    #[test]
    fn a_session_that_ended_does_not_come_back() {
        breaks(life([(3_000, gone(true)), (3_001, renewed())], 3_001), "session-back");
        breaks(life([(3_000, gone(true)), (3_001, put())], 3_001), "session-back");
        breaks(life([(1_000, closed()), (1_000, gone(true)), (1_001, renewed())], 1_001), "session-back");
    }

    #[test]
    fn a_key_that_became_persistent_stays() {
        let kept = Stored::Put { key: "/k".into(), revision: 2, value: 2, session: None };
        life([(1_000, kept.into())], 60_000).unwrap();
    }

    #[test]
    fn nothing_is_left_over() {
        let left = |count| What::from(Leftover { kind: LeftoverKind::Tasks, which: Vec::new(), count });
        let none = BTreeMap::new();
        assert_eq!(leaks(&story([left(0)]), &none).unwrap().judged, 1);
        breaks(leaks(&story([left(1)]), &none), "leak");
        leaks(&story([left(1)]), &BTreeMap::from([(LeftoverKind::Tasks, 1)])).unwrap();
        breaks(leaks(&story([left(1)]), &BTreeMap::from([(LeftoverKind::Keys, 1)])), "leak");
    }

    #[test]
    fn no_entry_stays_in_a_line() {
        let mode = Mode::Exclusive;
        let joined = What::from(Line::Joined { name: "/l".into(), entry: 1, session: 1, mode, ask: None });
        let left = Line::Left { name: "/l".into(), entry: 1, why: Why::Owner };
        breaks(leaks(&story([joined.clone()]), &BTreeMap::new()), "leak");
        leaks(&story([joined, left.into()]), &BTreeMap::new()).unwrap();
    }
}
