//! Bugs that users of other watches met, while everything works.

use std::{sync::Arc, time::Duration};

use coord_api::{Error, Key, Lifetime, Retry, Seen, Txn};
use futures::StreamExt;

use super::watch::Follower;
use crate::{CaseResult, Cx, within};

cases!("bugs_watch", needs Store:
    watches_come_and_go_while_keys_change,
    a_key_that_comes_and_goes_is_seen_in_its_last_state,
    a_key_made_anew_is_another_key,
    a_value_written_before_the_watch_is_seen,
    the_end_of_many_sessions_holds_up_nobody,
);

/// Promise: a watch that is dropped while events arrive disturbs neither its session nor other watches (G14).
///
/// BB-137 (<https://github.com/kezhuw/zookeeper-client-rust/issues/22>): a dropped watcher and an event that met killed the
/// session. BB-160 (<https://issues.apache.org/jira/browse/CURATOR-729>), BB-169
/// (<https://github.com/python-zk/kazoo/pull/543>), BB-151 (<https://github.com/etcd-io/etcd/pull/11850>): watches that
/// were ended stayed.
async fn watches_come_and_go_while_keys_change(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let coord = session.coord().clone();
    coord.create("/d/eph", "", Lifetime::Session).await.err();
    let mut stays = coord.watch("/d").await?;
    let mut follower = Follower::default();
    let writer = tokio::spawn({
        let coord = cx.coord().await?;
        async move {
            for round in 0..200 {
                coord.put("/d/k", format!("{round}")).await?;
            }
            Ok::<_, Error>(())
        }
    });
    for round in 0..200 {
        let mut watch = coord.watch("/d").await?;
        if round % 2 == 0 {
            within("the snapshot", watch.next()).await?.expect("it goes on")?;
        }
    }
    within("the writer", writer).await?.expect("no panic")?;
    let key = Key::parse("/d/k")?;
    follower
        .follow(&mut stays, "the last value", |state| state.get(&key).is_some_and(|v| *v == "199"))
        .await?;
    assert!(session.is_valid());
    Ok(())
}

/// Promise: a key that is created and deleted again and again is seen in every state that lasts.
///
/// BB-172 (<https://github.com/python-zk/kazoo/issues/14>): a watch was not set again after the key had been missing.
async fn a_key_that_comes_and_goes_is_seen_in_its_last_state(cx: Arc<Cx>) -> CaseResult {
    let (coord, writer) = (cx.coord().await?, cx.coord().await?);
    let mut watch = coord.watch("/d").await?;
    let mut follower = Follower::default();
    let key = Key::parse("/d/k")?;
    for round in 0..50 {
        let value = format!("{round}");
        writer.put(key.clone(), value.clone()).await?;
        let put = format!("the value of round {round}");
        follower.follow(&mut watch, &put, |state| state.get(&key).is_some_and(|v| *v == value)).await?;
        within("the wait for a key that is there", coord.wait(&Seen::Absent(key.clone()))).await??;
        writer.commit(Txn::new().delete(key.clone())).await?.committed().expect("it was there");
        let gone = format!("the deletion of round {round}");
        follower.follow(&mut watch, &gone, |state| !state.contains_key(&key)).await?;
        within("the wait for a key that is gone", coord.wait(&Seen::Exists(key.clone()))).await??;
    }
    Ok(())
}

/// Promise: a key that was deleted and made anew with the same value is not taken for the old one.
///
/// BB-152 (<https://issues.apache.org/jira/browse/CURATOR-391>): both had version 0, and nothing seemed to have happened.
async fn a_key_made_anew_is_another_key(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let key = Key::parse("/d/k")?;
    let old = coord.put(key.clone(), "same").await?;
    other.commit(Txn::new().delete(key.clone())).await?.committed().expect("it was there");
    let new = other.put(key.clone(), "same").await?;
    assert!(new.revision > old.revision);
    let seen = Seen::Value(key.clone(), old.revision);
    within("the wait for another value", coord.wait(&seen)).await??;
    let entry = other.get(&key).await?.expect("it is there");
    assert_eq!((entry.meta.created, entry.meta.modified), (new.revision, new.revision));
    Ok(())
}

/// Promise: what was there before anybody watched is told like what comes later.
///
/// BB-269 (<https://issues.apache.org/jira/browse/CURATOR-329>): a value with version 0 was left out.
async fn a_value_written_before_the_watch_is_seen(cx: Arc<Cx>) -> CaseResult {
    let (coord, writer) = (cx.coord().await?, cx.coord().await?);
    writer.put("/d/k", "once").await?;
    let key = Key::parse("/d/k")?;
    let mut watch = coord.watch("/d").await?;
    let once =
        |state: &std::collections::BTreeMap<Key, bytes::Bytes>| state.get(&key).is_some_and(|v| *v == "once");
    Follower::default().follow(&mut watch, "the value", once).await?;
    Ok(())
}

/// Promise: many sessions may end at once, and calls of others go on.
///
/// BB-316 (<https://github.com/etcd-io/etcd/pull/9418>): the end of many leases held up the store.
async fn the_end_of_many_sessions_holds_up_nobody(cx: Arc<Cx>) -> CaseResult {
    const SESSIONS: usize = 100;
    let (owner, other) = (cx.coord().await?, cx.coord().await?);
    let mut sessions = Vec::new();
    for at in 0..SESSIONS {
        let session = owner.session(Cx::LONG).await?;
        session.coord().create(format!("/d/{at}").as_str(), "", Lifetime::Session).await?.expect("new");
        sessions.push(session);
    }
    let mut watch = other.watch("/d").await?;
    let mut follower = Follower::default();
    follower.follow(&mut watch, "all are there", |state| state.len() == SESSIONS).await?;
    let ending = tokio::spawn(async move { owner.close().await });
    for round in 0..20 {
        let put = tokio::time::timeout(Duration::from_secs(5), other.put("/other", format!("{round}"))).await;
        put.map_err(|_| crate::Failure(format!("write {round} did not end")))??;
    }
    match within("the end of the sessions", ending).await?.expect("no panic") {
        // A busy server need not confirm each end within the time that a close takes at most.
        Err(error) if error.retry() != Retry::Ambiguous => return Err(error.into()),
        _ => {}
    }
    follower.follow(&mut watch, "all are gone", |state| state.is_empty()).await?;
    Ok(())
}
