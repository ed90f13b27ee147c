//! Whether a history was recorded as it should be; the other checkers leave out what refers to nothing.

use std::collections::BTreeSet;

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Barrier, Cache, Counter, Found, Group, Guarded, Hold, Queue, Register, Resize, Told, Watch},
};

/// What begins something with an id of its own, or goes on with it.
enum Part {
    Begins(Kind, u64),
    GoesOn(Kind, u64),
    Single,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Call,
    Ask,
    Wait,
    Take,
    Addition,
    Watch,
    Cache,
    Resize,
    Write,
    Listener,
    View,
}

const fn part(what: &What) -> Part {
    use Part::{Begins, GoesOn, Single};
    match what {
        What::Register(Register::Call { op, .. }) => Begins(Kind::Call, *op),
        What::Register(Register::Return { op, .. }) => GoesOn(Kind::Call, *op),
        What::Hold(Hold::Asked { ask, .. }) => Begins(Kind::Ask, *ask),
        What::Hold(
            Hold::Granted { ask, .. }
            | Hold::Refused { ask }
            | Hold::Believed { ask }
            | Hold::Releasing { ask }
            | Hold::Ended { ask, .. },
        ) => GoesOn(Kind::Ask, *ask),
        What::Barrier(Barrier::Waiting { wait, .. }) => Begins(Kind::Wait, *wait),
        What::Barrier(Barrier::Passed { wait } | Barrier::GaveUp { wait }) => GoesOn(Kind::Wait, *wait),
        What::Queue(Queue::Taking { take, .. }) => Begins(Kind::Take, *take),
        What::Queue(
            Queue::Taken { take, .. }
            | Queue::Missed { take }
            | Queue::Done { take, .. }
            | Queue::Returned { take },
        ) => GoesOn(Kind::Take, *take),
        What::Counter(Counter::Adding { op, .. }) => Begins(Kind::Addition, *op),
        What::Counter(Counter::Added { op, .. }) => GoesOn(Kind::Addition, *op),
        What::Watch(Watch::Opened { watch, .. }) => Begins(Kind::Watch, *watch),
        What::Watch(
            Watch::Snapshot { watch, .. }
            | Watch::Put { watch, .. }
            | Watch::Deleted { watch, .. }
            | Watch::Progress { watch, .. }
            | Watch::Closed { watch },
        ) => GoesOn(Kind::Watch, *watch),
        What::Cache(Cache::Opened { cache, .. }) => Begins(Kind::Cache, *cache),
        What::Cache(
            Cache::Initialised { cache }
            | Cache::Put { cache, .. }
            | Cache::Deleted { cache, .. }
            | Cache::Resynced { cache }
            | Cache::Read { cache, .. }
            | Cache::Closed { cache },
        ) => GoesOn(Kind::Cache, *cache),
        What::Resize(Resize::Calling { resize, .. }) => Begins(Kind::Resize, *resize),
        What::Resize(Resize::Done { resize }) => GoesOn(Kind::Resize, *resize),
        What::Guarded(Guarded::Sent { write, .. }) => Begins(Kind::Write, *write),
        What::Guarded(Guarded::Told { write, .. }) => GoesOn(Kind::Write, *write),
        What::Told(Told::Opened { listener, .. }) => Begins(Kind::Listener, *listener),
        What::Told(Told::Value { listener, .. } | Told::Settled { listener }) => {
            GoesOn(Kind::Listener, *listener)
        }
        What::Found(Found::Opened { view, .. }) => Begins(Kind::View, *view),
        What::Found(Found::All { view, .. } | Found::Changed { view, .. } | Found::Settled { view, .. }) => {
            GoesOn(Kind::View, *view)
        }
        What::Group(Group::Opened { view, .. }) => Begins(Kind::View, *view),
        What::Group(
            Group::Members { view, .. }
            | Group::Joined { view, .. }
            | Group::Updated { view, .. }
            | Group::Left { view, .. }
            | Group::Settled { view }
            | Group::Closed { view },
        ) => GoesOn(Kind::View, *view),
        _ => Single,
    }
}

/// Time does not go back, no id begins twice, and nothing goes on that did not begin.
///
/// # Errors
/// `malformed`: the event. The recorder is wrong then, not what it recorded.
pub fn well_formed(history: &History) -> Verdict {
    let mut begun: BTreeSet<(Kind, u64)> = BTreeSet::new();
    let mut before = std::time::Duration::ZERO;
    for (at, event) in history.events().iter().enumerate() {
        let wrong = match part(&event.what) {
            _ if event.at < before => Some("time goes back".to_owned()),
            Part::Begins(kind, id) if !begun.insert((kind, id)) => {
                Some(format!("{kind:?} {id} begins twice"))
            }
            Part::GoesOn(kind, id) if !begun.contains(&(kind, id)) => {
                Some(format!("{kind:?} {id} goes on and never began"))
            }
            _ => None,
        };
        if let Some(message) = wrong {
            return Err(Violation::new("malformed", message, [at]));
        }
        before = event.at;
    }
    Ok(Stats::default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::story::{breaks, story},
        *,
    };

    #[test]
    fn what_goes_on_has_begun_once() {
        let taking = || What::from(Queue::Taking { name: "/q".into(), take: 1 });
        let missed = || What::from(Queue::Missed { take: 1 });
        well_formed(&story([taking(), missed()])).unwrap();
        breaks(well_formed(&story([missed(), taking()])), "malformed");
        breaks(well_formed(&story([taking(), taking()])), "malformed");
        // Ids of different things have nothing to do with each other.
        breaks(well_formed(&story([taking(), Hold::Believed { ask: 1 }.into()])), "malformed");
    }

    #[test]
    fn time_does_not_go_back() {
        let mut history = story([Watch::Opened { watch: 1, dir: "/".into(), after: None }.into()]);
        history.record(Duration::from_secs(2), 0, Watch::Closed { watch: 1 });
        well_formed(&history).unwrap();
        history.record(Duration::from_secs(1), 0, Watch::Closed { watch: 1 });
        breaks(well_formed(&history), "malformed");
    }
}
