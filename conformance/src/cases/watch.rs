//! Streaming the changes of a directory.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use coord_api::{Coord, Key, Lifetime, Revision, Start, WatchEvent, WatchStream};
use futures::StreamExt;

use crate::{CaseResult, Cx, Failure, within};

cases!("watch", needs Store:
    a_snapshot_comes_first_and_then_the_changes,
    only_the_directory_and_below_is_shown,
    every_change_arrives_where_that_is_declared,
    the_stream_converges_under_concurrent_writers,
    a_watch_resumes_where_it_left_off,
    a_watch_may_start_in_an_empty_directory,
    keys_of_a_session_are_deleted_in_the_stream,
    a_slow_consumer_is_not_given_a_hole,
    two_watches_of_one_directory_see_the_same,
    a_transaction_is_seen_whole,
);

/// What a consumer knows who does nothing but follow the stream, with the rules of the stream checked on the way.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    pub(crate) state: BTreeMap<Key, Bytes>,
    pub(crate) snapshots: usize,
    pub(crate) puts: Vec<Bytes>,
    revision: Revision,
}

impl Follower {
    /// Takes one event; checks that revisions never go back and that the first event is a snapshot.
    pub(crate) fn apply(&mut self, event: WatchEvent) {
        assert!(event.revision() >= self.revision, "went back from {} by {event:?}", self.revision);
        self.revision = event.revision();
        match event {
            WatchEvent::Snapshot { entries, .. } => {
                self.snapshots += 1;
                self.state = entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
            }
            WatchEvent::Put(entry) => {
                self.puts.push(entry.value.clone());
                self.state.insert(entry.key, entry.value);
            }
            WatchEvent::Delete { key, .. } => drop(self.state.remove(&key)),
            _ => {}
        }
    }

    /// Follows until the state is what `done` wants.
    pub(crate) async fn follow(
        &mut self,
        stream: &mut WatchStream,
        what: &str,
        done: impl Fn(&BTreeMap<Key, Bytes>) -> bool + Send + Sync,
    ) -> Result<(), Failure> {
        within(what, async {
            while self.snapshots == 0 || !done(&self.state) {
                let event = stream.next().await.ok_or_else(|| Failure("the stream ended".to_owned()))??;
                self.apply(event);
            }
            Ok(())
        })
        .await?
    }
}

fn key(path: &str) -> Key {
    Key::parse(path).expect("a literal")
}

async fn contents(coord: &Coord, dir: &str) -> Result<BTreeMap<Key, Bytes>, Failure> {
    let mut all = BTreeMap::new();
    let coord = coord.clone().with_freshness(coord_api::Freshness::Latest);
    for child in coord.list(dir).await?.children {
        if let Some(entry) = coord.get(&child.key).await? {
            all.insert(entry.key, entry.value);
        }
    }
    Ok(all)
}

/// Promise: first everything there is, then each change.
async fn a_snapshot_comes_first_and_then_the_changes(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/d/a", "1").await?;
    coord.put("/d/sub/b", "2").await?;
    let mut stream = coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower.follow(&mut stream, "the snapshot", |state| state.len() == 2).await?;
    assert_eq!((follower.snapshots, follower.puts.len()), (1, 0));
    assert_eq!(follower.state[&key("/d/sub/b")], "2");

    coord.put("/d/a", "3").await?;
    follower.follow(&mut stream, "the change", |state| state[&key("/d/a")] == "3").await?;
    coord.put("/d/c", "4").await?;
    follower.follow(&mut stream, "the creation", |state| state.contains_key(&key("/d/c"))).await?;
    coord.delete("/d/sub/b").await?;
    follower.follow(&mut stream, "the deletion", |state| !state.contains_key(&key("/d/sub/b"))).await?;
    assert_eq!(follower.snapshots, 1, "nothing was cut, so there is no second snapshot");
    Ok(())
}

