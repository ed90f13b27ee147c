//! The semaphore.

use coord_api::{Entry, Session};
use coord_recipes::Semaphore;

use super::{
    holding::{Asking, Patience, entry_in, hold, rounds},
    of_holds,
};
use crate::{
    checkers::facts::Mode,
    sim::{client::Client, recorder::Ledger, run::Scenario},
};

const NAME: &str = "/locks/permits";
const PERMITS: u32 = 3;

/// Clients that want one or two permits of three.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 5,
    steps: 5,
    // Permits are granted in any order, so a smaller token behind a larger one is nothing wrong.
    quiet: &["tokens"],
    keeps: |key| key == "/locks/permits.meta/permits",
    ..of_holds(
        "semaphore",
        "semaphore: never more permits than agreed",
        &[NAME],
        Ledger::line(line_of),
        |me| Box::pin(rounds(me, round)),
    )
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    // `lease-` for one permit, `lease-2-` for two; marks of a resize stand for none.
    let several = entry.key.name().strip_prefix("lease-")?.split_once("-:").map(|(count, _)| count);
    let take = several.and_then(|count| count.parse().ok()).unwrap_or(1);
    entry_in(entry, NAME, Mode::Permits { take, of: PERMITS.into() })
}

async fn round(me: Client, session: Session) {
    let open = || Semaphore::open(&session, NAME, PERMITS);
    let Ok(semaphore) = me.until_answered(open).await else { return };
    let take = if me.chance(300) { 2 } else { 1 };
    let mode = Mode::Permits { take: take.into(), of: PERMITS.into() };
    let asking = Asking::new(&me, NAME, me.next_id(), mode);
    let acquire = async {
        match Patience::draw(&me) {
            Patience::Once => semaphore.try_acquire_many(take).await,
            Patience::For(time) => semaphore.acquire_many_timeout(take, time).await,
            Patience::Ever => semaphore.acquire_many(take).await.map(Some),
        }
    };
    let acquired = me.perhaps_cancelled(acquire).await;
    hold(&me, asking, acquired, |guard| guard.release()).await;
}
