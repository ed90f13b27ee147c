//! The fair lock.

use coord_api::{Entry, Session};
use coord_recipes::Lock;

use super::{
    holding::{Asking, Patience, entry_in, hold, rounds},
    of_holds,
};
use crate::{
    checkers::facts::Mode,
    sim::{client::Client, recorder::Ledger, run::Scenario},
};

const NAME: &str = "/locks/one";

/// Clients that want one lock, again and again, and sometimes ask its holder for it.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 5,
    steps: 5,
    ..of_holds("lock", "fair lock, and requests to its holder", &[NAME], Ledger::line(line_of), |me| {
        Box::pin(rounds(me, round))
    })
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    entry_in(entry, NAME, Mode::Exclusive)
}

async fn round(me: Client, session: Session) {
    let Ok(lock) = Lock::new(&session, NAME) else { return };
    if me.chance(100) {
        // Whether anybody was asked does not matter: it is only asked.
        let _ = me.perhaps_cancelled(lock.request_release()).await;
    }
    let asking = Asking::new(&me, NAME, u64::from(me.id()), Mode::Exclusive);
    let acquire = async {
        match Patience::draw(&me) {
            Patience::Once => lock.try_acquire().await,
            Patience::For(time) => lock.acquire_timeout(time).await,
            Patience::Ever => lock.acquire().await.map(Some),
        }
    };
    let acquired = me.perhaps_cancelled(acquire).await;
    hold(&me, asking, acquired, |guard| guard.release()).await;
}
