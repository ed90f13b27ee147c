use bytes::Bytes;
use futures::FutureExt;

use super::*;
use crate::kit::watcher::EVENTS_MAX;
use crate::{Child, ErrorKind, Meta, Version, kit::Rank};

fn by_name(key: &Key, _: Revision) -> (Rank, Child) {
    (Rank::Other, Child::new(key.clone(), None, None))
}

fn key(path: &str) -> Key {
    Key::parse(path).unwrap()
}

fn rev(n: u64) -> Revision {
    Revision::new(n)
}

fn entry(path: &str, created: u64, modified: u64) -> Entry {
    Entry::new(key(path), Bytes::new(), Meta::new(rev(created), rev(modified), Version::new(modified), None))
}

fn hub() -> Arc<Hub> {
    Arc::new(Hub::new(Dir::parse("/q").unwrap(), by_name))
}

#[tokio::test]
async fn a_change_wakes_only_those_it_concerns() {
    let hub = hub();
    hub.reset(rev(5), vec![entry("/q/a", 1, 1), entry("/q/b", 2, 2)]);
    let (a, b) = (Seen::Exists(key("/q/a")), Seen::Exists(key("/q/b")));
    let mut wait_a = Box::pin(hub.wait(&a));
    let mut wait_b = Box::pin(hub.wait(&b));
    assert!(wait_a.as_mut().now_or_never().is_none() && wait_b.as_mut().now_or_never().is_none());

    hub.apply(rev(6), vec![Change::Delete(key("/q/a"))]);
    assert!(wait_a.as_mut().now_or_never().is_some());
    assert!(wait_b.as_mut().now_or_never().is_none());
}

#[tokio::test]
async fn a_lagging_copy_is_no_change_and_a_newer_value_is() {
    let hub = hub();
    hub.reset(rev(5), vec![entry("/q/a", 1, 3)]);
    // The caller saw revision 7 in the store; the copy still shows 3.
    let seen = Seen::Value(key("/q/a"), rev(7));
    let mut wait = Box::pin(hub.wait(&seen));
    assert!(wait.as_mut().now_or_never().is_none());
    hub.apply(rev(7), vec![Change::Put(entry("/q/a", 1, 7))]);
    assert!(wait.as_mut().now_or_never().is_none());
    hub.apply(rev(8), vec![Change::Put(entry("/q/a", 1, 8))]);
    assert!(wait.as_mut().now_or_never().is_some());
}

#[tokio::test]
async fn children_changed_before_the_copy_began_are_not_missed() {
    let hub = hub();
    hub.reset(rev(9), vec![]);
    // Listed at 4, when there were names; all gone when the copy began.
    assert!(hub.wait(&Seen::Children(hub.dir().clone(), rev(4))).now_or_never().is_some());
    let seen = Seen::Children(hub.dir().clone(), hub.listing(hub.dir()).revision);
    let mut wait = Box::pin(hub.wait(&seen));
    assert!(wait.as_mut().now_or_never().is_none());
    hub.apply(rev(10), vec![Change::Put(entry("/q/a", 10, 10))]);
    assert!(wait.as_mut().now_or_never().is_some());
}

#[tokio::test]
async fn a_watcher_sees_a_snapshot_then_changes_then_a_snapshot_after_a_gap() {
    let hub = hub();
    let mut events = Arc::clone(&hub).watch(Start::Snapshot);
    assert!(events.next().now_or_never().is_none(), "nothing is known yet");
    hub.reset(rev(5), vec![entry("/q/a", 1, 1)]);
    assert!(
        matches!(events.next().await, Some(Ok(WatchEvent::Snapshot { revision, entries })) if revision == rev(5) && entries.len() == 1)
    );
    hub.apply(rev(6), vec![Change::Put(entry("/q/b", 6, 6))]);
    hub.apply(rev(6), vec![Change::Put(entry("/q/never", 6, 6))]);
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Put(e))) if e.key == key("/q/b")));
    hub.reset(rev(9), vec![]);
    assert!(
        matches!(events.next().await, Some(Ok(WatchEvent::Snapshot { entries, .. })) if entries.is_empty())
    );
    hub.reset(rev(7), vec![entry("/q/old", 7, 7)]);
    assert!(events.next().now_or_never().is_none(), "an older snapshot went back in time");
}

#[tokio::test]
async fn a_slow_watcher_gets_a_snapshot_and_not_a_hole() {
    let hub = hub();
    hub.reset(rev(1), vec![]);
    let mut slow = Arc::clone(&hub).watch(Start::Snapshot);
    assert!(matches!(slow.next().await, Some(Ok(WatchEvent::Snapshot { .. }))));
    let many = EVENTS_MAX as u64 + 2;
    for n in 2..2 + many {
        hub.apply(rev(n), vec![Change::Put(entry("/q/a", 2, n))]);
    }
    assert!(
        matches!(slow.next().await, Some(Ok(WatchEvent::Snapshot { revision, .. })) if revision == rev(1 + many))
    );
}

#[tokio::test]
async fn a_watcher_resumes_from_the_log_or_gets_a_snapshot() {
    let hub = hub();
    hub.reset(rev(5), vec![]);
    hub.apply(rev(6), vec![Change::Put(entry("/q/a", 6, 6))]);
    hub.apply(rev(7), vec![Change::Delete(key("/q/a"))]);
    let mut resumed = Arc::clone(&hub).watch(Start::After(rev(6)));
    assert!(
        matches!(resumed.next().await, Some(Ok(WatchEvent::Delete { revision, .. })) if revision == rev(7))
    );
    let mut too_late = Arc::clone(&hub).watch(Start::After(rev(3)));
    assert!(matches!(too_late.next().await, Some(Ok(WatchEvent::Snapshot { .. }))));
}

#[tokio::test]
async fn the_end_of_the_feed_reaches_everybody_once() {
    let hub = hub();
    hub.reset(rev(1), vec![entry("/q/a", 1, 1)]);
    let mut events = Arc::clone(&hub).watch(Start::Snapshot);
    events.next().await;
    hub.fail(Error::new(ErrorKind::PermissionDenied, "no"));
    assert_eq!(hub.wait(&Seen::Exists(key("/q/a"))).await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(events.next().await.unwrap().unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn large_values_make_a_snapshot_long_before_many_small_ones_do() {
    let hub = hub();
    hub.reset(rev(1), vec![]);
    let mut slow = Arc::clone(&hub).watch(Start::Snapshot);
    assert!(matches!(slow.next().await, Some(Ok(WatchEvent::Snapshot { .. }))));
    for n in 2..42 {
        let entry = Entry { value: vec![0; 1_000_000].into(), ..entry("/q/a", 2, n) };
        hub.apply(rev(n), vec![Change::Put(entry)]);
    }
    assert!(
        matches!(slow.next().await, Some(Ok(WatchEvent::Snapshot { revision, .. })) if revision == rev(41))
    );
    let mut resumed = Arc::clone(&hub).watch(Start::After(rev(1)));
    assert!(
        matches!(resumed.next().await, Some(Ok(WatchEvent::Snapshot { .. }))),
        "40 MB of history were kept"
    );
}
