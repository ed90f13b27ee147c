//! Semaphores whose number of permits changes.

use coord_api::{Entry, Session};
use coord_recipes::Semaphore;

use super::{
    hold_rules_and,
    holding::{Asking, Patience, entry_in, hold},
    of_holds,
};
use crate::{
    checkers::{
        facts::{Mode, Resize},
        resize,
    },
    sim::{
        client::Client,
        recorder::Ledger,
        run::{Rule, Scenario},
    },
};

const NAME: &str = "/locks/pool";
/// What is agreed on first.
const FIRST: u32 = 3;
/// The largest number.
const MOST: u32 = 5;
const RULES: &[(&str, Rule)] = &hold_rules_and(("permits", resize));

/// Clients that want one or two permits, and change how many there are.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 5,
    steps: 6,
    rules: RULES,
    // Whoever deletes the mark of a change by hand hides it from those who know the old number.
    faults: super::waits_only().and(super::without_operator()),
    // Permits are granted in any order, so a smaller token behind a larger one is nothing wrong.
    quiet: &["tokens"],
    // The mark of the last change stays in the line.
    keeps: |key| key == "/locks/pool.meta/permits" || key.starts_with("/locks/pool/limit-"),
    ..of_holds(
        "resize",
        "semaphore: no more permits than there may be, while their number changes",
        &[NAME],
        Ledger::line(line_of),
        |me| Box::pin(client(me)),
    )
};

/// How much an ask takes; of how many is judged by the changes.
fn mode(take: u32) -> Mode {
    Mode::Permits { take: take.into(), of: u64::MAX }
}

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    // Marks of a change stand for no permit.
    let lease = entry.key.name().strip_prefix("lease-")?;
    let several = lease.split_once("-:").and_then(|(count, _)| count.parse().ok());
    entry_in(entry, NAME, mode(several.unwrap_or(1)))
}

async fn client(me: Client) {
    if me.id() == 1 {
        let resize = me.next_id();
        me.record(Resize::Calling { resize, name: NAME.to_owned(), to: FIRST.into() });
        me.record(Resize::Done { resize });
    }
    let mut session = me.session().await;
    let mut semaphore = open(&me, &session).await;
    for _ in 0..me.steps() {
        me.idle(0, 400).await;
        if !session.is_valid() {
            session = me.session().await;
            semaphore = open(&me, &session).await;
        }
        let Some(semaphore) = &semaphore else { break };
        if me.chance(250) {
            change(&me, semaphore).await;
        } else {
            take(&me, semaphore).await;
        }
    }
    // What does not arrive is made good by the ttl.
    let _ = session.close().await;
}

/// Opens it with the number that is agreed on now, which others may have changed.
async fn open(me: &Client, session: &Session) -> Option<Semaphore> {
    while session.is_valid() {
        for permits in std::iter::once(FIRST).chain(1..=MOST) {
            let open = || Semaphore::open(session, NAME, permits);
            if let Ok(semaphore) = me.until_answered(open).await {
                return Some(semaphore);
            }
        }
        me.idle(50, 100).await;
    }
    None
}

async fn change(me: &Client, semaphore: &Semaphore) {
    let (resize, to) = (me.next_id(), u32::try_from(me.range(1, u64::from(MOST) + 1)).unwrap_or(1));
    me.record(Resize::Calling { resize, name: NAME.to_owned(), to: to.into() });
    // If it is dropped it goes on; if it fails it may be done or not.
    if let Some(Ok(())) = me.perhaps_cancelled(semaphore.resize(to)).await {
        me.record(Resize::Done { resize });
    }
}

async fn take(me: &Client, semaphore: &Semaphore) {
    let take = if me.chance(300) { 2 } else { 1 };
    let asking = Asking::new(me, NAME, me.next_id(), mode(take));
    let acquire = async {
        match Patience::draw(me) {
            Patience::Once => semaphore.try_acquire_many(take).await,
            Patience::For(time) => semaphore.acquire_many_timeout(take, time).await,
            Patience::Ever => semaphore.acquire_many(take).await.map(Some),
        }
    };
    let acquired = me.perhaps_cancelled(acquire).await;
    hold(me, asking, acquired, |guard| guard.release()).await;
}
