//! Work queues.

use std::time::Duration;

use coord_api::{Error, Outcome, Session};
use coord_recipes::{Item, Priority, WorkQueue};

use super::{BASE, of_data};
use crate::{
    checkers::{
        facts::{Applied, Queue},
        queue,
    },
    sim::{
        client::Client,
        faults::Kind,
        recorder::{Ledger, fingerprint, number_of},
        run::{Rule, Scenario},
    },
};

const NAME: &str = "/queues/work";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("at least once, in order", queue)];

/// Clients that put items and take them, and sometimes lose their session with one in hand.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 6,
    // A put that arrives when its item is done puts it again: at least once is what is promised.
    faults: super::without_operator().without(Kind::Late),
    ledger: Ledger::line(|_| None),
    ..of_data("queue", "work queue: every item at least once, in order, none lost", RULES, |me| {
        Box::pin(client(me))
    })
};

async fn client(me: Client) {
    let mut session = me.session().await;
    for _ in 0..me.steps() {
        me.idle(0, 300).await;
        me.fresh(&mut session).await;
        let Ok(work) = WorkQueue::new(&session, NAME) else { return };
        if me.chance(500) {
            put(&me, &work).await;
        } else {
            take(&me, &session, &work, Duration::from_millis(me.range(0, 600))).await;
        }
    }
    // The rest, until nothing has come for longer than a session lives.
    tokio::time::sleep(Duration::from_secs(25)).await;
    let mut empty = 0;
    while empty < 8 {
        me.fresh(&mut session).await;
        let Ok(work) = WorkQueue::new(&session, NAME) else { return };
        if take(&me, &session, &work, Duration::from_secs(1)).await {
            empty = 0;
        } else {
            empty += 1;
            me.idle(800, 1000).await;
        }
    }
    let _ = session.close().await;
}

async fn put(me: &Client, work: &WorkQueue) {
    let item = me.next_id();
    let urgent = me.chance(200);
    let priority = if urgent { 1 } else { 2 };
    me.record(Queue::Putting { name: NAME.to_owned(), item, priority });
    let priority = if urgent { Priority::HIGH } else { Priority::default() };
    let put = me.perhaps_cancelled(work.put(item.to_string(), priority)).await;
    let applied = match put {
        Some(Ok(_)) => Applied::Yes,
        Some(Err(error)) => applied(&error),
        None => Applied::Unknown,
    };
    me.record(Queue::Put { name: NAME.to_owned(), item, applied });
}

/// Whether there was an item.
async fn take(me: &Client, session: &Session, work: &WorkQueue, patience: Duration) -> bool {
    let take = me.next_id();
    me.record(Queue::Taking { name: NAME.to_owned(), take });
    let once = me.chance(700);
    let taking = async { if once { work.try_take().await } else { work.take_timeout(patience).await } };
    match me.perhaps_cancelled(taking).await {
        // Taken by a session that an operator has ended meanwhile, which its owner cannot know: it is free again.
        Some(Ok(Some(item))) if me.node().world.recorder().is_over(number_of(session.id())) => {
            let _ = item.give_back().await;
            true
        }
        Some(Ok(Some(item))) => {
            me.record(Queue::Taken { take, item: fingerprint(item.payload()) });
            finish(me, session, take, item).await;
            true
        }
        Some(Ok(None)) => {
            // When the time ran out, an item may be in hand until it is given back in the background: no answer then.
            if once {
                me.record(Queue::Missed { take });
            }
            false
        }
        // It may have an item in hand until its session ends.
        _ => true,
    }
}

async fn finish(me: &Client, session: &Session, take: u64, item: Item) {
    me.node().world.recorder().took(me.id(), take);
    me.idle(0, 250).await;
    let back = || {
        if me.node().world.recorder().finished(take) {
            me.record(Queue::Returned { take });
        }
    };
    if me.chance(100) || !item.is_valid() || !session.is_valid() {
        back();
        let _ = item.give_back().await;
        return;
    }
    me.node().if_killed(Queue::Done { take, applied: Applied::Unknown });
    let acked = me.perhaps_cancelled(item.ack()).await;
    me.node().nothing_open();
    let applied = match acked {
        Some(Ok(())) => Applied::Yes,
        Some(Err(error)) => applied(&error),
        None => Applied::Unknown,
    };
    me.record(Queue::Done { take, applied });
    if applied == Applied::Yes {
        me.node().world.recorder().finished(take);
    } else {
        // If it is not done, others may have it.
        back();
    }
}

fn applied(error: &Error) -> Applied {
    match error.outcome() {
        Outcome::NotApplied => Applied::No,
        Outcome::Unknown => Applied::Unknown,
    }
}
