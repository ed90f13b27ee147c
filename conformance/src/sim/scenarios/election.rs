//! Elections.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use coord_api::{Entry, SessionOptions};
use coord_recipes::{Candidate, CandidateOptions, Election as Look, Leadership, SessionKeeper};
use futures::StreamExt;

use super::{
    hold_rules_and,
    holding::{Asking, end, entry_in},
    of_holds,
};
use crate::{
    checkers::{
        election,
        facts::{Election, Mode},
    },
    sim::{
        client::{Client, TTL},
        recorder::Ledger,
        run::{Rule, Scenario},
    },
};

const NAME: &str = "/elections/one";
const RULES: &[(&str, Rule)] = &hold_rules_and(("epochs", election));

/// Candidates that lead, resign, and hand over; each also watches who leads.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 4,
    faults: super::waits_only(),
    rules: RULES,
    ..of_holds(
        "election",
        "leaders and epochs as every observer sees them",
        &[NAME],
        Ledger { elections: true, ..Ledger::line(line_of) },
        |me| Box::pin(client(me)),
    )
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    entry_in(entry, NAME, Mode::Exclusive)
}

async fn client(me: Client) {
    let keeper = SessionKeeper::new(me.coord(), SessionOptions::new(TTL));
    let watching = me.node().runtime.spawn(observe(me.clone()));
    let id = format!("node-{}", me.id());
    for _ in 0..me.steps() {
        me.idle(0, 500).await;
        let options = CandidateOptions::default();
        let Ok(candidate) = Candidate::with_options(&keeper, NAME, id.as_str(), options) else { break };
        if me.chance(250) {
            run(&me, &candidate).await;
        } else {
            lead(&me, &candidate).await;
        }
    }
    watching.abort();
    // What does not arrive is made good by the ttl.
    let _ = keeper.close().await;
}

/// A term by hand.
async fn lead(me: &Client, candidate: &Candidate) {
    let mut asking = Asking::new(me, NAME, u64::from(me.id()), Mode::Exclusive);
    let Some(Ok(leadership)) = me.perhaps_cancelled(candidate.leadership()).await else {
        return asking.refused();
    };
    begin(me, &mut asking, &leadership);
    for _ in 0..me.range(1, 5) {
        if !answer(me, &asking, candidate, &leadership) {
            break;
        }
        me.idle(1, 200).await;
    }
    if me.chance(200) && leadership.is_valid() {
        let to = format!("node-{}", me.range(1, 5));
        let valid = asking.releasing(&leadership);
        let _ = me.perhaps_cancelled(leadership.hand_over(&to, Duration::from_millis(500))).await;
        return asking.ended(valid);
    }
    end(me, asking, leadership, |leadership| leadership.resign()).await;
}

/// A term whose body is stopped when it is lost.
async fn run(me: &Client, candidate: &Candidate) {
    let body = |leadership: Arc<Leadership>| async move {
        let mut asking = Asking::new(me, NAME, u64::from(me.id()), Mode::Exclusive);
        begin(me, &mut asking, &leadership);
        for _ in 0..me.range(1, 5) {
            if !asking.believes(&leadership) {
                break;
            }
            me.idle(1, 200).await;
        }
        let valid = asking.releasing(&leadership);
        asking.ended(valid);
        ControlFlow::Break(())
    };
    let _ = me.perhaps_cancelled(candidate.run_while_leader(body)).await;
}

fn begin(me: &Client, asking: &mut Asking<'_>, leadership: &Leadership) {
    if asking.taken_away(leadership) {
        return;
    }
    asking.granted(leadership);
    let (candidate, epoch) = (leadership.id().to_owned(), leadership.epoch().get());
    me.record(Election::Led { name: NAME.to_owned(), candidate, epoch });
}

/// Asks the candidate whether it leads.
fn answer(me: &Client, asking: &Asking<'_>, candidate: &Candidate, leadership: &Leadership) -> bool {
    let leads = candidate.is_leader();
    let (id, epoch) = (leadership.id().to_owned(), leadership.epoch().get());
    if !asking.taken_away(leadership) {
        me.record(Election::Answered { name: NAME.to_owned(), candidate: id, epoch, leads });
    }
    me.expect(!leads || leadership.is_valid(), || "is_leader, and its leadership is not valid".to_owned());
    asking.believes(leadership)
}

async fn observe(me: Client) {
    let Ok(election) = Look::new(me.coord(), NAME) else { return };
    let observer = me.next_id();
    let mut leaders = election.observe();
    while let Some(Ok(leader)) = leaders.next().await {
        let leader = leader.map(|leader| (leader.id().to_owned(), leader.epoch().get()));
        me.record(Election::Observed { name: NAME.to_owned(), observer, leader });
    }
}