/// Promise: neighbours with the same beginning are not shown.
async fn only_the_directory_and_below_is_shown(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    for outside in ["/app2/x", "/ap/p", "/other"] {
        coord.put(outside, "before").await?;
    }
    let mut stream = coord.watch("/app").await?;
    for outside in ["/app2/x", "/ap/p", "/other"] {
        coord.put(outside, "after").await?;
    }
    coord.put("/app/in", "1").await?;
    let mut follower = Follower::default();
    follower.follow(&mut stream, "the key inside", |state| state.contains_key(&key("/app/in"))).await?;
    assert_eq!(follower.state.len(), 1, "{:?}", follower.state);
    Ok(())
}

/// Promise: a store that says so shows every change; another shows at least the last.
async fn every_change_arrives_where_that_is_declared(cx: Arc<Cx>) -> CaseResult {
    const CHANGES: usize = 200;
    let coord = cx.coord().await?;
    let mut stream = coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower.follow(&mut stream, "the snapshot", |_| true).await?;
    for i in 0..CHANGES {
        coord.put("/d/n", format!("{i}")).await?;
    }
    let last = format!("{}", CHANGES - 1);
    follower
        .follow(&mut stream, "the last change", |state| state.get(&key("/d/n")).is_some_and(|v| *v == last))
        .await?;
    if coord.info().guarantees.watch_every_change {
        let wanted: Vec<Bytes> = (0..CHANGES).map(|i| format!("{i}").into()).collect();
        assert_eq!(follower.puts, wanted);
    } else {
        assert!(!follower.puts.is_empty());
    }
    Ok(())
}

