//! Entries that turn up when nobody wants them any more.
//!
//! A request to join whose reply was lost may still be on its way: in the buffers of a dead connection, or in a server
//! that was slow to take it. If it arrives after its entry was looked for, or after it was deleted, it makes an entry
//! that nobody knows, and the line stands still behind it for as long as the session lives. No store can be asked to
//! refuse such a request, so whoever made an ambiguous join looks again whenever the line changes.

use std::time::Duration;

use coord_api::{
    Coord, Dir, Freshness, Nonce, Result, Retry, Revision, Seen, Session, SessionState, Txn,
    kit::{Backoff, Runtime},
};
use tokio::time::Instant;

use crate::{
    insist::{LATEST, insist},
    planted::{Bug, planted},
};

/// Longest pause between a change of the line and the look at it: for so long may a late entry hold up the others.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Deletes the entries that carry our nonce: those that are there, before this returns, and in the background those
/// that arrive later, until the session is over.
pub(crate) async fn sweep(session: &Session, dir: &Dir, nonce: Nonce) {
    if planted(Bug::NoSweep) {
        return;
    }
    let coord = session.coord().clone().with_freshness(Freshness::Latest);
    let runtime = coord.runtime();
    let seen = match insist(session, || delete_all(&coord, dir, nonce)).await {
        Ok(revision) => revision,
        // With the session its entries go, too.
        Err(_) if !session.is_valid() => return,
        Err(error) => {
            tracing::warn!(%dir, %error, "cannot look for entries of a failed join; they go with the session");
            return;
        }
    };
    // Not the session: it must end when its owner drops it, and this with it.
    let mut states = session.states();
    let dir = dir.clone();
    runtime.clone().spawn(async move {
        tokio::select! {
            biased;
            // An error means that the session is gone altogether.
            _ = states.wait_for(|state| *state == SessionState::Lost) => {}
            () = look_again(&coord, &runtime, &dir, nonce, seen) => {}
        }
    });
}

async fn look_again(coord: &Coord, runtime: &Runtime, dir: &Dir, nonce: Nonce, mut seen: Revision) {
    let latest = Instant::now() + LATEST;
    // A busy line changes all the time, and a late entry is rare.
    let mut pauses = Backoff::new(PAUSE_MAX);
    loop {
        let changed = Seen::Children(dir.clone(), seen);
        let woken = match tokio::time::timeout_at(latest, coord.wait(&changed)).await {
            Ok(woken) => woken,
            Err(_) => return,
        };
        pauses.sleep(runtime).await;
        let looked = match woken {
            Ok(()) => delete_all(coord, dir, nonce).await,
            Err(error) => Err(error),
        };
        match looked {
            Ok(revision) => seen = revision,
            Err(error) if error.retry() == Retry::Never => return,
            Err(_) => {}
        }
    }
}

/// Deletes what carries our nonce now, and tells the revision of the line then. The names are ours alone, so that
/// deleting one twice hits nobody else's.
async fn delete_all(coord: &Coord, dir: &Dir, nonce: Nonce) -> Result<Revision> {
    let line = coord.list(dir).await?;
    for child in line.children {
        if child.nonce == Some(nonce) {
            // Rejected means that it is gone already.
            let _ = coord.commit(Txn::new().delete(child.key)).await?;
        }
    }
    Ok(line.revision)
}
