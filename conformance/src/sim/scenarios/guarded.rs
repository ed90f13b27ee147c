//! Writes under a guard.

use coord_api::{Entry, Error, Outcome, Session, Txn, TxnOutcome};
use coord_recipes::{Hold, Lock};

use super::{
    BASE,
    holding::{entry_in, rounds},
    of_data,
};
use crate::{
    checkers::{
        facts::{Applied, Guarded, Mode},
        guarded,
    },
    sim::{
        client::Client,
        recorder::Ledger,
        run::{Rule, Scenario},
    },
};

const NAME: &str = "/locks/writer";
const KEY: &str = "/guarded/value";
const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("writes under a guard", guarded)];

/// Clients that write to one key, each write only while they hold a lock, and do not look whether they do.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 5,
    faults: super::waits_only(),
    dirs: &[NAME],
    keeps: |key| key == KEY,
    ledger: Ledger { changes: true, ..Ledger::line(line_of) },
    ..of_data("guarded", "commit under a guard: applied while it holds, or not at all", RULES, |me| {
        Box::pin(rounds(me, round))
    })
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    entry_in(entry, NAME, Mode::Exclusive)
}

async fn round(me: Client, session: Session) {
    let Ok(lock) = Lock::new(&session, NAME) else { return };
    let Some(Ok(guard)) = me.perhaps_cancelled(lock.acquire()).await else { return };
    for _ in 0..me.range(1, 6) {
        write(&me, &guard).await;
        // Sometimes longer than a session that is cut off.
        let pause = if me.chance(50) { 4000 } else { 200 };
        me.idle(1, pause).await;
    }
    let _ = me.perhaps_cancelled(guard.release()).await;
}

async fn write(me: &Client, guard: &Hold) {
    let write = me.next_id();
    // The token is the revision that created the entry.
    let entry = u64::try_from(guard.token().get()).unwrap_or(0);
    me.record(Guarded::Sent { write, name: NAME.to_owned(), entry, key: KEY.to_owned() });
    let commit = guard.commit(Txn::new().put(KEY, write.to_string()));
    let applied = match me.perhaps_cancelled(commit).await {
        Some(Ok(TxnOutcome::Committed(_))) => Applied::Yes,
        Some(Ok(TxnOutcome::Rejected(_))) => Applied::No,
        Some(Err(error)) => applied(&error),
        None => Applied::Unknown,
    };
    me.record(Guarded::Told { write, applied });
}

fn applied(error: &Error) -> Applied {
    match error.outcome() {
        Outcome::NotApplied => Applied::No,
        Outcome::Unknown => Applied::Unknown,
    }
}
