//! Work that the members of a group divide.

use std::time::Duration;

use coord_api::SessionOptions;
use coord_recipes::{Joined, Membership, Partition, SessionKeeper};

use super::{BASE, SETTLED, of_data};
use crate::{
    checkers::{facts::Share, shares},
    sim::{
        client::{Client, TTL},
        faults::Kind,
        run::{Rule, Scenario, all_but},
    },
};

const GROUP: &str = "/workers";
/// How many items are divided.
const ITEMS: u64 = 12;
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("owners", shares)];

/// Members that come and go, and say again and again what they take for theirs.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 5,
    // A watch tells every event once, says the contract.
    faults: all_but(&[Kind::RepeatedEvent, Kind::StaleRead]),
    dirs: &[GROUP],
    ..of_data(
        "partition",
        "partition: who sees the same members divides alike, and nothing is left over",
        RULES,
        |me| Box::pin(client(me)),
    )
};

async fn client(me: Client) {
    let keeper = SessionKeeper::new(me.coord(), SessionOptions::new(TTL));
    let Ok(group) = Membership::new(me.coord(), GROUP) else { return };
    let mut here = None;
    for _ in 0..me.steps() {
        let (member, partition) = match here.take() {
            Some(here) => here,
            None => join(&me, &group, &keeper).await,
        };
        for _ in 0..me.range(2, 12) {
            claim(&me, &partition, false);
            me.idle(0, 150).await;
        }
        if me.chance(300) {
            // What does not arrive is sent again in the background.
            let _ = me.perhaps_cancelled(Joined::leave(member)).await;
        } else {
            here = Some((member, partition));
        }
    }
    let (member, partition) = match here {
        Some(here) => here,
        None => join(&me, &group, &keeper).await,
    };
    me.until(SETTLED).await;
    claim(&me, &partition, true);
    me.until(SETTLED + Duration::from_secs(2)).await;
    let _ = member.leave().await;
    let _ = keeper.close().await;
}

async fn join(me: &Client, group: &Membership, keeper: &SessionKeeper) -> (Joined, Partition) {
    let id = format!("node-{}", me.id());
    loop {
        // Refused while the key of an earlier session of ours is there.
        if let Some(Ok(member)) = me.perhaps_cancelled(group.join(keeper, &id, "")).await
            && let Ok(partition) = me.until_answered(|| Partition::new(&member)).await
        {
            return (member, partition);
        }
        me.idle(100, 300).await;
    }
}

/// Says what is ours now. Nothing is awaited: it is one look.
fn claim(me: &Client, partition: &Partition, settled: bool) {
    let items = (0..ITEMS).filter(|item| partition.is_mine(item.to_string())).collect();
    let (dir, member) = (format!("{GROUP}/"), format!("node-{}", me.id()));
    let ring = partition.ring().members().to_vec();
    me.record(Share { dir, member, ring, items, of: ITEMS, settled });
}
