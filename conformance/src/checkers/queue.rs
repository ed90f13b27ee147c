//! Queues: what goes in comes out.

use std::collections::BTreeMap;

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Applied, Queue},
};

/// The way of one item. Moments are indices of events.
#[derive(Debug)]
struct Item<'a> {
    queue: &'a str,
    priority: u32,
    putting: usize,
    /// When `put` returned, and whether it is in the queue.
    put: Option<(usize, Applied)>,
    takes: Vec<Take>,
}

#[derive(Clone, Copy, Debug)]
struct Take {
    id: u64,
    called: usize,
    taken: usize,
    done: Option<(usize, Applied)>,
    returned: Option<usize>,
}

impl Item<'_> {
    /// Whether `put` may have sent it again after it was finished, because a reply was lost.
    fn put_again_behind(&self, take: &Take) -> bool {
        // It was finished at some moment between the take and the answer to that.
        take.done.is_some() && self.put.is_none_or(|(put, _)| put > take.taken)
    }

    /// The event by which this item stood ahead of `other`, which was taken first, though nobody had taken this one.
    fn passed_by(&self, other: &Self) -> Option<usize> {
        let (put, Applied::Yes) = self.put? else { return None };
        let first = other.takes.first()?;
        // Whoever sees one that was put sees all that were put before.
        let ahead = self.priority <= other.priority && put < other.putting;
        let free = self.takes.first().is_none_or(|take| take.called > first.taken);
        (self.queue == other.queue && ahead && free).then_some(put)
    }
}

/// What goes into a queue comes out: at least once; once if no consumer died; in order within a priority and by
/// priority; and nothing else comes out.
///
/// The run ends with the queue drained. A `put` that had not returned when its item was taken may have put it again
/// when it was finished.
/// The order is judged between items of which one was surely in the queue before
/// the other was put, and where no take whose outcome nobody knows may have had the first in hand.
///
/// # Errors
/// `queue-invented`: an item that nobody put; `queue-twice`: an item taken again though its consumer lived or had
/// finished it; `queue-lost`: an item that nobody finished; `queue-order`: an item that passed another.
pub fn queue(history: &History) -> Verdict {
    let (items, open_takes) = items(history)?;
    let mut stats = Stats { judged: items.len(), ..Stats::default() };
    for (id, item) in &items {
        stats.unknown += usize::from(item.put.is_none_or(|(_, applied)| applied == Applied::Unknown));
        stats.contended += usize::from(item.takes.len() > 1);
        if let (Some((put, Applied::No)), Some(take)) = (item.put, item.takes.first()) {
            let message = format!("{}: item {id} came out though it was surely not put", item.queue);
            return Err(Violation::new("queue-invented", message, [put, take.taken]));
        }
        for pair in item.takes.windows(2) {
            let [before, again] = pair else { continue };
            if item.put_again_behind(before) {
                continue;
            }
            let finished = before.done.filter(|(at, applied)| *applied == Applied::Yes && *at < again.taken);
            if finished.is_some() || before.returned.is_none_or(|at| at > again.taken) {
                let message = format!("{}: item {id} was taken twice", item.queue);
                return Err(Violation::new("queue-twice", message, [before.taken, again.taken]));
            }
        }
        let finished =
            item.takes.iter().any(|take| take.done.is_some_and(|(_, applied)| applied != Applied::No));
        if let (false, Some((put, Applied::Yes))) = (finished, item.put) {
            let message = format!("{}: item {id} was never finished", item.queue);
            return Err(Violation::new("queue-lost", message, [item.putting, put]));
        }
    }
    for (id, item) in &items {
        let Some(first) = item.takes.first() else { continue };
        if open_takes.iter().any(|&(queue, called)| queue == item.queue && called < first.taken) {
            continue;
        }
        for (passed, other) in &items {
            if let Some(put) = other.passed_by(item) {
                let message = format!("{}: item {id} came out ahead of item {passed}", item.queue);
                return Err(Violation::new("queue-order", message, [put, item.putting, first.taken]));
            }
        }
    }
    Ok(stats)
}

type Items<'a> = BTreeMap<u64, Item<'a>>;

/// Queue and call of each take that was never answered.
type OpenTakes<'a> = Vec<(&'a str, usize)>;

/// The items, and the takes without an answer.
fn items(history: &History) -> Result<(Items<'_>, OpenTakes<'_>), Violation> {
    let mut items: Items<'_> = BTreeMap::new();
    let mut open: BTreeMap<u64, (&str, usize)> = BTreeMap::new();
    for (at, what) in history.facts() {
        let What::Queue(fact) = what else { continue };
        match fact {
            Queue::Putting { name, item, priority } => {
                let (priority, takes) = (*priority, Vec::new());
                items.insert(*item, Item { queue: name, priority, putting: at, put: None, takes });
            }
            Queue::Put { item, applied, .. } => {
                if let Some(item) = items.get_mut(item) {
                    item.put = Some((at, *applied));
                }
            }
            Queue::Taking { name, take } => {
                open.insert(*take, (name, at));
            }
            Queue::Missed { take } => {
                open.remove(take);
            }
            Queue::Taken { take, item: id } => {
                let call = open.remove(take);
                let item =
                    items.get_mut(id).filter(|item| call.is_some_and(|(queue, _)| queue == item.queue));
                let (Some(item), Some((_, called))) = (item, call) else {
                    let message = format!("item {id} came out, and nobody put it there");
                    return Err(Violation::new("queue-invented", message, [at]));
                };
                item.takes.push(Take { id: *take, called, taken: at, done: None, returned: None });
            }
            Queue::Done { take, applied } => {
                if let Some(take) = find(&mut items, *take) {
                    take.done = Some((at, *applied));
                }
            }
            Queue::Returned { take } => {
                if let Some(take) = find(&mut items, *take) {
                    take.returned = Some(at);
                }
            }
        }
    }
    Ok((items, open.into_values().collect()))
}

