//! The lock with a queue in the process.

use coord_api::{Entry, Session};
use coord_recipes::SharedLock;

use super::{
    holding::{Asking, Patience, entry_in, hold, rounds},
    of_holds,
};
use crate::{
    checkers::facts::Mode,
    sim::{client::Client, recorder::Ledger, run::Scenario},
};

const NAME: &str = "/locks/process";

/// Two tasks of each client want one lock and share its place in the line.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 4,
    ..of_holds("shared", "lock that the tasks of a process queue for", &[NAME], Ledger::line(line_of), |me| {
        Box::pin(rounds(me, round))
    })
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    entry_in(entry, NAME, Mode::Exclusive)
}

async fn round(me: Client, session: Session) {
    let Ok(lock) = SharedLock::new(&session, NAME) else { return };
    futures::join!(task(&me, &lock), task(&me, &lock));
}

async fn task(me: &Client, lock: &SharedLock) {
    me.idle(0, 60).await;
    let asking = Asking::new(me, NAME, me.next_id(), Mode::Exclusive);
    let acquire = async {
        match Patience::draw(me) {
            Patience::Once => lock.try_acquire().await,
            Patience::For(time) => lock.acquire_timeout(time).await,
            Patience::Ever => lock.acquire().await.map(Some),
        }
    };
    let acquired = me.perhaps_cancelled(acquire).await;
    hold(me, asking, acquired, |guard| guard.release()).await;
}
