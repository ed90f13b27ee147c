//! Shared values.

use coord_api::{Error, Outcome};
use coord_recipes::{SharedValue, Versioned};
use futures::StreamExt;

use super::{
    BASE, SETTLED, of_data,
    register::{call, in_one_order},
};
use crate::{
    checkers::{
        facts::{Action, Answer, Told},
        told,
    },
    sim::{
        client::Client,
        faults::Kind,
        recorder::fingerprint,
        run::{Rule, Scenario, all_but},
    },
};

const KEY: &str = "/values/one";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("linearizable", in_one_order), ("listeners", told)];

/// Clients that read, set and swap one value, and listen to it.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 12,
    faults: all_but(&[
        Kind::EarlyWake,
        Kind::Expiry,
        Kind::FastClock,
        Kind::LastReply,
        Kind::StaleRead,
        // The register of the checker does not know of deletions by others.
        Kind::EntryDeleted,
        Kind::DirectoryDeleted,
    ]),
    keeps: |key| key == KEY,
    ..of_data("value", "shared value: one order of all changes, and listeners never go back", RULES, |me| {
        Box::pin(client(me))
    })
};

async fn client(me: Client) {
    let Ok(value) = SharedValue::new(me.coord(), KEY) else { return };
    let listener = me.next_id();
    me.record(Told::Opened { listener, key: KEY.to_owned() });
    let listening = me.node().runtime.spawn(listen(me.clone(), value.clone(), listener));
    for _ in 0..me.steps() {
        me.idle(0, 400).await;
        let step = step(&me, &value);
        let _ = me.perhaps_cancelled(step).await;
    }
    me.until(SETTLED).await;
    me.record(Told::Settled { listener });
    listening.abort();
}

async fn listen(me: Client, value: SharedValue, listener: u64) {
    let Ok(mut changes) = value.changes() else { return };
    while let Some(now) = changes.next().await {
        me.record(Told::Value { listener, value: now.map(|now| fingerprint(&now.value)) });
    }
}

async fn step(me: &Client, value: &SharedValue) {
    let new = me.next_id();
    match me.range(0, 4) {
        0 => {
            let read = async {
                match value.get().await {
                    Ok(now) => Answer::Value(now.map(|now| seen(me, &now))),
                    Err(_) => Answer::NotApplied,
                }
            };
            call(me, KEY, Action::Read, read).await;
        }
        1 => {
            let set = async { written(me, new, value.set(new.to_string()).await.map(|()| true)) };
            call(me, KEY, Action::Write(Some(new)), set).await;
        }
        _ => {
            let Ok(now) = value.get().await else { return };
            let (version, at) =
                (now.as_ref().map(|now| now.version), now.as_ref().map(|now| seen(me, now).1));
            let swap = async { written(me, new, value.set_if(version, new.to_string()).await) };
            call(me, KEY, Action::Swap { at, to: Some(new) }, swap).await;
        }
    }
}

/// The value and the revision that wrote it, which its reader is not told: the store's record is asked.
fn seen(me: &Client, now: &Versioned) -> (u64, u64) {
    let value = fingerprint(&now.value);
    (value, me.node().world.recorder().revision_of(KEY, value))
}

fn written(me: &Client, value: u64, written: Result<bool, Error>) -> Answer {
    match written {
        Ok(true) => Answer::Done(me.node().world.recorder().revision_of(KEY, value)),
        Ok(false) => Answer::Rejected,
        Err(error) if error.outcome() == Outcome::NotApplied => Answer::NotApplied,
        Err(_) => Answer::Unknown,
    }
}