/// Promise: after the last write, following the stream gives what reading gives.
async fn the_stream_converges_under_concurrent_writers(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let mut stream = coord.watch("/d").await?;
    let mut writers = Vec::new();
    for writer in 0..4 {
        let coord = cx.coord().await?;
        writers.push(tokio::spawn(async move {
            for i in 0..60 {
                let path = format!("/d/{}", (writer + i) % 7);
                if (writer + i) % 3 == 0 {
                    coord.delete(path).await?;
                } else {
                    coord.put(path, format!("{writer}-{i}")).await?;
                }
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    let mut follower = Follower::default();
    follower.follow(&mut stream, "the snapshot", |_| true).await?;
    for writer in writers {
        writer.await.expect("no panic")?;
    }
    coord.put("/d/end", "end").await?;
    let wanted = contents(&coord, "/d").await?;
    follower.follow(&mut stream, "convergence", |state| *state == wanted).await
}

/// Promise: a watch that starts after a revision shows what came later; by history where the store has it, else by a
/// snapshot.
async fn a_watch_resumes_where_it_left_off(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/d/a", "1").await?;
    let seen = coord.put("/d/b", "1").await?.revision;
    coord.put("/d/a", "2").await?;
    coord.put("/d/b", "2").await?;
    coord.put("/d/a", "3").await?;
    let mut stream = coord.watch_from("/d", Start::After(seen)).await?;
    if coord.info().guarantees.watch_resumes {
        let mut values = Vec::new();
        while values.len() < 3 {
            match within("the history", stream.next()).await? {
                Some(Ok(WatchEvent::Put(entry))) => values.push(entry.value),
                Some(Ok(WatchEvent::Progress(_))) => {}
                other => return Err(Failure(format!("the history is there, yet: {other:?}"))),
            }
        }
        assert_eq!(values, ["2", "2", "3"]);
        coord.put("/d/c", "1").await?;
        let next = within("the next change", async {
            loop {
                match stream.next().await {
                    Some(Ok(WatchEvent::Progress(_))) => {}
                    next => return next,
                }
            }
        })
        .await?;
        assert!(matches!(&next, Some(Ok(WatchEvent::Put(entry))) if entry.key == key("/d/c")), "{next:?}");
    } else {
        let mut follower = Follower::default();
        follower
            .follow(&mut stream, "the snapshot", |state| state.get(&key("/d/a")).is_some_and(|v| v == "3"))
            .await?;
        assert_eq!(follower.snapshots, 1);
    }
    Ok(())
}

/// Promise: a directory that is not there yet can be watched.
async fn a_watch_may_start_in_an_empty_directory(cx: Arc<Cx>) -> CaseResult {
    let (coord, writer) = (cx.coord().await?, cx.coord().await?);
    let mut stream = coord.watch("/not/yet").await?;
    let mut follower = Follower::default();
    follower.follow(&mut stream, "the empty snapshot", BTreeMap::is_empty).await?;
    writer.put("/not/yet/deep/key", "1").await?;
    follower.follow(&mut stream, "the first key", |state| state.contains_key(&key("/not/yet/deep/key"))).await
}

/// Promise: the end of a session is seen as the deletion of its keys.
async fn keys_of_a_session_are_deleted_in_the_stream(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let coord = cx.coord().await?;
    let mut stream = coord.watch("/members").await?;
    for name in ["a", "b", "c"] {
        session.coord().create(format!("/members/{name}"), name, Lifetime::Session).await?.expect("new");
    }
    coord.put("/members/stays", "").await?;
    let mut follower = Follower::default();
    follower.follow(&mut stream, "all members", |state| state.len() == 4).await?;
    session.close().await?;
    follower.follow(&mut stream, "the members gone", |state| state.len() == 1).await
}

/// Promise: who does not read for a while gets every event or a snapshot, and in both cases the truth.
async fn a_slow_consumer_is_not_given_a_hole(cx: Arc<Cx>) -> CaseResult {
    const CHANGES: usize = 6_000;
    let coord = cx.coord().await?;
    let mut stream = coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower.follow(&mut stream, "the snapshot", |_| true).await?;
    let writes = (0..CHANGES).map(|i| {
        let coord = coord.clone();
        async move { coord.put(format!("/d/{}", i % 10), format!("{i}")).await }
    });
    let results: Vec<_> = futures::stream::iter(writes).buffer_unordered(64).collect().await;
    results.into_iter().collect::<coord_api::Result<Vec<_>>>()?;
    coord.put("/d/end", "end").await?;
    let wanted = contents(&coord, "/d").await?;
    follower.follow(&mut stream, "convergence", |state| *state == wanted).await
}

/// Promise: watchers do not take events from each other, and one that ends disturbs none.
async fn two_watches_of_one_directory_see_the_same(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (mut one, mut two, three) =
        (coord.watch("/d").await?, coord.watch("/d").await?, coord.watch("/d").await?);
    coord.put("/d/a", "1").await?;
    drop(three);
    coord.put("/d/b", "2").await?;
    for stream in [&mut one, &mut two] {
        Follower::default().follow(stream, "both keys", |state| state.len() == 2).await?;
    }
    Ok(())
}

/// Promise: a transaction's changes arrive together: no other change stands between them.
async fn a_transaction_is_seen_whole(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let mut stream = coord.watch("/d").await?;
    let mut follower = Follower::default();
    follower.follow(&mut stream, "the snapshot", |_| true).await?;
    for i in 0..20 {
        let value = format!("{i}");
        let txn = coord_api::Txn::new().put(key("/d/host"), value.clone()).put(key("/d/port"), value.clone());
        coord.commit(txn).await?.committed().expect("nothing stands against it");
    }
    let both = |state: &BTreeMap<Key, Bytes>| {
        state.get(&key("/d/host")).is_some_and(|v| v == "19")
            && state.get(&key("/d/port")).is_some_and(|v| v == "19")
    };
    follower.follow(&mut stream, "both last values", both).await?;
    if coord.info().guarantees.watch_every_change {
        assert_eq!(follower.puts.len(), 40);
        assert!(
            follower.puts.chunks(2).all(|pair| pair[0] == pair[1]),
            "a pair was torn: {:?}",
            follower.puts
        );
    }
    Ok(())
}
