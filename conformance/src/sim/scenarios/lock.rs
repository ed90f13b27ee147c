//! The fair lock.

use coord_api::{Entry, Session};
use coord_recipes::Lock;

use super::holding::{Asking, Patience, end, entry_in};
use crate::{
    checkers::facts::Mode,
    sim::{
        client::Client,
        faults::Kind,
        recorder::Ledger,
        run::{Scenario, all_but, keeps_nothing, no_last_look},
    },
};

const NAME: &str = "/locks/one";

/// Clients that want one lock, again and again.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "lock",
    about: "fair lock: exclusion, tokens, first come first served",
    clients: 5,
    steps: 5,
    faults: all_but(&[Kind::WatchCut, Kind::WatchGap, Kind::EmptyEvent, Kind::RepeatedEvent]),
    dirs: &[NAME],
    ledger: Ledger { line_of, changes: false },
    client: |me| Box::pin(client(me)),
    last_look: no_last_look,
    keeps: keeps_nothing,
    rules: super::HOLD_RULES,
    quiet: &[],
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    entry_in(entry, NAME, Mode::Exclusive)
}

async fn client(me: Client) {
    let mut session = me.session().await;
    for _ in 0..me.steps() {
        me.idle(0, 400).await;
        me.fresh(&mut session).await;
        round(&me, &session).await;
    }
    // What does not arrive is made good by the ttl.
    let _ = session.close().await;
}

async fn round(me: &Client, session: &Session) {
    let Ok(lock) = Lock::new(session, NAME) else { return };
    let mut asking = Asking::new(me, NAME, u64::from(me.id()), Mode::Exclusive);
    let acquire = async {
        match Patience::draw(me) {
            Patience::Once => lock.try_acquire().await,
            Patience::For(time) => lock.acquire_timeout(time).await,
            Patience::Ever => lock.acquire().await.map(Some),
        }
    };
    match me.perhaps_cancelled(acquire).await {
        Some(Ok(Some(guard))) => {
            asking.granted(&guard);
            asking.work(&guard).await;
            end(me, asking, guard, |guard| guard.release()).await;
        }
        _ => asking.refused(),
    }
}
