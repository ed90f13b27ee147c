//! Registrations.

use std::time::Duration;

use coord_api::SessionOptions;
use coord_recipes::{PersistentEphemeral, SessionKeeper};

use super::{BASE, of_data};
use crate::{
    checkers::{History, Verdict, ephemeral},
    sim::{
        client::{Client, TTL},
        faults::Kind,
        recorder::fingerprint,
        run::{Rule, Scenario},
    },
};

const GROUP: &str = "/group";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("ephemerals", at_once)];

/// Members that register, change their payload, lose their sessions and leave.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 6,
    faults: super::waits_only().without(Kind::StaleRead),
    dirs: &[GROUP],
    // Sessions of others are no matter of a member's.
    quiet: &["ephemerals"],
    ..of_data("members", "registration: there again after each loss, with the latest data", RULES, |me| {
        Box::pin(client(me))
    })
};

fn at_once(history: &History) -> Verdict {
    ephemeral(history, Duration::ZERO)
}

async fn client(me: Client) {
    let keeper = SessionKeeper::new(me.coord(), SessionOptions::new(TTL));
    let key = format!("{GROUP}/node-{}", me.id());
    let first = me.next_id();
    let Ok(member) = PersistentEphemeral::new(&keeper, key.as_str(), first.to_string()) else { return };
    let mut latest = first;
    for _ in 0..me.steps() {
        me.idle(0, 700).await;
        latest = me.next_id();
        // Sent or not, from now on it is the data.
        let _ = me.perhaps_cancelled(member.set(latest.to_string())).await;
    }
    // Behind the last fault everybody is there, with what was said last.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let there = me.node().world.coord().get(key.as_str()).await;
    let value = there.ok().flatten().map(|entry| fingerprint(&entry.value));
    me.expect(value == Some(latest), || format!("{key} is {value:?} and should be {latest}"));
    me.expect(member.is_registered(), || format!("{key} is not registered, says its owner"));
    let _ = member.close().await;
    let _ = keeper.close().await;
}
