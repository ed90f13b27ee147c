//! The read/write lock.

use coord_api::{Entry, Session};
use coord_recipes::{ReadGuard, RwLock, WriteGuard};

use super::{
    holding::{Asking, Patience, end, entry_in, hold, rounds},
    of_holds,
};
use crate::{
    checkers::facts::Mode,
    sim::{client::Client, recorder::Ledger, run::Scenario},
};

const NAME: &str = "/locks/shared";

/// Readers and writers, and writers that step down to readers.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 5,
    steps: 5,
    ..of_holds(
        "rwlock",
        "read/write lock: readers share, writers step down",
        &[NAME],
        Ledger { modes_change: true, ..Ledger::line(line_of) },
        |me| Box::pin(rounds(me, round)),
    )
};

fn line_of(entry: &Entry) -> Option<(String, Mode)> {
    let stepped_down = entry.meta.modified != entry.meta.created;
    let writes = entry.key.name().starts_with("__WRIT__") && !stepped_down;
    entry_in(entry, NAME, if writes { Mode::Exclusive } else { Mode::Shared })
}

async fn round(me: Client, session: Session) {
    let Ok(lock) = RwLock::new(&session, NAME) else { return };
    let owner = u64::from(me.id());
    if me.chance(600) {
        let asking = Asking::new(&me, NAME, owner, Mode::Shared);
        let acquired = me.perhaps_cancelled(read(&me, &lock)).await;
        return hold(&me, asking, acquired, |guard| guard.release()).await;
    }
    let mut asking = Asking::new(&me, NAME, owner, Mode::Exclusive);
    let acquired = me.perhaps_cancelled(write(&me, &lock)).await;
    match acquired {
        Some(Ok(Some(guard))) if me.chance(400) => {
            asking.granted(&guard);
            asking.work(&guard).await;
            step_down(&me, asking, guard).await;
        }
        acquired => hold(&me, asking, acquired, |guard| guard.release()).await,
    }
}

/// From here on others may read, so the writer believes in itself no longer.
async fn step_down(me: &Client, writing: Asking<'_>, guard: WriteGuard) {
    let valid = writing.releasing(&guard);
    let mut reading = Asking::new(me, NAME, u64::from(me.id()), Mode::Shared);
    let stepped = me.perhaps_cancelled(guard.downgrade()).await;
    if let Some(Ok(guard)) = stepped {
        reading.granted(&guard);
        writing.ended(valid);
        reading.work(&guard).await;
        end(me, reading, guard, |guard| guard.release()).await;
    } else {
        reading.refused();
        writing.ended(valid);
    }
}

async fn read(me: &Client, lock: &RwLock) -> coord_api::Result<Option<ReadGuard>> {
    match Patience::draw(me) {
        Patience::Once => lock.try_read().await,
        Patience::For(time) => lock.read_timeout(time).await,
        Patience::Ever => lock.read().await.map(Some),
    }
}

async fn write(me: &Client, lock: &RwLock) -> coord_api::Result<Option<WriteGuard>> {
    match Patience::draw(me) {
        Patience::Once => lock.try_write().await,
        Patience::For(time) => lock.write_timeout(time).await,
        Patience::Ever => lock.write().await.map(Some),
    }
}
