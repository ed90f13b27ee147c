//! Local copies, while everything works.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use coord_api::{Entry, ErrorKind, Key, Revision, Txn};
use coord_recipes::{Cache, CacheEvent, CacheState, Change, Listener, Snapshot};

use crate::{CaseResult, Cx, Failure, eventually, look_counter::LookCounter, within};

cases!("cache", needs Store:
    each_scope_shows_its_own,
    a_listener_is_told_what_is_there_and_then_every_change,
    a_deleted_key_is_told_with_its_last_value,
    a_key_made_anew_is_told_as_new,
    every_final_state_is_seen,
    all_caches_of_a_directory_share_one_watch,
    a_slow_listener_is_told_the_whole_difference,
    reads_never_go_back,
    waiting_for_contents_and_for_a_revision,
    one_listener_that_dies_harms_no_other,
    a_closed_handle_ends_the_cache,
);

fn key(path: &str) -> Key {
    Key::parse(path).expect("a literal")
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.iter().map(|entry| entry.key.as_str()).collect()
}

/// What a listener knows who does nothing but follow, with the rules of events checked on the way.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) state: BTreeMap<Key, Entry>,
    initialized: bool,
    pub(crate) resyncs: usize,
}

impl Told {
    pub(crate) fn apply(&mut self, event: CacheEvent) {
        match event {
            CacheEvent::Initialized { entries } => {
                assert!(!std::mem::replace(&mut self.initialized, true), "initialized twice");
                self.state = entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
            }
            CacheEvent::Changed(change) => self.change(change),
            CacheEvent::Resynced { changes } => {
                self.resyncs += 1;
                changes.into_iter().for_each(|change| self.change(change));
            }
        }
    }

    fn change(&mut self, change: Change) {
        assert!(self.initialized, "told {change:?} before what was there");
        assert_eq!(self.state.get(change.key()), change.before(), "the old state is what was told before");
        match change {
            Change::Put { new, .. } => drop(self.state.insert(new.key.clone(), new)),
            Change::Delete { old } => drop(self.state.remove(&old.key)),
        }
    }

    /// Follows until what was told is what `done` wants.
    pub(crate) async fn follow(
        &mut self,
        listener: &mut Listener,
        what: &str,
        done: impl Fn(&BTreeMap<Key, Entry>) -> bool + Send + Sync,
    ) -> Result<(), Failure> {
        within(what, async {
            while !self.initialized || !done(&self.state) {
                let event = listener.next().await.ok_or_else(|| Failure("the listener ended".to_owned()))?;
                self.apply(event);
            }
            Ok(())
        })
        .await?
    }
}

/// The next event, which must be a change of one key.
async fn changed(listener: &mut Listener) -> Result<Change, Failure> {
    match within("the next event", listener.next()).await? {
        Some(CacheEvent::Changed(change)) => Ok(change),
        event => Err(Failure(format!("not a change: {event:?}"))),
    }
}

/// A cache, and a listener that was told what is there.
async fn listen(cx: &Cx, dir: &str) -> Result<(coord_api::Coord, Cache, Listener), Failure> {
    let coord = cx.coord().await?;
    let cache = Cache::tree(&coord, dir)?;
    let mut listener = cache.listen();
    let first = within("the first event", listener.next()).await?;
    assert!(matches!(first, Some(CacheEvent::Initialized { .. })), "{first:?}");
    Ok((coord, cache, listener))
}

/// Promise: a cache of a key shows the key, one of children the keys of the directory, one of a tree everything below.
async fn each_scope_shows_its_own(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    for path in ["/c/a", "/c/b", "/c/sub/x", "/c2/y"] {
        coord.put(path, path).await?;
    }
    let node = Cache::node(&coord, "/c/a")?;
    let children = Cache::children(&coord, "/c")?;
    let tree = Cache::tree(&coord, "/c")?;
    for cache in [&node, &children, &tree] {
        within("the contents", cache.ready()).await??;
        assert_eq!(cache.state(), CacheState::Current);
    }
    assert_eq!(names(&node.snapshot()), ["/c/a"]);
    assert_eq!(names(&children.snapshot()), ["/c/a", "/c/b"]);
    assert_eq!(names(&tree.snapshot()), ["/c/a", "/c/b", "/c/sub/x"]);
    assert!(node.get(&key("/c/b")).is_none() && children.get(&key("/c/sub/x")).is_none());
    assert_eq!(tree.get(&key("/c/sub/x")).expect("below").value, "/c/sub/x");
    let absent = Cache::node(&coord, "/c/none")?;
    within("nothing is contents too", absent.ready()).await??;
    assert!(absent.get(&key("/c/none")).is_none());
    assert_eq!(Cache::tree(&coord, "//").expect_err("no directory").kind(), ErrorKind::InvalidArgument);
    Ok(())
}

