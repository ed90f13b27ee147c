//! Entries that turn up when nobody wants them any more.
//!
//! A request to join whose reply was lost may still be on its way: in the buffers of a dead connection, or in a server
//! that was slow to take it. If it arrives after its entry was looked for, or after it was deleted, it makes an entry
//! that nobody knows, and the line stands still behind it for as long as the session lives. No store can be asked to
//! refuse such a request, so a join that was ever ambiguous is looked for again, ever more seldom.

use std::time::Duration;

use coord_api::{
    Coord, Dir, Freshness, Nonce, Result, Retry, Session, SessionState, Txn,
    kit::{Backoff, Runtime},
};
use tokio::time::Instant;

use super::place::RETRY_CAP;

/// For how long a request may be on its way: systems give up what a dead connection did not deliver after a quarter
/// of an hour.
const LATEST: Duration = Duration::from_secs(15 * 60);
/// Longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Deletes the entries that carry our nonce: those that are there, before this returns, and in the background those
/// that arrive later, until the session is over.
pub(crate) async fn sweep(session: &Session, dir: &Dir, nonce: Nonce) {
    let coord = session.coord().clone().with_freshness(Freshness::Latest);
    let runtime = coord.runtime();
    let mut backoff = Backoff::new(RETRY_CAP);
    while session.is_valid() {
        match delete_all(&coord, dir, nonce).await {
            Ok(()) => break,
            Err(error) if error.retry() == Retry::Never => {
                tracing::warn!(%dir, %error, "cannot look for entries of a failed join; they go with the session");
                return;
            }
            Err(_) => backoff.sleep(&runtime).await,
        }
    }
    // Not the session: it must end when its owner drops it, and this with it.
    let mut states = session.states();
    let dir = dir.clone();
    runtime.clone().spawn(async move {
        tokio::select! {
            biased;
            // An error means that the session is gone altogether.
            _ = states.wait_for(|state| *state == SessionState::Lost) => {}
            () = look_again(&coord, &runtime, &dir, nonce) => {}
        }
    });
}

async fn look_again(coord: &Coord, runtime: &Runtime, dir: &Dir, nonce: Nonce) {
    let began = Instant::now();
    let mut pauses = Backoff::new(PAUSE_MAX);
    while began.elapsed() < LATEST {
        pauses.sleep(runtime).await;
        if delete_all(coord, dir, nonce).await.is_err_and(|error| error.retry() == Retry::Never) {
            return;
        }
    }
}

/// Deletes what carries our nonce now. The names are ours alone, so that deleting one twice hits nobody else's.
async fn delete_all(coord: &Coord, dir: &Dir, nonce: Nonce) -> Result<()> {
    for child in coord.list(dir).await?.children {
        if child.nonce == Some(nonce) {
            // Rejected means that it is gone already.
            let _ = coord.commit(Txn::new().delete(child.key)).await?;
        }
    }
    Ok(())
}
