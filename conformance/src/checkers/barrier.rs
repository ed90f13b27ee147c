//! Barriers, latches and double barriers.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Barrier, Rendezvous, Step},
};

/// A barrier or latch, as far as the history is read.
#[derive(Default)]
struct Gate {
    raised: Option<usize>,
    /// Set for a latch: how many counts it takes, and the event that said so.
    counts: Option<(u64, usize)>,
    lowering: u64,
    lowered: u64,
    /// The last call to lower it.
    last_lowering: Option<usize>,
    /// Applied since it was raised last.
    down: bool,
}

impl Gate {
    /// The event by which it is surely up for a wait that began at `from`, up to now.
    fn surely_up(&self, from: usize) -> Option<usize> {
        if let Some((count, at)) = self.counts {
            return (self.lowering < count).then_some(at);
        }
        // A call without an answer may strike at any time.
        let pending = self.lowering > self.lowered;
        self.raised
            .filter(|&raised| raised < from && !pending && self.last_lowering.is_none_or(|at| at < raised))
    }

    fn surely_down(&self) -> bool {
        match self.counts {
            Some((count, _)) => self.lowered >= count,
            None => self.down,
        }
    }
}

/// Nobody passes a barrier that is up, or a latch that has counts left; and all who wait pass once it is down.
///
/// # Errors
/// `barrier-early`: somebody passed though it was up during the whole wait; `barrier-stuck`: somebody waits at the end
/// of the run though it is down.
pub fn barrier(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let mut gates: BTreeMap<&str, Gate> = BTreeMap::new();
    let mut waits: BTreeMap<u64, (&str, usize)> = BTreeMap::new();
    for (at, what) in history.facts() {
        let What::Barrier(fact) = what else { continue };
        match fact {
            Barrier::Raised { name } => {
                let gate = gates.entry(name).or_default();
                (gate.raised, gate.down) = (Some(at), false);
            }
            Barrier::Counts { name, count } => gates.entry(name).or_default().counts = Some((*count, at)),
            Barrier::Lowering { name } => {
                let gate = gates.entry(name).or_default();
                gate.lowering += 1;
                gate.last_lowering = Some(at);
            }
            Barrier::Lowered { name } => {
                let gate = gates.entry(name).or_default();
                gate.lowered += 1;
                gate.down = true;
            }
            Barrier::Waiting { name, wait } => {
                waits.insert(*wait, (name, at));
            }
            Barrier::Passed { wait } => {
                let Some((name, from)) = waits.remove(wait) else { continue };
                stats.judged += 1;
                let gate = gates.entry(name).or_default();
                stats.contended += usize::from(gate.last_lowering.is_some_and(|lowering| lowering > from));
                if let Some(up) = gate.surely_up(from) {
                    let message = format!("{name}: passed while it was up");
                    return Err(Violation::new("barrier-early", message, [up, from, at]));
                }
            }
            Barrier::GaveUp { wait } => {
                waits.remove(wait);
            }
        }
    }
    for (name, from) in waits.into_values() {
        if gates.get(name).is_some_and(Gate::surely_down) {
            let message = format!("{name}: somebody still waits though it is down");
            return Err(Violation::new("barrier-stuck", message, [from]));
        }
    }
    Ok(stats)
}

/// The steps of one round of a double barrier: of each member, when it last took each.
type Round<'a> = BTreeMap<u64, Vec<(usize, &'a Rendezvous)>>;