/// Promise: a listener is told what is there, then every change with what was before (BB-268, BB-269: also the first
/// value, whatever its version).
async fn a_listener_is_told_what_is_there_and_then_every_change(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/c/a", "1").await?;
    let cache = Cache::children(&coord, "/c")?;
    let mut listener = cache.listen();
    match within("the first event", listener.next()).await? {
        Some(CacheEvent::Initialized { entries }) => {
            assert_eq!(entries.iter().map(|entry| &entry.value[..]).collect::<Vec<_>>(), [b"1"]);
        }
        event => return Err(Failure(format!("{event:?}"))),
    }
    coord.put("/c/sub/other", "").await?;
    coord.put("/c/a", "2").await?;
    let change = changed(&mut listener).await?;
    assert_eq!(change.before().expect("it was there").value, "1");
    assert_eq!(change.after().expect("it is there").value, "2");
    coord.put("/c/b", "3").await?;
    assert!(matches!(changed(&mut listener).await?, Change::Put { old: None, new } if new.value == "3"));
    Ok(())
}

/// BB-157 (CURATOR-609): the event of a deletion has the last value; nobody must make something of an empty one.
async fn a_deleted_key_is_told_with_its_last_value(cx: Arc<Cx>) -> CaseResult {
    let (coord, _cache, mut listener) = listen(&cx, "/c").await?;
    coord.put("/c/a", "last").await?;
    changed(&mut listener).await?;
    coord.delete("/c/a").await?;
    assert!(matches!(changed(&mut listener).await?, Change::Delete { old } if old.value == "last"));
    Ok(())
}

/// BB-154 (CURATOR-183): a key that was deleted and made again is told as new, not as changed.
async fn a_key_made_anew_is_told_as_new(cx: Arc<Cx>) -> CaseResult {
    let (coord, _cache, mut listener) = listen(&cx, "/c").await?;
    for _ in 0..2 {
        coord.put("/c/a", "same").await?;
        assert!(matches!(changed(&mut listener).await?, Change::Put { old: None, .. }));
        coord.delete("/c/a").await?;
        assert!(matches!(changed(&mut listener).await?, Change::Delete { .. }));
    }
    Ok(())
}

/// BB-172 (kazoo#14, kazoo#58): after any number of creations and deletions the last state is seen.
async fn every_final_state_is_seen(cx: Arc<Cx>) -> CaseResult {
    let (coord, cache, mut listener) = listen(&cx, "/c").await?;
    let (mut told, node) = (Told { initialized: true, ..Told::default() }, key("/c/a"));
    for i in 0..50 {
        let value = i.to_string();
        let written = coord.put(&node, value.clone()).await?;
        within("the copy", cache.at_least(written.revision)).await??;
        assert_eq!(cache.get(&node).expect("written").value, value);
        if i % 2 == 0 {
            coord.delete(&node).await?;
            eventually("the deletion", || async { Ok(cache.get(&node).is_none()) }).await?;
        }
    }
    told.follow(&mut listener, "the last value", |state| {
        state.get(&node).is_some_and(|entry| entry.value == "49")
    })
    .await
}

/// BB-314, and the third question of the first article that this project began with: however many consumers a process
/// has, the server feeds one watch; it ends with the last of them.
async fn all_caches_of_a_directory_share_one_watch(cx: Arc<Cx>) -> CaseResult {
    let watches = LookCounter::default();
    let coord = cx.coord().await?.layer(&watches);
    let session = coord.session(Cx::LONG).await?;
    coord.put("/c/a", "1").await?;
    let mut caches = Vec::new();
    for _ in 0..50 {
        caches.push(Cache::tree(&coord, "/c")?);
        caches.push(Cache::children(session.coord(), "/c")?);
        caches.push(Cache::node(&coord.clone(), "/c/a")?);
    }
    caches.extend(caches.clone());
    for cache in &caches {
        within("the contents", cache.ready()).await??;
    }
    let listeners: Vec<Listener> = caches.iter().map(Cache::listen).collect();
    assert_eq!(watches.watches(), 1, "one for the directory");
    let other = Cache::tree(&coord, "/d")?;
    within("the other directory", other.ready()).await??;
    assert_eq!(watches.watches(), 2, "another directory is another watch");

    drop(caches);
    let again = Cache::tree(&coord, "/c")?;
    within("the contents", again.ready()).await??;
    assert_eq!(watches.watches(), 2, "the listeners keep it");
    drop((listeners, again));
    let new = Cache::tree(&coord, "/c")?;
    within("the contents", new.ready()).await??;
    assert_eq!(watches.watches(), 3, "it ended with the last of them");
    let stranger = cx.coord().await?;
    within("another handle", Cache::tree(&stranger, "/c")?.ready()).await??;
    assert_eq!(watches.watches(), 3, "another handle has a watch of its own");
    Ok(())
}

