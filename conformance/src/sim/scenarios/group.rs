//! Groups: who is there, as their watchers are told.

use std::time::Duration;

use coord_api::{Lifetime, SessionOptions};
use coord_recipes::{Joined, Member, MemberEvent, Membership, SessionKeeper};
use futures::StreamExt;

use super::{BASE, SETTLED, of_data};
use crate::{
    checkers::{facts::Group, group},
    sim::{
        client::{Client, TTL},
        faults::Kind,
        recorder::fingerprint,
        run::{Rule, Scenario, all_but},
    },
};

const GROUP: &str = "/group";
/// A key in the directory that is no member.
const STRANGER: &str = "/group/readme";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("views", group)];

/// Members that come, change and go, each of whom watches all.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 8,
    // A watch tells every event once, says the contract.
    faults: all_but(&[Kind::RepeatedEvent, Kind::StaleRead]),
    dirs: &[GROUP],
    keeps: |key| key == STRANGER,
    ..of_data(
        "group",
        "membership: what watchers are told makes the group, and is it when all is calm",
        RULES,
        |me| Box::pin(client(me)),
    )
};

async fn client(me: Client) {
    let keeper = SessionKeeper::new(me.coord(), SessionOptions::new(TTL));
    let Ok(group) = Membership::new(me.coord(), GROUP) else { return };
    let view = me.next_id();
    me.record(Group::Opened { view, dir: format!("{GROUP}/") });
    let watching = me.node().runtime.spawn(watch(me.clone(), group.clone(), view));
    if me.id() == 1 {
        // Whether it is there does not matter: it is no member.
        let _ = me.coord().create(STRANGER, "1", Lifetime::Persistent).await;
    }
    let mut here = None;
    for _ in 0..me.steps() {
        me.idle(0, 600).await;
        here = match here {
            None => join(&me, &group, &keeper).await,
            Some(member) if me.chance(300) => {
                // What does not arrive is sent again in the background.
                let _ = me.perhaps_cancelled(Joined::leave(member)).await;
                None
            }
            Some(member) => {
                let _ = me.perhaps_cancelled(member.update(me.next_id().to_string())).await;
                Some(member)
            }
        };
    }
    while here.is_none() {
        here = join(&me, &group, &keeper).await;
        me.idle(100, 300).await;
    }
    me.until(SETTLED).await;
    me.record(Group::Settled { view });
    me.until(SETTLED + Duration::from_secs(2)).await;
    watching.abort();
    if let Some(member) = here {
        let _ = member.leave().await;
    }
    let _ = keeper.close().await;
}

async fn join(me: &Client, group: &Membership, keeper: &SessionKeeper) -> Option<Joined> {
    let (id, value) = (format!("node-{}", me.id()), me.next_id().to_string());
    // Refused while the key of an earlier session of ours is there.
    me.perhaps_cancelled(group.join(keeper, &id, value)).await?.ok()
}

async fn watch(me: Client, group: Membership, view: u64) {
    // A stream that fails is followed by another, which begins with all members again.
    while let Ok(mut events) = me.until_answered(|| group.events()).await {
        while let Some(Ok(event)) = events.next().await {
            me.record(told(view, event));
        }
    }
}

fn told(view: u64, event: MemberEvent) -> Group {
    let id = |member: &Member| member.id().to_owned();
    let since = |member: &Member| member.since().get();
    let value = |member: &Member| fingerprint(member.payload());
    match event {
        MemberEvent::Members(members) => {
            let members = members.iter().map(|member| (id(member), (since(member), value(member)))).collect();
            Group::Members { view, members }
        }
        MemberEvent::Joined(member) => {
            Group::Joined { view, id: id(&member), since: since(&member), value: value(&member) }
        }
        MemberEvent::Updated(member) => {
            Group::Updated { view, id: id(&member), since: since(&member), value: value(&member) }
        }
        MemberEvent::Left(member) => Group::Left { view, id: id(&member), since: since(&member) },
        _ => Group::Closed { view },
    }
}
