//! Keys that are registered again, while everything works.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, ErrorKind, Freshness, Lifetime, SessionOptions};
use coord_recipes::{PersistentEphemeral, RegistrationState, SessionKeeper};

use crate::{CaseResult, Cx, Failure, eventually, sweep::drop_after, within};

cases!("persistent", needs Store:
    a_key_is_registered_and_goes_with_its_registration,
    a_new_session_registers_the_latest_data,
    a_key_deleted_by_hand_comes_back,
    what_others_write_over_it_is_written_over_again,
    a_key_of_somebody_else_is_left_alone_and_taken_when_free,
    a_key_of_its_own_lost_session_is_replaced,
    closing_deletes_only_its_own_key,
    one_keeper_registers_a_key_once,
    data_that_is_refused_changes_nothing,
    a_dropped_registration_leaves_nothing_behind,
    data_that_was_given_up_on_is_written_all_the_same,
    a_closed_keeper_ends_its_registrations,
    a_keeper_opens_the_next_session_and_ends_with_its_last_handle,
    a_keeper_says_what_the_store_refuses_for_good,
);

const KEY: &str = "/services/billing/a";

pub(super) fn keeper(coord: &Coord) -> SessionKeeper {
    SessionKeeper::new(coord, SessionOptions::new(Cx::LONG))
}

pub(super) async fn value(coord: &Coord, key: &str) -> Result<Option<Vec<u8>>, Failure> {
    let latest = coord.clone().with_freshness(Freshness::Latest);
    Ok(latest.get(key).await?.map(|entry| entry.value.to_vec()))
}

/// Waits until the key has this value, owned by the keeper's session now.
pub(super) async fn has(coord: &Coord, keeper: &SessionKeeper, key: &str, wanted: &str) -> CaseResult {
    let latest = coord.clone().with_freshness(Freshness::Latest);
    eventually(&format!("{key} is {wanted:?}, ours"), || async {
        let (entry, session) = (latest.get(key).await?, keeper.current());
        Ok(entry.is_some_and(|entry| {
            entry.value == wanted && entry.meta.owner.as_ref() == session.as_ref().map(coord_api::Session::id)
        }))
    })
    .await
}

/// A registration of the key, as soon as the one before has ended.
async fn registration(keeper: &SessionKeeper) -> Result<PersistentEphemeral, Failure> {
    let mut one = None;
    eventually("the one before has ended", async || {
        one = PersistentEphemeral::new(keeper, KEY, "1").ok();
        Ok(one.is_some())
    })
    .await?;
    one.ok_or_else(|| Failure("no registration".to_owned()))
}

