//! Counters, ids and scheduled jobs: nothing counted, given or run twice.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Applied, Counter, Drawn, Job},
};

/// At most this many different sums of unknown additions are followed.
const SUMS: usize = 1 << 16;

#[derive(Default)]
struct Sums<'a> {
    acknowledged: i128,
    unknown: Vec<i64>,
    /// Of each addition: the counter, how much, the call.
    open: BTreeMap<u64, (i64, usize)>,
    /// What was told to whom: the value, the call and the return.
    told: Vec<(i64, usize, usize)>,
    falls: bool,
    total: Option<(i64, usize)>,
    name: &'a str,
}

/// The total of a counter is the sum of the acknowledged additions and of some of those whose outcome nobody knows;
/// and while a counter only grows, each addition is told a value of its own, larger than all that were told before it
/// was called.
///
/// # Errors
/// `counter-sum`: a total that no choice of the unknown ones gives; `counter-value`: a value told twice, or too small;
/// `counter-budget`: too many different unknown additions to decide.
pub fn counter(history: &History) -> Verdict {
    let mut counters: BTreeMap<&str, Sums<'_>> = BTreeMap::new();
    let mut counter_of: BTreeMap<u64, &str> = BTreeMap::new();
    for (at, what) in history.facts() {
        let What::Counter(fact) = what else { continue };
        match fact {
            Counter::Adding { name, op, delta } => {
                let sums = counters.entry(name).or_default();
                counter_of.insert(*op, name);
                sums.open.insert(*op, (*delta, at));
                sums.falls |= *delta <= 0;
                sums.name = name;
            }
            Counter::Added { op, applied, value } => {
                let Some(sums) = counter_of.get(op).and_then(|name| counters.get_mut(name)) else { continue };
                let Some((delta, called)) = sums.open.remove(op) else { continue };
                match applied {
                    Applied::Yes => sums.acknowledged += i128::from(delta),
                    Applied::No => {}
                    Applied::Unknown => sums.unknown.push(delta),
                }
                sums.told.extend(value.map(|value| (value, called, at)));
            }
            Counter::Total { name, value } => counters.entry(name).or_default().total = Some((*value, at)),
        }
    }
    let mut stats = Stats::default();
    for sums in counters.values_mut() {
        let unanswered = std::mem::take(&mut sums.open);
        sums.unknown.extend(unanswered.into_values().map(|(delta, _)| delta));
        stats.judged += sums.told.len() + usize::from(sums.total.is_some());
        stats.unknown += sums.unknown.len();
        sums.values()?;
        sums.sum()?;
    }
    Ok(stats)
}

impl Sums<'_> {
    fn sum(&self) -> Result<(), Violation> {
        let Some((total, at)) = self.total else { return Ok(()) };
        let mut possible = BTreeSet::from([self.acknowledged]);
        for delta in &self.unknown {
            let more: Vec<i128> = possible.iter().map(|sum| sum + i128::from(*delta)).collect();
            possible.extend(more);
            if possible.len() > SUMS {
                return Err(Violation::new("counter-budget", "too many unknown additions", [at]));
            }
        }
        if possible.contains(&i128::from(total)) {
            return Ok(());
        }
        let message = format!(
            "{}: {total}, with {} acknowledged and {} unknown",
            self.name,
            self.acknowledged,
            self.unknown.len()
        );
        Err(Violation::new("counter-sum", message, [at]))
    }

    fn values(&self) -> Result<(), Violation> {
        if self.falls {
            return Ok(());
        }
        for (at, (value, called, told)) in self.told.iter().enumerate() {
            let wrong = |(other, _, before): &&(i64, usize, usize)| {
                other == value || (before < called && other > value)
            };
            if let Some((other, _, before)) = self.told[..at].iter().find(wrong) {
                let message = format!("{}: an addition was told {value} behind {other}", self.name);
                return Err(Violation::new("counter-value", message, [*before, *told]));
            }
        }
        Ok(())
    }
}

/// No generator gives an id twice.
///
/// # Errors
/// `id-twice`: the two.
pub fn unique_ids(history: &History) -> Verdict {
    let drawn = history.facts().filter_map(|(at, what)| match what {
        What::Drawn(Drawn { name, id }) => Some((at, (name.as_str(), *id))),
        _ => None,
    });
    once("id-twice", drawn)
}

/// No job runs twice for one period.
///
/// # Errors
/// `job-twice`: the two runs.
pub fn run_once(history: &History) -> Verdict {
    let began = history.facts().filter_map(|(at, what)| match what {
        What::Job(Job { name, period }) => Some((at, (name.as_str(), *period))),
        _ => None,
    });
    once("job-twice", began)
}

fn once<'a>(rule: &'static str, facts: impl Iterator<Item = (usize, (&'a str, u64))>) -> Verdict {
    let mut stats = Stats::default();
    let mut seen: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for (at, (name, number)) in facts {
        stats.judged += 1;
        if let Some(before) = seen.insert((name, number), at) {
            return Err(Violation::new(rule, format!("{name}: {number} twice"), [before, at]));
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

    fn adding(op: u64, delta: i64) -> What {
        Counter::Adding { name: "/c".into(), op, delta }.into()
    }

    fn added(op: u64, applied: Applied, value: Option<i64>) -> What {
        Counter::Added { op, applied, value }.into()
    }

    fn total(value: i64) -> What {
        Counter::Total { name: "/c".into(), value }.into()
    }

    #[test]
    fn a_total_is_the_acknowledged_and_some_unknown() {
        let sum = |value| {
            counter(&story([
                adding(1, 10),
                added(1, Applied::Yes, None),
                adding(2, 3),
                added(2, Applied::Unknown, None),
                adding(3, 500),
                added(3, Applied::No, None),
                adding(4, -1),
                total(value),
            ]))
        };
        for possible in [9, 10, 12, 13] {
            assert_eq!(sum(possible).unwrap().unknown, 2);
        }
        for impossible in [0, 8, 11, 16, 510] {
            breaks(sum(impossible), "counter-sum");
        }
    }

    #[test]
    fn too_many_unknown_sums_are_a_failure() {
        let mut history = History::new();
        for op in 0..20 {
            history.record(std::time::Duration::ZERO, 0, adding(op, 1 << op));
        }
        history.record(std::time::Duration::ZERO, 0, total(1));
        breaks(counter(&history), "counter-budget");
    }

    #[test]
    fn each_addition_is_told_a_value_of_its_own() {
        let told = |first, second| {
            counter(&story([
                adding(1, 1),
                added(1, Applied::Yes, Some(first)),
                adding(2, 1),
                added(2, Applied::Yes, Some(second)),
            ]))
        };
        told(1, 2).unwrap();
        breaks(told(1, 1), "counter-value");
        breaks(told(2, 1), "counter-value");
    }

    #[test]
    fn ids_and_periods_come_once() {
        let id = |name: &str, id| What::from(Drawn { name: name.into(), id });
        assert_eq!(unique_ids(&story([id("/a", 1), id("/a", 2), id("/b", 1)])).unwrap().judged, 3);
        breaks(unique_ids(&story([id("/a", 1), id("/a", 2), id("/a", 1)])), "id-twice");
        let job = |name: &str, period| What::from(Job { name: name.into(), period });
        run_once(&story([job("a", 1), job("a", 2), job("b", 1)])).unwrap();
        breaks(run_once(&story([job("a", 1), job("b", 1), job("a", 1)])), "job-twice");
    }
}