/// Nobody is through a double barrier before all have come, nobody out before all have left, and no more than the
/// number are in.
///
/// Rounds behind one in which somebody gave up are not judged: their members no longer count alike.
///
/// # Errors
/// `rendezvous-early`: entered before enough had come; `rendezvous-crowd`: more entered than the number;
/// `rendezvous-bypass`: left while a member was still inside.
pub fn rendezvous(history: &History) -> Verdict {
    let mut rounds: BTreeMap<(&str, u64), Round<'_>> = BTreeMap::new();
    for (at, what) in history.facts() {
        if let What::Rendezvous(fact) = what {
            let round = rounds.entry((&fact.name, fact.round)).or_default();
            round.entry(fact.member).or_default().push((at, fact));
        }
    }
    let mut stats = Stats::default();
    let mut torn: BTreeSet<&str> = BTreeSet::new();
    for ((name, _), round) in &rounds {
        if torn.contains(name) {
            continue;
        }
        stats += one_round(name, round)?;
        if steps(round, Step::GaveUp).next().is_some() {
            torn.insert(name);
        }
    }
    Ok(stats)
}

/// Each time that a member took this step.
fn steps<'r>(round: &'r Round<'_>, step: Step) -> impl Iterator<Item = (u64, usize, u64)> + 'r {
    let all = round.iter().flat_map(|(member, steps)| steps.iter().map(|(at, fact)| (*member, *at, *fact)));
    all.filter(move |(_, _, fact)| fact.step == step).map(|(member, at, fact)| (member, at, fact.of))
}

