//! The re-entrant lock.

use coord_api::{Entry, Session};
use coord_recipes::{Owner, ReentrantLock};

use super::{
    hold_rules_and,
    holding::{Asking, Patience, end, entry_in, hold, rounds},
    of_holds,
};
use crate::{
    checkers::{facts::Mode, re_entry},
    sim::{
        client::Client,
        recorder::Ledger,
        run::{Rule, Scenario},
    },
};

const NAME: &str = "/locks/again";
const RULES: &[(&str, Rule)] = &hold_rules_and(("re-entry", re_entry));

/// Owners who take what they have once more, and give it back in any order.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 5,
    rules: RULES,
    ..of_holds(
        "reentrant",
        "re-entrant lock: held until the last release",
        &[NAME],
        Ledger::line(line_of),
        |me| Box::pin(rounds(me, round)),
    )
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    entry_in(entry, NAME, Mode::Exclusive)
}

async fn round(me: Client, session: Session) {
    let Ok(lock) = ReentrantLock::new(&session, NAME) else { return };
    let (owner, number) = (Owner::unique(), me.next_id());
    let mut outer = Asking::new(&me, NAME, number, Mode::Exclusive);
    let acquire = async {
        match Patience::draw(&me) {
            Patience::Once => lock.try_acquire(&owner).await,
            Patience::For(time) => lock.acquire_timeout(&owner, time).await,
            Patience::Ever => lock.acquire(&owner).await.map(Some),
        }
    };
    match me.perhaps_cancelled(acquire).await {
        Some(Ok(Some(guard))) => {
            outer.granted(&guard);
            let inner = Asking::new(&me, NAME, number, Mode::Exclusive);
            let again = me.perhaps_cancelled(lock.acquire(&owner)).await;
            if me.chance(500) {
                // The outer one is given back first.
                end(&me, outer, guard, |guard| guard.release()).await;
                hold(&me, inner, again.map(|again| again.map(Some)), |guard| guard.release()).await;
            } else {
                hold(&me, inner, again.map(|again| again.map(Some)), |guard| guard.release()).await;
                outer.work(&guard).await;
                end(&me, outer, guard, |guard| guard.release()).await;
            }
        }
        _ => outer.refused(),
    }
}
