//! Several locks at once.

use std::time::Duration;

use coord_api::{Dir, Entry, Session};
use coord_recipes::MultiLock;

use super::{
    hold_rules_and,
    holding::{Asking, Patience, rounds},
    of_holds,
};
use crate::{
    checkers::{facts::Mode, multi},
    sim::{
        client::Client,
        recorder::Ledger,
        run::{Rule, Scenario},
    },
};

const NAMES: &[&str] = &["/multi/a", "/multi/b", "/multi/c"];
const RULES: &[(&str, Rule)] = &hold_rules_and(("all or none", multi));

/// Clients that want two or three locks of three, named in any order.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 4,
    rules: RULES,
    // The recorder does not know which call made an entry, so the order of joining is not judged.
    quiet: &["all or none"],
    ..of_holds("multi", "several locks, all or none, without deadlock", NAMES, Ledger::line(line_of), |me| {
        Box::pin(rounds(me, round))
    })
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    let dir = entry.key.parent();
    NAMES.contains(&dir.as_str()).then(|| (dir.as_str().to_owned(), Mode::Exclusive))
}

async fn round(me: Client, session: Session) {
    let mut names = NAMES.to_vec();
    names.rotate_left(usize::try_from(me.range(0, 3)).unwrap_or(0));
    if me.chance(500) {
        names.swap(0, 1);
    }
    if me.chance(700) {
        names.pop();
    }
    let Ok(lock) = MultiLock::new(&session, names) else { return };
    let names: Vec<Dir> = lock.names().cloned().collect();
    let group = me.next_id();
    let mut asks: Vec<_> =
        names.iter().map(|name| Asking::of_group(&me, name.as_str(), u64::from(me.id()), group)).collect();
    let acquire = async {
        match Patience::draw(&me) {
            Patience::Once => lock.try_acquire().await,
            Patience::For(time) => lock.acquire_timeout(time).await,
            Patience::Ever => lock.acquire().await.map(Some),
        }
    };
    let Some(Ok(Some(guard))) = me.perhaps_cancelled(acquire).await else {
        return asks.into_iter().for_each(Asking::refused);
    };
    let holds = || names.iter().filter_map(|name| guard.hold(name));
    if asks.iter().zip(holds()).any(|(asking, hold)| asking.taken_away(hold)) {
        return asks.into_iter().for_each(Asking::refused);
    }
    for (asking, hold) in asks.iter_mut().zip(holds()) {
        asking.granted(hold);
    }
    for _ in 0..me.range(1, 4) {
        let valid = asks.iter().zip(holds()).fold(true, |all, (asking, hold)| asking.believes(hold) && all);
        if valid != guard.is_valid() {
            me.expect(!guard.is_valid(), || "a multi-lock is valid and a part of it is not".to_owned());
        }
        if !valid {
            // Must come, or this client does not finish.
            guard.lost().await;
            break;
        }
        tokio::time::sleep(Duration::from_millis(me.range(1, 100))).await;
    }
    let valid: Vec<bool> = asks.iter().zip(holds()).map(|(asking, hold)| asking.releasing(hold)).collect();
    let (released, lost): (Vec<_>, Vec<_>) = asks.into_iter().zip(valid).partition(|(_, valid)| *valid);
    lost.into_iter().for_each(|(asking, _)| asking.ended(false));
    // What is left when this fails goes with the session.
    let _ = me.perhaps_cancelled(guard.release()).await;
    released.into_iter().for_each(|(asking, _)| asking.ended(true));
}
