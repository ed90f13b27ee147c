//! Elections, as candidates and observers see them.

use std::collections::BTreeMap;

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Election, Token},
};

/// What is known of one election so far.
#[derive(Default)]
struct Known<'a> {
    /// Who leads in which epoch, and which event said so first.
    leaders: BTreeMap<Token, (&'a str, usize)>,
    /// The last epoch that a candidate was told to lead.
    led: Option<(Token, usize)>,
    /// What each observer saw last.
    observers: BTreeMap<u64, Sight>,
}

/// The last epoch that an observer saw, and whether it saw that it is over.
struct Sight {
    epoch: Token,
    over: bool,
    at: usize,
}

/// Epochs grow, each has one leader, all observers see them in one order, and a leader knows that it no longer leads
/// before the next is told that it does.
///
/// An observer may miss epochs, and see one again and again, but none again behind a later one or behind "nobody
/// leads". A leader whose entry an operator deleted may learn so late.
///
/// # Errors
/// `epoch-order`: a leader with an epoch that is not larger than the last; `epoch-leader`: an epoch with two leaders;
/// `observer-order`: an observer who saw an epoch come back; `stale-leader`: an `is_leader` that said yes behind the
/// start of the next epoch.
pub fn election(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let mut elections: BTreeMap<&str, Known<'_>> = BTreeMap::new();
    let mut deposed: BTreeMap<(&str, Token), usize> = BTreeMap::new();
    for (at, what) in history.facts() {
        let What::Election(fact) = what else { continue };
        stats.judged += 1;
        match fact {
            Election::Led { name, candidate, epoch } => {
                let known = elections.entry(name).or_default();
                known.one_leader(candidate, *epoch, at)?;
                if let Some((last, before)) = known.led.filter(|(last, _)| last >= epoch) {
                    let message = format!("{name}: epoch {epoch} behind epoch {last}");
                    return Err(Violation::new("epoch-order", message, [before, at]));
                }
                stats.contended += usize::from(known.led.replace((*epoch, at)).is_some());
            }
            Election::Answered { name, candidate, epoch, leads } => {
                let known = elections.entry(name).or_default();
                let entitled = !*leads || deposed.contains_key(&(name.as_str(), *epoch));
                if let Some((last, next)) = known.led.filter(|(last, _)| !entitled && last > epoch) {
                    let message = format!("{name}: {candidate} leads in {epoch} while {last} has begun");
                    return Err(Violation::new("stale-leader", message, [next, at]));
                }
            }
            Election::Observed { name, observer, leader } => {
                let known = elections.entry(name).or_default();
                if let Some((leader, epoch)) = leader {
                    known.one_leader(leader, *epoch, at)?;
                }
                known.see(*observer, leader.as_ref().map(|(_, epoch)| *epoch), at)?;
            }
            Election::Deposed { name, epoch } => {
                deposed.insert((name, *epoch), at);
            }
        }
    }
    Ok(stats)
}

impl<'a> Known<'a> {
    fn one_leader(&mut self, candidate: &'a str, epoch: Token, at: usize) -> Result<(), Violation> {
        let (leader, before) = *self.leaders.entry(epoch).or_insert((candidate, at));
        if leader == candidate {
            return Ok(());
        }
        let message = format!("epoch {epoch} is led by {leader} and by {candidate}");
        Err(Violation::new("epoch-leader", message, [before, at]))
    }

    fn see(&mut self, observer: u64, epoch: Option<Token>, at: usize) -> Result<(), Violation> {
        let last = self.observers.get_mut(&observer);
        match (epoch, last) {
            (None, None) => Ok(()),
            (None, Some(last)) => {
                (last.over, last.at) = (true, at);
                Ok(())
            }
            (Some(epoch), Some(last)) if epoch < last.epoch || (epoch == last.epoch && last.over) => {
                let message = format!("observer {observer} saw epoch {epoch} come back");
                Err(Violation::new("observer-order", message, [last.at, at]))
            }
            (Some(epoch), _) => {
                self.observers.insert(observer, Sight { epoch, over: false, at });
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::story::{breaks, story},
        *,
    };

    fn led(candidate: &str, epoch: Token) -> What {
        Election::Led { name: "/e".into(), candidate: candidate.into(), epoch }.into()
    }

    fn answered(candidate: &str, epoch: Token, leads: bool) -> What {
        Election::Answered { name: "/e".into(), candidate: candidate.into(), epoch, leads }.into()
    }

    fn observed(observer: u64, leader: Option<(&str, Token)>) -> What {
        let leader = leader.map(|(who, epoch)| (who.to_owned(), epoch));
        Election::Observed { name: "/e".into(), observer, leader }.into()
    }

    #[test]
    fn leaders_behind_each_other_are_right() {
        let history = story([
            led("a", 5),
            observed(1, Some(("a", 5))),
            observed(1, Some(("a", 5))),
            answered("a", 5, true),
            answered("a", 5, false),
            observed(1, None),
            led("b", 7),
            answered("b", 7, true),
            observed(2, Some(("b", 7))),
            observed(1, Some(("b", 7))),
        ]);
        assert_eq!(election(&history).unwrap().contended, 1);
    }

    #[test]
    fn epochs_grow() {
        breaks(election(&story([led("a", 5), led("b", 4)])), "epoch-order");
        breaks(election(&story([led("a", 5), led("a", 5)])), "epoch-order");
    }

    #[test]
    fn an_epoch_has_one_leader() {
        breaks(election(&story([led("a", 5), observed(1, Some(("b", 5)))])), "epoch-leader");
        breaks(election(&story([observed(2, Some(("a", 5))), observed(1, Some(("b", 5)))])), "epoch-leader");
    }

    #[test]
    fn no_observer_goes_back() {
        let back =
            story([observed(1, Some(("a", 5))), observed(1, Some(("b", 6))), observed(1, Some(("a", 5)))]);
        breaks(election(&back), "observer-order");
        let again = story([observed(1, Some(("a", 5))), observed(1, None), observed(1, Some(("a", 5)))]);
        breaks(election(&again), "observer-order");
        let two = story([observed(1, Some(("b", 6))), observed(2, Some(("a", 5)))]);
        election(&two).unwrap();
    }

    #[test]
    fn a_leader_knows_before_the_next() {
        let late = [led("a", 5), led("b", 6), answered("a", 5, true)];
        breaks(election(&story(late.clone())), "stale-leader");
        let [first, next, answer] = late;
        let deposed = Election::Deposed { name: "/e".into(), epoch: 5 };
        election(&story([first, deposed.into(), next, answer])).unwrap();
        election(&story([led("a", 5), led("b", 6), answered("a", 5, false)])).unwrap();
    }
}