/// Promise: the key is there from `registered` to `close`.
async fn a_key_is_registered_and_goes_with_its_registration(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    assert!(one.is_registered() && one.state() == RegistrationState::Registered);
    let entry = coord.get(KEY).await?.expect("registered");
    assert_eq!(entry.meta.owner.as_ref(), Some(keeper.session().await?.id()));
    one.set("2").await?;
    assert_eq!(value(&coord, KEY).await?.as_deref(), Some(&b"2"[..]));
    one.close().await?;
    assert_eq!(value(&coord, KEY).await?, None);
    assert!(!one.is_registered() && one.state() == RegistrationState::Closed);
    assert_eq!(one.set("3").await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(one.registered().await.expect_err("closed").kind(), ErrorKind::Closed);
    one.close().await?; // closing twice is fine
    Ok(())
}

/// Promise: after a new session the key has the data of the last `set`.
///
/// BB-199 (CURATOR-181, 146) and BB-200 (CURATOR-241): the old or the first data was registered.
async fn a_new_session_registers_the_latest_data(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let one = PersistentEphemeral::new(&keeper, KEY, "first")?;
    within("registered", one.registered()).await??;
    one.set("second").await?;
    for round in 0..3 {
        keeper.session().await?.close().await?;
        // Data may change also while there is no session.
        let newest = format!("newest {round}");
        within("written", one.set(newest.clone())).await??;
        has(&coord, &keeper, KEY, &newest).await?;
        within("registered", one.registered()).await??;
    }
    one.close().await?;
    Ok(())
}

/// Promise: deleting the key by hand does not end the registration.
///
/// BB-209 (dubbo#2972): the provider never noticed.
async fn a_key_deleted_by_hand_comes_back(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    for _ in 0..5 {
        let old = coord.clone().with_freshness(Freshness::Latest).get(KEY).await?.expect("registered").meta;
        coord.delete(KEY).await?;
        let latest = coord.clone().with_freshness(Freshness::Latest);
        eventually("it is back", || async {
            Ok(latest.get(KEY).await?.is_some_and(|entry| entry.meta.created > old.created))
        })
        .await?;
    }
    has(&coord, &keeper, KEY, "1").await?;
    one.close().await?;
    Ok(())
}

/// Promise: our own key has our latest data, whoever wrote over it.
async fn what_others_write_over_it_is_written_over_again(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let one = PersistentEphemeral::new(&keeper, KEY, "ours")?;
    within("registered", one.registered()).await??;
    coord.put(KEY, "theirs").await?;
    has(&coord, &keeper, KEY, "ours").await?;
    one.close().await?;
    Ok(())
}

/// Promise: a key that is somebody else's is not touched, however often sessions come and go; it is taken when free.
async fn a_key_of_somebody_else_is_left_alone_and_taken_when_free(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let other = cx.session().await?;
    other.coord().create(KEY, "theirs", Lifetime::Session).await?.expect("new");
    let keeper = keeper(&coord);
    let one = PersistentEphemeral::new(&keeper, KEY, "first")?;
    within("it says so", one.changed(RegistrationState::Pending)).await?;
    assert_eq!(one.state(), RegistrationState::Taken);
    let error = within("refused", one.set("ours")).await?.expect_err("it is not ours");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    keeper.session().await?.close().await?;
    keeper.session().await?;
    other.coord().put(KEY, "theirs, too").await?;
    assert_eq!(value(&coord, KEY).await?.as_deref(), Some(&b"theirs, too"[..]));
    assert!(!one.is_registered());
    other.coord().delete(KEY).await?;
    has(&coord, &keeper, KEY, "ours").await?;
    // A key that nobody's session owns is somebody else's, too.
    one.close().await?;
    coord.put(KEY, "persistent").await?;
    let again = PersistentEphemeral::new(&keeper, KEY, "ours")?;
    within("it says so", again.changed(RegistrationState::Pending)).await?;
    again.close().await?;
    assert_eq!(value(&coord, KEY).await?.as_deref(), Some(&b"persistent"[..]));
    Ok(())
}

/// Promise: what a session of our own left behind is replaced, and does not vanish later.
///
/// BB-206 (dubbo#5125) and BB-212 (pulsar#913): the node of the old session was taken for ours, and went with it.
/// BB-211 (KAFKA-7165): a new session met the old key and failed.
async fn a_key_of_its_own_lost_session_is_replaced(cx: Arc<Cx>) -> CaseResult {
    let (coord, reader) = (cx.coord().await?, cx.coord().await?);
    let keeper = keeper(&coord);
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    let old = keeper.session().await?.id().clone();
    keeper.session().await?.close().await?;
    has(&reader, &keeper, KEY, "1").await?;
    let entry = reader.with_freshness(Freshness::Latest).get(KEY).await?.expect("registered");
    assert_ne!(entry.meta.owner, Some(old));
    one.close().await?;
    Ok(())
}

/// Promise: closing does not delete a key that became somebody else's.
async fn closing_deletes_only_its_own_key(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let other = cx.session().await?;
    other.coord().create(KEY, "theirs", Lifetime::Session).await?.expect("new");
    let one = PersistentEphemeral::new(&keeper, KEY, "ours")?;
    within("it says so", one.changed(RegistrationState::Pending)).await?;
    one.close().await?;
    assert_eq!(value(&coord, KEY).await?.as_deref(), Some(&b"theirs"[..]));
    Ok(())
}

/// Promise: two registrations that could not be told apart in the store are refused.
async fn one_keeper_registers_a_key_once(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    let error = PersistentEphemeral::new(&keeper, KEY, "2").expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    within("registered", one.registered()).await??;
    one.close().await?;
    let two = PersistentEphemeral::new(&keeper, KEY, "2")?;
    within("registered", two.registered()).await??;
    two.close().await?;
    assert_eq!(
        PersistentEphemeral::new(&keeper, "/a//b", "").expect_err("bad").kind(),
        ErrorKind::InvalidArgument
    );
    Ok(())
}

/// Promise: data that the store refuses is an error, and what was registered stays.
async fn data_that_is_refused_changes_nothing(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let huge = || vec![0_u8; 2_000_000];
    let never = PersistentEphemeral::new(&keeper, KEY, huge())?;
    let error = within("refused", never.registered()).await?.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    let error = within("refused", one.set(huge())).await?.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    within("registered", one.registered()).await??;
    keeper.session().await?.close().await?;
    has(&coord, &keeper, KEY, "1").await?;
    one.set("2").await?;
    has(&coord, &keeper, KEY, "2").await?;
    one.close().await?;
    Ok(())
}

/// Promise: a registration that is dropped deletes its key in the background, whenever that is.
async fn a_dropped_registration_leaves_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    for polls in 0..8 {
        let one = registration(&keeper).await?;
        let _ = tokio::time::timeout(Duration::from_millis(100), drop_after(one.registered(), polls)).await;
    }
    registration(&keeper).await?;
    eventually("the last one is gone", || async { Ok(value(&coord, KEY).await?.is_none()) }).await
}

