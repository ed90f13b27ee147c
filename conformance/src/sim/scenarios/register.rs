//! The contract itself: reads, writes, transactions and watches of a few keys.

use std::collections::BTreeMap;

use coord_api::{Entry, Error, Outcome, Txn, TxnOutcome, Version, WatchEvent, WatchStream};
use futures::StreamExt;

use super::{BASE, of_data};
use crate::{
    checkers::{
        Detail, History, Verdict,
        facts::{Action, Answer, Register, Watch},
        linearizable, watch,
    },
    sim::{
        client::Client,
        faults::Kind,
        recorder::fingerprint,
        run::{Rule, Scenario, all_but},
    },
};

const DIR: &str = "/data/";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("linearizable", in_one_order), ("watch", every_change)];

/// Clients that read, write, swap and delete three keys, and watch them.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 16,
    faults: all_but(&[
        Kind::EarlyWake,
        Kind::Expiry,
        Kind::FastClock,
        Kind::LastReply,
        Kind::EntryDeleted,
        Kind::DirectoryDeleted,
        // A watch tells every event once, says the contract.
        Kind::RepeatedEvent,
        // Plain reads are not linearizable then.
        Kind::StaleRead,
    ]),
    keeps: |key| key.starts_with(DIR),
    ..of_data(
        "register",
        "the contract: linearizable keys, unknown outcomes, watches without gaps",
        RULES,
        |me| Box::pin(client(me)),
    )
};

pub(super) fn in_one_order(history: &History) -> Verdict {
    linearizable(history, 200_000)
}

fn every_change(history: &History) -> Verdict {
    watch(history, Detail::EveryChange)
}

async fn client(me: Client) {
    let watching = me.node().runtime.spawn(follow(me.clone()));
    for _ in 0..me.steps() {
        me.idle(0, 400).await;
        let key = format!("{DIR}{}", me.range(0, 3));
        let step = step(&me, &key);
        let _ = me.perhaps_cancelled(step).await;
    }
    // Until the watch has seen everything.
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    watching.abort();
}

/// A call, and its answer. If it is dropped, there is no answer.
pub(super) async fn call(me: &Client, key: &str, action: Action, answer: impl Future<Output = Answer>) {
    let op = me.next_id();
    me.record(Register::Call { op, key: key.to_owned(), action });
    let answer = answer.await;
    me.record(Register::Return { op, answer });
}

async fn step(me: &Client, key: &str) {
    let value = me.next_id();
    let store = me.coord();
    match me.range(0, 6) {
        0 | 1 => call(me, key, Action::Read, async { found(&store.get(key).await) }).await,
        2 => {
            let put = Txn::new().put(key, value.to_string());
            call(me, key, Action::Write(Some(value)), async { outcome(store.commit(put).await) }).await;
        }
        3 => {
            let create = Txn::new().create(key, value.to_string(), coord_api::Lifetime::Persistent);
            let action = Action::Swap { at: None, to: Some(value) };
            call(me, key, action, async { outcome(store.commit(create).await) }).await;
        }
        kind => {
            let Ok(Some(entry)) = store.get(key).await else { return };
            let at = Some(entry.meta.modified.get());
            let guarded = Txn::new().check_version(key, Version::new(entry.meta.version.get()));
            let to = (kind == 4).then_some(value);
            let txn = match to {
                Some(value) => guarded.update(key, value.to_string()),
                None => guarded.delete(key),
            };
            call(me, key, Action::Swap { at, to }, async { outcome(store.commit(txn).await) }).await;
        }
    }
}

fn found(read: &Result<Option<Entry>, Error>) -> Answer {
    match read {
        Ok(entry) => Answer::Value(entry.as_ref().map(told)),
        Err(_) => Answer::NotApplied,
    }
}

fn outcome(written: Result<TxnOutcome, Error>) -> Answer {
    match written {
        Ok(TxnOutcome::Committed(commit)) => {
            // A deletion does not tell its revision.
            commit.revision().map_or(Answer::Unknown, |revision| Answer::Done(revision.get()))
        }
        Ok(TxnOutcome::Rejected(_)) => Answer::Rejected,
        Err(error) if error.outcome() == Outcome::NotApplied => Answer::NotApplied,
        Err(_) => Answer::Unknown,
    }
}

fn told(entry: &Entry) -> (u64, u64) {
    (fingerprint(&entry.value), entry.meta.modified.get())
}

async fn follow(me: Client) {
    let id = me.next_id();
    let Ok(mut events) = me.coord().watch("/data").await else { return };
    me.record(Watch::Opened { watch: id, dir: DIR.to_owned(), after: None });
    me.node().if_killed(Watch::Closed { watch: id });
    tell(&me, id, &mut events).await;
    me.record(Watch::Closed { watch: id });
}

async fn tell(me: &Client, watch: u64, events: &mut WatchStream) {
    while let Some(Ok(event)) = events.next().await {
        match event {
            WatchEvent::Snapshot { entries, revision } => {
                let pairs = entries.iter().map(|entry| {
                    (entry.key.to_string(), (entry.meta.modified.get(), fingerprint(&entry.value)))
                });
                let entries: BTreeMap<_, _> = pairs.collect();
                me.record(Watch::Snapshot { watch, revision: revision.get(), entries });
            }
            WatchEvent::Put(entry) => {
                let (value, revision) = told(&entry);
                me.record(Watch::Put { watch, key: entry.key.to_string(), revision, value });
            }
            WatchEvent::Delete { key, revision } => {
                me.record(Watch::Deleted { watch, key: key.to_string(), revision: revision.get() });
            }
            WatchEvent::Progress(revision) => me.record(Watch::Progress { watch, revision: revision.get() }),
            _ => {}
        }
    }
}
