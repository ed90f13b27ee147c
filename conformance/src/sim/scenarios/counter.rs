//! Counters and id generators.

use std::sync::Arc;

use coord_api::{Error, Outcome, Result};
use coord_recipes::{Counter as Number, IdGenerator};
use futures::future::BoxFuture;

use super::{BASE, of_data};
use crate::{
    checkers::{
        counter,
        facts::{Applied, Counter, Drawn},
        unique_ids,
    },
    sim::{
        client::Client,
        faults::Kind,
        recorder::Ledger,
        run::{Rule, Scenario, all_but},
        world::World,
    },
};

const NUMBER: &str = "/numbers/hits";
const IDS: &str = "/numbers/ids";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("sums", counter), ("ids are unique", unique_ids)];

/// Clients that add to one counter and draw ids from one generator.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 8,
    faults: all_but(&[
        Kind::EarlyWake,
        Kind::WatchCut,
        Kind::WatchGap,
        Kind::EmptyEvent,
        Kind::RepeatedEvent,
        Kind::StaleRead,
        // Who deletes a counter or its notes sets it back.
        Kind::EntryDeleted,
        Kind::DirectoryDeleted,
    ]),
    // The rules look at all additions and ids together.
    quiet: &["ids are unique", "sums"],
    keeps: |key| key.starts_with("/numbers/"),
    last_look,
    ledger: Ledger::line(|_| None),
    ..of_data("counter", "counter and ids: every addition counts once, no id comes twice", RULES, |me| {
        Box::pin(client(me))
    })
};

async fn client(me: Client) {
    let mut session = me.session().await;
    let Ok(ids) = IdGenerator::new(me.coord(), IDS).and_then(|ids| ids.with_block(3)) else { return };
    for _ in 0..me.steps() {
        me.idle(0, 300).await;
        me.fresh(&mut session).await;
        let Ok(number) = Number::new(&session, NUMBER) else { return };
        if me.chance(300) {
            if let Some(Ok(id)) = me.perhaps_cancelled(ids.next()).await {
                me.record(Drawn { name: IDS.to_owned(), id });
            }
            continue;
        }
        add(&me, &number).await;
    }
    let _ = session.close().await;
}

async fn add(me: &Client, number: &Number) {
    let op = me.next_id();
    let delta = i64::try_from(me.range(1, 4)).unwrap_or(1);
    me.record(Counter::Adding { name: NUMBER.to_owned(), op, delta });
    let (applied, value) = match me.perhaps_cancelled(number.add(delta)).await {
        Some(Ok(value)) => (Applied::Yes, Some(value)),
        Some(Err(error)) => (applied(&error), None),
        None => (Applied::Unknown, None),
    };
    me.record(Counter::Added { op, applied, value });
}

fn applied(error: &Error) -> Applied {
    match error.outcome() {
        Outcome::NotApplied => Applied::No,
        Outcome::Unknown => Applied::Unknown,
    }
}

fn last_look(world: Arc<World>) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let coord = world.coord();
        let session = coord.session(std::time::Duration::from_secs(10)).await?;
        let value = Number::new(&session, NUMBER)?.get().await?;
        session.close().await?;
        world.record(0, Counter::Total { name: NUMBER.to_owned(), value });
        Ok(())
    })
}
