//! How often a keeper opens sessions when that does not last.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, SessionOptions, kit::Runtime};
use coord_backend_memory::{Faults, MemoryBackend, MemoryStore};
use coord_recipes::SessionKeeper;
use tokio::time::{Instant, timeout, timeout_at};

const MINUTE: Duration = Duration::from_secs(60);

fn store() -> (Coord, Faults) {
    let runtime = Runtime::current().expect("in a runtime");
    let backend = MemoryBackend::new(&MemoryStore::new(&runtime), runtime);
    let faults = backend.faults();
    (Coord::new(Arc::new(backend)), faults)
}

/// About once a second in the end, and not all at once when it is back.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_asked_ever_more_seldom() {
    let (coord, faults) = store();
    faults.cut_off();
    let keeper = SessionKeeper::new(&coord, SessionOptions::default());
    tokio::time::sleep(MINUTE).await;
    let asked = faults.calls();
    assert!((30..150).contains(&asked), "{asked} times in a minute");
    faults.reconnect();
    timeout(Duration::from_secs(2), keeper.session())
        .await
        .expect("soon after it is back")
        .expect("a session");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_end_at_once_are_opened_ever_more_seldom() {
    let (coord, faults) = store();
    let keeper = SessionKeeper::new(&coord, SessionOptions::default());
    let (mut sessions, end, mut opened) = (keeper.sessions(), Instant::now() + MINUTE, 0);
    loop {
        let next = timeout_at(end, sessions.wait_for(Option::is_some)).await;
        let Ok(session) = next.map(|next| next.expect("the keeper lives").clone()) else { break };
        opened += 1;
        faults.expire(session.expect("one").id());
        sessions.wait_for(Option::is_none).await.expect("the keeper lives");
    }
    assert!((30..150).contains(&opened), "{opened} sessions in a minute");
}
