//! Bugs that users of other watches met when links and servers failed.

use std::sync::Arc;

use coord_api::{Error, Key, Seen, Txn};
use futures::StreamExt;

use super::watch::Follower;
use crate::{CaseResult, Cx, eventually, within};

cases!("bugs_watch_faults", needs Link:
    a_key_made_anew_while_nobody_looked_is_another_key,
    watch_and_wait_of_one_directory_both_come_back,
    a_watch_that_begins_while_the_store_is_away_does_not_block,
    no_change_comes_twice_through_broken_connections,
);

/// Promise: what looks the same after an outage and is not is told.
///
/// BB-152 (<https://issues.apache.org/jira/browse/CURATOR-391>): deleted and made anew with the same version while the
/// watcher was away.
async fn a_key_made_anew_while_nobody_looked_is_another_key(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let key = Key::parse("/d/k")?;
    let old = b.coord.put(key.clone(), "old").await?;
    let mut watch = a.coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower
        .follow(&mut watch, "the old value", |state| state.get(&key).is_some_and(|v| *v == "old"))
        .await?;
    let waiter = tokio::spawn({
        let (coord, seen) = (a.coord.clone(), Seen::Value(key.clone(), old.revision));
        async move { coord.wait(&seen).await }
    });
    a.link.blackhole().await;
    b.coord.commit(Txn::new().delete(key.clone())).await?.committed().expect("it was there");
    b.coord.put(key.clone(), "new").await?;
    a.link.heal().await;
    follower
        .follow(&mut watch, "the new value", |state| state.get(&key).is_some_and(|v| *v == "new"))
        .await?;
    within("the wait", waiter).await?.expect("no panic")?;
    Ok(())
}

/// Promise: a watch and waits of one directory survive the same broken connection.
///
/// BB-133 (<https://github.com/python-zk/kazoo/pull/305>): setting both anew broke the connection again. BB-130
/// (<https://github.com/python-zk/kazoo/issues/29>): watches were not set anew after a short cut.
async fn watch_and_wait_of_one_directory_both_come_back(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (watched, waited) = (Key::parse("/d/a")?, Key::parse("/d/b")?);
    let mut watch = a.coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower.follow(&mut watch, "the snapshot", |_| true).await?;
    for round in 0..5 {
        let waiter = tokio::spawn({
            let (coord, seen) = (a.coord.clone(), Seen::Absent(waited.clone()));
            async move { coord.wait(&seen).await }
        });
        a.link.reset().await?;
        let value = format!("{round}");
        b.coord.put(watched.clone(), value.clone()).await?;
        follower
            .follow(&mut watch, "the change", |state| state.get(&watched).is_some_and(|v| *v == value))
            .await?;
        b.coord.put(waited.clone(), "").await?;
        within("the wait", waiter).await?.expect("no panic")?;
        b.coord.commit(Txn::new().delete(waited.clone())).await?.committed().expect("it was there");
        let gone = |state: &std::collections::BTreeMap<Key, bytes::Bytes>| !state.contains_key(&waited);
        follower.follow(&mut watch, "the deletion", gone).await?;
    }
    Ok(())
}

/// Promise: beginning a watch on a store that is away is an error in time or a stream that begins later, never a block.
///
/// BB-115 (<https://github.com/python-zk/kazoo/issues/207>): starting a watch blocked for ever.
async fn a_watch_that_begins_while_the_store_is_away_does_not_block(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    b.coord.put("/d/k", "1").await?;
    a.link.blackhole().await;
    let begun = within("the call", a.coord.watch("/d")).await?;
    a.link.heal().await;
    eventually("the store answers", || async { Ok(a.coord.get("/d/k").await.is_ok()) }).await?;
    let mut watch = match begun {
        Ok(watch) => watch,
        Err(_) => within("the second call", a.coord.watch("/d")).await??,
    };
    Follower::default().follow(&mut watch, "the key", |state| state.len() == 1).await
}

/// Promise: a change is told once, and later ones never before earlier ones, however often connections break (G7).
///
/// BB-146 (<https://github.com/etcd-io/etcd/pull/15274>): the same event twice. BB-145
/// (<https://github.com/etcd-io/etcd/pull/15515>): a watch that went back in time. BB-163
/// (<https://issues.apache.org/jira/browse/CURATOR-36>): events dropped in a storm of reconnects.
async fn no_change_comes_twice_through_broken_connections(cx: Arc<Cx>) -> CaseResult {
    const WRITES: usize = 100;
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let mut watch = a.coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower.apply(within("the snapshot", watch.next()).await?.expect("it goes on")?);
    let writer = tokio::spawn(async move {
        for value in 0..WRITES {
            b.coord.put("/d/k", format!("{value}")).await?;
        }
        Ok::<_, Error>(b)
    });
    for _ in 0..10 {
        a.link.reset().await?;
        eventually("the link works", || async { Ok(a.coord.get("/d/k").await.is_ok()) }).await?;
    }
    within("the writer", writer).await?.expect("no panic")?;
    let (key, last) = (Key::parse("/d/k")?, format!("{}", WRITES - 1));
    follower
        .follow(&mut watch, "the last value", |state| state.get(&key).is_some_and(|v| *v == last))
        .await?;
    let told: Vec<usize> =
        follower.puts.iter().map(|value| String::from_utf8_lossy(value).parse().expect("a number")).collect();
    assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "twice, or out of order: {told:?}");
    Ok(())
}