fn find<'i>(items: &'i mut Items<'_>, id: u64) -> Option<&'i mut Take> {
    items.values_mut().flat_map(|item| &mut item.takes).find(|take| take.id == id)
}

#[cfg(test)]
mod tests {
    use super::{
        super::story::{breaks, story},
        *,
    };

    fn putting(item: u64, priority: u32) -> What {
        Queue::Putting { name: "/q".into(), item, priority }.into()
    }

    fn put(item: u64, applied: Applied) -> What {
        Queue::Put { name: "/q".into(), item, applied }.into()
    }

    fn taking(take: u64) -> What {
        Queue::Taking { name: "/q".into(), take }.into()
    }

    fn taken(take: u64, item: u64) -> What {
        Queue::Taken { take, item }.into()
    }

    fn done(take: u64) -> What {
        Queue::Done { take, applied: Applied::Yes }.into()
    }

    fn returned(take: u64) -> What {
        Queue::Returned { take }.into()
    }

    const YES: Applied = Applied::Yes;

    #[test]
    fn what_goes_in_comes_out_once() {
        queue(&story([putting(1, 0), put(1, YES), taking(1), taken(1, 1), done(1)])).unwrap();
        breaks(queue(&story([putting(1, 0), put(1, YES)])), "queue-lost");
        breaks(
            queue(&story([putting(1, 0), put(1, YES), taking(1), taken(1, 1), returned(1)])),
            "queue-lost",
        );
        queue(&story([putting(1, 0), put(1, Applied::Unknown)])).unwrap();
        queue(&story([putting(1, 0), put(1, Applied::Unknown), taking(1), taken(1, 1), done(1)])).unwrap();
    }

    #[test]
    fn nothing_else_comes_out() {
        breaks(queue(&story([taking(1), taken(1, 1), done(1)])), "queue-invented");
        let refused = story([putting(1, 0), put(1, Applied::No), taking(1), taken(1, 1), done(1)]);
        breaks(queue(&refused), "queue-invented");
        let other = Queue::Taking { name: "/other".into(), take: 1 };
        let elsewhere = story([putting(1, 0), put(1, YES), other.into(), taken(1, 1), done(1)]);
        breaks(queue(&elsewhere), "queue-invented");
    }

    #[test]
    fn an_item_comes_again_only_when_its_consumer_is_gone() {
        let begin = [putting(1, 0), put(1, YES), taking(1), taken(1, 1)];
        let [a, b, c, d] = begin.clone();
        queue(&story([a, b, c, d, returned(1), taking(2), taken(2, 1), done(2)])).unwrap();
        let [a, b, c, d] = begin.clone();
        breaks(queue(&story([a, b, c, d, taking(2), taken(2, 1), done(2)])), "queue-twice");
        let [a, b, c, d] = begin;
        let finished = story([a, b, c, d, done(1), returned(1), taking(2), taken(2, 1), done(2)]);
        breaks(queue(&finished), "queue-twice");
    }

    #[test]
    fn a_put_that_goes_on_may_put_what_was_finished_again() {
        let again =
            [putting(1, 0), taking(1), taken(1, 1), done(1), taking(2), taken(2, 1), done(2), put(1, YES)];
        queue(&story(again.clone())).unwrap();
        let [a, b, c, d, e, f, g, _] = again;
        queue(&story([a, b, c, d, e, f, g])).unwrap();
    }

    /// Two items, put one behind the other, and taken in the opposite order.
    fn second_first(first: u32, second: u32) -> [What; 10] {
        [
            putting(1, first),
            put(1, YES),
            putting(2, second),
            put(2, YES),
            taking(1),
            taken(1, 2),
            done(1),
            taking(2),
            taken(2, 1),
            done(2),
        ]
    }

    #[test]
    fn items_come_in_order_within_a_priority_and_by_priority() {
        breaks(queue(&story(second_first(0, 0))), "queue-order");
        breaks(queue(&story(second_first(0, 1))), "queue-order");
        queue(&story(second_first(1, 0))).unwrap();
    }

    #[test]
    fn takes_at_the_same_time_may_cross() {
        let mut crossed = second_first(0, 0);
        crossed.swap(5, 7);
        crossed.swap(6, 7);
        queue(&story(crossed)).unwrap();
    }

    #[test]
    fn a_take_that_was_dropped_may_have_had_the_first_in_hand() {
        let [a, b, c, d, e, f, g, h, i, j] = second_first(0, 0);
        queue(&story([a, b, c, d, taking(9), e, f, g, h, i, j])).unwrap();
    }
}