fn one_round(name: &str, round: &Round<'_>) -> Verdict {
    let mut stats = Stats::default();
    let entered: BTreeMap<u64, usize> = steps(round, Step::Entered).map(|(who, at, _)| (who, at)).collect();
    for (who, at, of) in steps(round, Step::Entered) {
        stats.judged += 1;
        let came: BTreeSet<u64> =
            steps(round, Step::Entering).filter(|(_, came, _)| *came < at).map(|(who, ..)| who).collect();
        stats.contended += usize::from(came.len() > 1);
        if (came.len() as u64) < of {
            let message = format!("{name}: {who} entered when {} of {of} had come", came.len());
            return Err(Violation::new("rendezvous-early", message, [at]));
        }
        if entered.len() as u64 > of {
            let message = format!("{name}: {} entered of {of}", entered.len());
            return Err(Violation::new("rendezvous-crowd", message, entered.values().copied()));
        }
    }
    for (who, at, _) in steps(round, Step::Departed) {
        stats.judged += 1;
        let out = |member: u64| {
            let leaves = steps(round, Step::Leaving).chain(steps(round, Step::GaveUp));
            leaves.filter(|(left, ..)| *left == member).any(|(_, left, _)| left < at)
        };
        if let Some((inside, since)) = entered.iter().find(|(member, _)| !out(**member)) {
            let message = format!("{name}: {who} was let out while {inside} was inside");
            return Err(Violation::new("rendezvous-bypass", message, [*since, at]));
        }
    }
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::{
        super::story::{breaks, story},
        *,
    };

    fn name() -> String {
        "/b".into()
    }

    fn raised() -> What {
        Barrier::Raised { name: name() }.into()
    }

    fn lowering() -> What {
        Barrier::Lowering { name: name() }.into()
    }

    fn lowered() -> What {
        Barrier::Lowered { name: name() }.into()
    }

    fn waiting(wait: u64) -> What {
        Barrier::Waiting { name: name(), wait }.into()
    }

    fn passed(wait: u64) -> What {
        Barrier::Passed { wait }.into()
    }

    #[test]
    fn those_who_wait_pass_when_it_is_lowered() {
        barrier(&story([raised(), waiting(1), lowering(), passed(1), lowered()])).unwrap();
        breaks(barrier(&story([raised(), waiting(1), passed(1), lowering(), lowered()])), "barrier-early");
        breaks(barrier(&story([raised(), waiting(1), lowering(), lowered()])), "barrier-stuck");
        let gave_up = Barrier::GaveUp { wait: 1 };
        barrier(&story([raised(), waiting(1), lowering(), lowered(), gave_up.into()])).unwrap();
    }

    #[test]
    fn a_barrier_raised_again_holds_those_who_come_then() {
        let again = [raised(), lowering(), lowered(), raised(), waiting(1), passed(1)];
        breaks(barrier(&story(again)), "barrier-early");
        // One who came while it was down may pass late.
        barrier(&story([raised(), lowering(), lowered(), waiting(1), raised(), passed(1)])).unwrap();
        // A call whose outcome nobody knows may strike late.
        barrier(&story([raised(), lowering(), raised(), waiting(1), passed(1)])).unwrap();
    }

    #[test]
    fn a_latch_opens_with_its_last_count() {
        let latch = || Barrier::Counts { name: name(), count: 2 }.into();
        barrier(&story([latch(), waiting(1), lowering(), lowered(), lowering(), passed(1)])).unwrap();
        breaks(barrier(&story([latch(), waiting(1), lowering(), lowered(), passed(1)])), "barrier-early");
        breaks(
            barrier(&story([latch(), lowering(), lowered(), lowering(), lowered(), waiting(1)])),
            "barrier-stuck",
        );
    }

    fn step(member: u64, round: u64, step: Step) -> What {
        Rendezvous { name: name(), round, member, of: 2, step }.into()
    }

    /// Two members go through one round.
    fn round(round: u64) -> [What; 8] {
        [
            step(1, round, Step::Entering),
            step(2, round, Step::Entering),
            step(1, round, Step::Entered),
            step(2, round, Step::Entered),
            step(1, round, Step::Leaving),
            step(2, round, Step::Leaving),
            step(1, round, Step::Departed),
            step(2, round, Step::Departed),
        ]
    }

    #[test]
    fn all_come_before_any_is_in_and_leave_before_any_is_out() {
        assert_eq!(rendezvous(&story(round(0))).unwrap().judged, 4);
        let mut early = round(0);
        early.swap(1, 2);
        breaks(rendezvous(&story(early)), "rendezvous-early");
        let mut bypass = round(0);
        bypass.swap(5, 6);
        breaks(rendezvous(&story(bypass)), "rendezvous-bypass");
    }

    #[test]
    fn who_is_about_to_enter_is_inside_already() {
        let mut bypass = round(0);
        bypass.swap(3, 4);
        rendezvous(&story(bypass.clone())).unwrap();
        bypass.swap(5, 6);
        breaks(rendezvous(&story(bypass)), "rendezvous-bypass");
    }

    #[test]
    fn coming_again_does_not_count_for_those_who_were_there() {
        let [a, b, c, d, e, f, g, h] = round(0);
        let bypass = story([a, b, c, d, e, f, g, h, step(1, 1, Step::Entering), step(1, 1, Step::Entered)]);
        breaks(rendezvous(&bypass), "rendezvous-early");
    }

    #[test]
    fn no_more_than_the_number_are_in() {
        let [a, b, c, d, ..] = round(0);
        let crowd = story([a, b, c, d, step(3, 0, Step::Entering), step(3, 0, Step::Entered)]);
        breaks(rendezvous(&crowd), "rendezvous-crowd");
    }

    #[test]
    fn each_member_must_have_left() {
        let three = |member, step| What::from(Rendezvous { name: name(), round: 0, member, of: 3, step });
        let mut history = story([]);
        for step in [Step::Entering, Step::Entered] {
            (1..=3).for_each(|member| history.record(std::time::Duration::ZERO, 0, three(member, step)));
        }
        (1..=2).for_each(|member| history.record(std::time::Duration::ZERO, 0, three(member, Step::Leaving)));
        history.record(std::time::Duration::ZERO, 0, three(1, Step::Departed));
        breaks(rendezvous(&history), "rendezvous-bypass");
    }

    #[test]
    fn who_gave_up_is_out_and_ends_the_counting() {
        let history = story([
            step(1, 0, Step::Entering),
            step(2, 0, Step::Entering),
            step(1, 0, Step::Entered),
            step(2, 0, Step::Entered),
            step(2, 0, Step::GaveUp),
            step(1, 0, Step::Leaving),
            step(1, 0, Step::Departed),
            step(1, 1, Step::Entering),
            step(1, 1, Step::Entered),
        ]);
        assert_eq!(rendezvous(&history).unwrap().judged, 3);
    }
}
