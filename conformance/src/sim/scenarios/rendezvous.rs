//! Double barriers.

use std::time::Duration;

use coord_api::{Entry, Session};
use coord_recipes::{DoubleBarrier, Entered};

use super::{BASE, holding::entry_in, of_data};
use crate::{
    checkers::{
        Event, History, Verdict, What,
        facts::{Mode, Rendezvous, Step},
        rendezvous,
    },
    sim::{
        client::Client,
        recorder::Ledger,
        run::{Rule, Scenario},
    },
};

const NAME: &str = "/barriers/both";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("in and out together", together)];

/// Three members that enter together and leave together, round for round.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 3,
    steps: 5,
    faults: super::waits_only(),
    dirs: &[NAME],
    keeps: |key| key.starts_with("/barriers/both.meta"),
    ledger: Ledger { rounds: true, ..Ledger::line(line_of) },
    ..of_data("rendezvous", "double barrier: in together, out together, nobody twice", RULES, |me| {
        Box::pin(client(me))
    })
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    entry_in(entry, NAME, Mode::Shared)
}

/// Up to the first member that gives up: from there on nobody knows who counts as present.
fn together(history: &History) -> Verdict {
    let gave_up = |event: &&Event| matches!(&event.what, What::Rendezvous(fact) if fact.step == Step::GaveUp);
    rendezvous(&history.events().iter().take_while(|event| !gave_up(event)).cloned().collect())
}

async fn client(me: Client) {
    let mut session = me.session().await;
    for round in 0..u64::from(me.steps()) {
        // Sometimes the others wait long.
        let latest = if me.chance(400) { 5000 } else { 500 };
        me.idle(0, latest).await;
        me.fresh(&mut session).await;
        let tell = |step| {
            let (member, of) = (u64::from(me.id()), u64::from(me.clients()));
            me.record(Rendezvous { name: NAME.to_owned(), round, member, of, step });
        };
        tell(Step::Entering);
        let Some(entered) = enter(&me, &session).await else {
            tell(Step::GaveUp);
            continue;
        };
        tell(Step::Entered);
        me.idle(0, 400).await;
        tell(Step::Leaving);
        let left = me.perhaps_cancelled(entered.leave_timeout(Duration::from_secs(14))).await;
        tell(if matches!(left, Some(Ok(true))) { Step::Departed } else { Step::GaveUp });
    }
    let _ = session.close().await;
}

async fn enter(me: &Client, session: &Session) -> Option<Entered> {
    let members = usize::try_from(me.clients()).ok()?;
    let barrier = DoubleBarrier::new(session, NAME, members).ok()?;
    me.perhaps_cancelled(barrier.enter_timeout(Duration::from_secs(14))).await?.ok()?
}
