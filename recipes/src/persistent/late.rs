//! Creates that arrive after their registration was closed.

use coord_api::{
    Check, Coord, Freshness, Key, Result, Retry, Seen, Session, SessionId, SessionState, Txn, kit::Backoff,
};

use crate::{
    SessionKeeper,
    insist::{LATEST, RETRY_CAP},
};

/// Deletes the key if it turns up as our session's, in the background, until the session is over.
///
/// A create whose reply was lost may be on its way when the registration is closed. Unless it is found, it stands as
/// long as the session lives, and nobody knows it.
pub(super) fn delete_late(session: &Session, keeper: &SessionKeeper, key: &Key) {
    // Not the session, and no strong keeper: both must end when their owners drop them, and this with them.
    let (mut states, coord, owner) = (session.states(), session.coord().clone(), session.id().clone());
    let (keeper, key) = (keeper.downgrade(), key.clone());
    coord.runtime().spawn(async move {
        // A new registration of the key looks after it.
        let claimed = || keeper.upgrade().is_none_or(|keeper| keeper.is_claimed(&key));
        tokio::select! {
            biased;
            // An error means that the session is gone altogether.
            _ = states.wait_for(|state| *state == SessionState::Lost) => {}
            () = tokio::time::sleep(LATEST) => {}
            () = watch(&coord, &key, &owner, claimed) => {}
        }
    });
}

async fn watch(coord: &Coord, key: &Key, owner: &SessionId, claimed: impl Fn() -> bool + Sync) {
    let mut backoff = Backoff::new(RETRY_CAP);
    while !claimed() {
        match turned_up(coord, key, owner, &claimed).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) if error.retry() == Retry::Never => return,
            Err(_) => backoff.sleep(&coord.runtime()).await,
        }
    }
}

/// Waits for the key; `true` if there is nothing more to wait for.
async fn turned_up(
    coord: &Coord,
    key: &Key,
    owner: &SessionId,
    claimed: impl Fn() -> bool + Sync,
) -> Result<bool> {
    coord.wait(&Seen::Absent(key.clone())).await?;
    match coord.clone().with_freshness(Freshness::Latest).get(key).await? {
        None => Ok(false),
        Some(entry) if entry.meta.owner.as_ref() == Some(owner) && !claimed() => {
            let own = Check::Created(key.clone(), entry.meta.created);
            Ok(coord.commit(Txn::new().check(own).delete(key)).await?.is_committed())
        }
        // Somebody else's: it goes in its own time, and ours would be refused until then.
        Some(entry) => {
            coord.wait(&Seen::Value(key.clone(), entry.meta.modified)).await?;
            Ok(false)
        }
    }
}
