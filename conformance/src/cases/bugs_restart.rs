//! Bugs that users of other libraries met when the server stopped and came back.

use std::sync::Arc;

use coord_api::{Durability, Key};
use coord_recipes::Lock;

use super::{lock::entries, watch::Follower};
use crate::{CaseResult, Cx, eventually, within};

cases!("bugs_restart", needs Server:
    a_watch_goes_on_when_the_server_comes_back,
    a_lock_of_a_session_that_died_with_the_server_is_free,
);

/// Promise: a watch outlives its server, and shows what was written after (G7).
///
/// BB-140 (<https://github.com/etcdv3/etcd-client/issues/17>), BB-142
/// (<https://github.com/shubhamranjan/dotnet-etcd/issues/55>), BB-164 (<https://github.com/redis-rs/redis-rs/issues/362>):
/// watches stayed silent after a restart. BB-139 (<https://github.com/etcdv3/etcd-client/issues/48>): they just waited.
async fn a_watch_goes_on_when_the_server_comes_back(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let key = Key::parse("/d/k")?;
    let mut watch = a.coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower.follow(&mut watch, "the snapshot", |_| true).await?;
    for round in 0..2 {
        rig.kill().await?;
        rig.restart().await?;
        let value = format!("{round}");
        eventually("a write", || async { Ok(b.coord.put(key.clone(), value.clone()).await.is_ok()) }).await?;
        follower
            .follow(&mut watch, "the change", |state| state.get(&key).is_some_and(|v| *v == value))
            .await?;
    }
    Ok(())
}

/// Promise: when the server was away for longer than a ttl, what that session held is free, and its holder was told.
///
/// BB-092 (<https://issues.apache.org/jira/browse/CURATOR-595>): permits of a lost client were not given to others after
/// a restart. BB-191 (<https://issues.apache.org/jira/browse/ZOOKEEPER-4508>): the client did not learn of its end while
/// no server was there. BB-068 (<https://github.com/zk-ruby/zk/issues/51>): entries were left.
async fn a_lock_of_a_session_that_died_with_the_server_is_free(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let session = a.coord.session(Cx::SHORT).await?;
    let old = Lock::new(&session, "/locks/x")?.acquire().await?;
    rig.kill().await?;
    // No server: only the clock can tell.
    within("the holder is told", old.lost()).await?;
    a.link.blackhole().await;
    rig.restart().await?;
    eventually("the store answers", || async { Ok(b.coord.get("/other").await.is_ok()) }).await?;
    let next = Lock::new(&b.coord.session(Cx::LONG).await?, "/locks/x")?;
    let new = within("the lock is free", next.acquire()).await??;
    assert!(!old.is_valid() && new.is_valid());
    if b.coord.info().guarantees.durability != Durability::Process {
        assert!(new.token() > old.token());
    }
    eventually("one entry", || async { Ok(entries(&b.coord, "/locks/x").await? == 1) }).await
}