/// BB-163 (CURATOR-36), BB-155 (CURATOR-296): a listener that does not read is told the difference in one event when it
/// does, and that it is in step again.
async fn a_slow_listener_is_told_the_whole_difference(cx: Arc<Cx>) -> CaseResult {
    let (coord, cache, mut slow) = listen(&cx, "/c").await?;
    let mut last = Revision::ZERO;
    for round in 0..30 {
        let mut txn = Txn::new();
        for i in 0..50 {
            txn = txn.put(format!("/c/{i}"), round.to_string());
        }
        let commit = coord.commit(txn).await?.committed().expect("unconditional");
        last = commit.revision().expect("it wrote");
    }
    within("the copy", cache.at_least(last)).await??;
    let mut told = Told { initialized: true, ..Told::default() };
    told.follow(&mut slow, "the last state", |state| {
        state.len() == 50 && state.values().all(|entry| entry.value == "29")
    })
    .await?;
    if coord.info().guarantees.watch_every_change {
        assert!(told.resyncs >= 1, "1,500 changes were not kept one by one");
    }
    coord.put("/c/0", "after").await?;
    assert!(matches!(changed(&mut slow).await?, Change::Put { new, .. } if new.value == "after"));
    Ok(())
}

/// Promise: whoever reads twice never sees an older state the second time, and never half of a transaction's past.
async fn reads_never_go_back(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let cache = Cache::tree(&coord, "/c")?;
    let mut writers = Vec::new();
    for writer in 0..3 {
        let coord = cx.coord().await?;
        writers.push(tokio::spawn(async move {
            for i in 0..40_u32 {
                coord.put(format!("/c/{writer}"), format!("{i:05}")).await?;
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    let (mut revision, mut seen) = (Revision::ZERO, BTreeMap::<Key, Bytes>::new());
    within("the writers", async {
        while seen.len() < 3 || seen.values().any(|value| value != "00039") {
            let snapshot = cache.wait_until(|snapshot| snapshot.revision() > revision).await?;
            assert!(snapshot.revision() >= revision);
            revision = snapshot.revision();
            for entry in snapshot.iter() {
                let before = seen.insert(entry.key.clone(), entry.value.clone());
                assert!(before.as_ref() <= Some(&entry.value), "{before:?} then {:?}", entry.value);
            }
            assert!(cache.revision() >= revision);
        }
        Ok::<_, coord_api::Error>(())
    })
    .await??;
    for writer in writers {
        writer.await.expect("no panic")?;
    }
    Ok(())
}

/// Promise: a wait ends as soon as the contents are what is asked for, and not sooner.
async fn waiting_for_contents_and_for_a_revision(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let cache = Cache::children(&coord, "/c")?;
    let waiter = tokio::spawn({
        let cache = cache.clone();
        async move { cache.wait_until(|snapshot| snapshot.iter().count() == 3).await }
    });
    for name in ["a", "b"] {
        let written = coord.put(format!("/c/{name}"), "").await?;
        within("the copy", cache.at_least(written.revision)).await??;
        assert!(cache.get(&key(&format!("/c/{name}"))).is_some());
    }
    assert!(!waiter.is_finished());
    coord.put("/c/c", "").await?;
    let snapshot = within("the third", waiter).await?.expect("no panic")?;
    assert_eq!(names(&snapshot), ["/c/a", "/c/b", "/c/c"]);
    coord.delete("/c/c").await?;
    eventually("the deletion", || async { Ok(cache.snapshot().iter().count() == 2) }).await?;
    assert_eq!(snapshot.iter().count(), 3, "what was given out stays as it was");
    Ok(())
}

/// BB-170 (kazoo db0c2d4): a listener whose task panics takes nobody with it.
async fn one_listener_that_dies_harms_no_other(cx: Arc<Cx>) -> CaseResult {
    let (coord, cache, mut healthy) = listen(&cx, "/c").await?;
    let mut doomed = cache.listen();
    let died = tokio::spawn(async move {
        while !matches!(doomed.next().await, Some(CacheEvent::Changed(_))) {}
        panic!("as its author made it");
    });
    coord.put("/c/a", "1").await?;
    assert!(within("the other dies", died).await?.is_err());
    assert!(matches!(changed(&mut healthy).await?, Change::Put { .. }));
    coord.put("/c/a", "2").await?;
    assert!(matches!(changed(&mut healthy).await?, Change::Put { new, .. } if new.value == "2"));
    Ok(())
}

/// BB-160 (CURATOR-729): closing the handle ends listeners and waits, also those that begin after.
async fn a_closed_handle_ends_the_cache(cx: Arc<Cx>) -> CaseResult {
    let (coord, cache, mut listener) = listen(&cx, "/c").await?;
    let waiter = tokio::spawn({
        let cache = cache.clone();
        async move { cache.wait_until(|_| false).await }
    });
    coord.close().await?;
    assert_eq!(within("the listener ends", listener.next()).await?, None);
    let error = within("the wait ends", waiter).await?.expect("no panic").expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert_eq!(cache.state(), CacheState::Closed);
    let mut late = cache.listen();
    within("a late listener", async { while late.next().await.is_some() {} }).await?;
    Ok(())
}