/// Promise: giving up waiting for a `set` does not take the data back.
async fn data_that_was_given_up_on_is_written_all_the_same(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let one = PersistentEphemeral::new(&keeper, KEY, "0")?;
    within("registered", one.registered()).await??;
    for i in 1..5 {
        drop_after(one.set(format!("{i}")), 1).await;
        has(&coord, &keeper, KEY, &format!("{i}")).await?;
    }
    one.close().await?;
    Ok(())
}

/// Promise: closing the keeper ends what it kept, and says so.
async fn a_closed_keeper_ends_its_registrations(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    within("registered", one.registered()).await??;
    keeper.close().await?;
    assert_eq!(value(&coord, KEY).await?, None);
    assert!(!one.is_registered());
    eventually("it has ended", || async { Ok(one.state() == RegistrationState::Closed) }).await?;
    assert_eq!(one.registered().await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(keeper.session().await.expect_err("closed").kind(), ErrorKind::Closed);
    Ok(())
}

/// Promise: there is another session after each loss, users are told of it, and none is left after the last handle.
///
/// BB-197 (st2#4015): after an expired session every later call failed until a restart.
async fn a_keeper_opens_the_next_session_and_ends_with_its_last_handle(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = keeper(&coord);
    let mut sessions = keeper.sessions();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let session = within("a session", keeper.session()).await??;
        assert!(!seen.contains(session.id()));
        seen.push(session.id().clone());
        let told = within("told", sessions.wait_for(Option::is_some)).await?.expect("alive").clone();
        assert_eq!(told.as_ref().map(coord_api::Session::id), seen.last());
        session.close().await?;
        assert!(keeper.current().is_none());
    }
    let session = within("a session", keeper.session()).await??;
    session.coord().create(KEY, "", Lifetime::Session).await?.expect("free");
    drop((session, keeper));
    eventually("the last session has ended", || async { Ok(value(&coord, KEY).await?.is_none()) }).await?;
    assert!(sessions.borrow_and_update().is_none());
    Ok(())
}

/// Promise: options that no store takes are told at once, and not tried for ever.
async fn a_keeper_says_what_the_store_refuses_for_good(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(Duration::from_millis(1)));
    let error = within("refused", keeper.session()).await?.expect_err("too short");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let one = PersistentEphemeral::new(&keeper, KEY, "1")?;
    let error = within("refused", one.registered()).await?.expect_err("no session");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    Ok(())
}
