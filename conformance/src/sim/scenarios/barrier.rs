//! Barriers and latches.

use std::time::Duration;

use coord_recipes::{Barrier as Gate, CountDownLatch};

use super::{BASE, of_data};
use crate::{
    checkers::{barrier, facts::Barrier},
    sim::{
        client::Client,
        faults::Kind,
        recorder::Ledger,
        run::{Rule, Scenario, all_but},
    },
};

const GATE: &str = "/barriers/gate";
const LATCH: &str = "/barriers/latch";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("nobody passes early", barrier)];
/// How often each client counts the latch down.
const COUNTS: u32 = 2;

/// One client sets a barrier and lowers it; all wait there, and at a latch that all count down.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 3,
    faults: all_but(&[
        Kind::WatchCut,
        Kind::WatchGap,
        Kind::EmptyEvent,
        Kind::RepeatedEvent,
        // A request to raise a barrier that arrives when it was lowered raises it again.
        Kind::Late,
        Kind::Cancel,
        Kind::StaleRead,
        // Who dies counts nothing down.
        Kind::Crash,
        Kind::EntryDeleted,
        Kind::DirectoryDeleted,
    ]),
    keeps: |key| key.starts_with("/barriers/"),
    ledger: Ledger::line(|_| None),
    ..of_data("barrier", "barrier and latch: nobody passes early, everybody passes", RULES, |me| {
        Box::pin(client(me))
    })
};

async fn client(me: Client) {
    if me.id() == 1 {
        let latch = LATCH.to_owned();
        // Set up by whoever counts first; the number is agreed.
        me.record(Barrier::Counts { name: latch, count: u64::from(me.clients() * COUNTS) });
    }
    for step in 0..me.steps() {
        let gate = format!("{GATE}-{step}");
        if me.id() == 1 {
            raise_and_lower(&me, &gate).await;
        } else {
            me.idle(0, 400).await;
            wait_at(&me, &gate).await;
        }
    }
    count_down(&me).await;
}

async fn raise_and_lower(me: &Client, name: &str) {
    let Ok(gate) = Gate::new(me.coord(), name) else { return };
    let set = me.until_answered(|| gate.set()).await;
    if set.is_ok() {
        me.record(Barrier::Raised { name: name.to_owned() });
    }
    me.idle(0, 1500).await;
    me.record(Barrier::Lowering { name: name.to_owned() });
    if me.until_answered(|| gate.remove()).await.is_ok() {
        me.record(Barrier::Lowered { name: name.to_owned() });
    }
}

async fn wait_at(me: &Client, name: &str) {
    let Ok(gate) = Gate::new(me.coord(), name) else { return };
    let wait = me.next_id();
    me.record(Barrier::Waiting { name: name.to_owned(), wait });
    let passed = me.until_answered(|| gate.wait()).await;
    me.record(if passed.is_ok() { Barrier::Passed { wait } } else { Barrier::GaveUp { wait } });
}

async fn count_down(me: &Client) {
    let mut session = me.session().await;
    for _ in 0..COUNTS {
        me.idle(0, 600).await;
        me.record(Barrier::Lowering { name: LATCH.to_owned() });
        loop {
            me.fresh(&mut session).await;
            let Ok(latch) = CountDownLatch::new(&session, LATCH, me.clients() * COUNTS) else { return };
            match latch.count_down().await {
                Ok(_) => break,
                // Nobody knows whether it counted: counting again might count twice.
                Err(error) if error.outcome() == coord_api::Outcome::Unknown => return,
                Err(_) => {}
            }
        }
        me.record(Barrier::Lowered { name: LATCH.to_owned() });
    }
    me.fresh(&mut session).await;
    let Ok(latch) = CountDownLatch::new(&session, LATCH, me.clients() * COUNTS) else { return };
    let wait = me.next_id();
    me.record(Barrier::Waiting { name: LATCH.to_owned(), wait });
    // Somebody may not have counted: then it never opens.
    let opened = matches!(latch.wait_timeout(Duration::from_secs(60)).await, Ok(true));
    me.record(if opened { Barrier::Passed { wait } } else { Barrier::GaveUp { wait } });
    let _ = session.close().await;
}
