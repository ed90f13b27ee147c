//! Watches under trouble: dead and silent servers, lost history, large and forbidden data.

use std::{collections::BTreeMap, time::Duration};

use coord_api::{ErrorKind, Revision, Seen, Start, Txn, WatchEvent};
use coord_testbed::{Link, ServerOptions};
use etcd_client::TxnOp;
use futures::StreamExt;

use crate::{support::*, view::*};

#[tokio::test]
async fn compaction_under_a_cut_watch_becomes_a_snapshot() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let (store, others) = (open(&proxy.url()).await.unwrap(), open(&server.url()).await.unwrap());
    put(&others, "/d/gone", "1").await;
    let mut stream = watch(&store, "/d", Start::Snapshot).await;
    let mut view = View::default();
    view.take(next(&mut stream).await);
    let waiting = waiting(&store, Seen::Exists(key("/d/gone")));
    proxy.set(Link::Reset);
    assert!(others.commit(&nobody(), Txn::new().delete(key("/d/gone"))).await.unwrap().is_committed());
    put(&others, "/d/new", "1").await;
    let now = get(&others, "/d/new").await.unwrap().meta.modified.get();
    raw(&server).await.compact(i64::try_from(now).unwrap(), None).await.unwrap();
    proxy.set(Link::Up);
    view.until(&mut stream, |view| view.snapshots == 2).await;
    assert!(view.has("/d/new") && !view.has("/d/gone"));
    soon("the waiter sees it too", waiting).await.unwrap();
    put(&others, "/d/more", "1").await;
    view.until(&mut stream, |view| view.has("/d/more")).await;
    store.close().await.unwrap();
    others.close().await.unwrap();
}

#[tokio::test]
async fn a_killed_server_loses_no_change() {
    let mut server = server!();
    let store = open(&server.url()).await.unwrap();
    let mut stream = watch(&store, "/d", Start::Snapshot).await;
    let mut view = View::default();
    view.take(next(&mut stream).await);
    for round in 0..2 {
        put(&store, &format!("/d/before-{round}"), "1").await;
        server.kill().await.unwrap();
        server.restart().await.unwrap();
        // By somebody else, before the watch may have come back.
        let mut others = raw(&server).await;
        for value in ["1", "2", "3"] {
            others.put(format!("/d/during-{round}"), value, None).await.unwrap();
        }
        others.delete(format!("/d/before-{round}"), None).await.unwrap();
        others.put(format!("/d/last-{round}"), "", None).await.unwrap();
        view.until(&mut stream, |view| view.has(&format!("/d/last-{round}"))).await;
        assert!(!view.has(&format!("/d/before-{round}")));
    }
    assert_eq!((view.snapshots, view.events), (1, 12), "every change, and no snapshot: history was there");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_silent_server_is_left_and_found_again() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let (store, others) = (open(&proxy.url()).await.unwrap(), open(&server.url()).await.unwrap());
    let mut stream = watch(&store, "/d", Start::Snapshot).await;
    let mut view = View::default();
    view.take(next(&mut stream).await);
    let connections = proxy.connections();
    proxy.set(Link::BlackHole);
    put(&others, "/d/a", "1").await;
    // Nothing is reported to it; it asks and gives up by itself.
    until("a new connection is tried", async || proxy.connections() > connections).await;
    proxy.set(Link::Up);
    view.until(&mut stream, |view| view.has("/d/a")).await;
    assert_eq!((view.snapshots, view.events), (1, 1));
    store.close().await.unwrap();
    others.close().await.unwrap();
}

#[tokio::test]
async fn a_transaction_larger_than_a_fragment_arrives_whole() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let store = open(&proxy.url()).await.unwrap();
    let mut stream = watch(&store, "/d", Start::Snapshot).await;
    let mut view = View::default();
    view.take(next(&mut stream).await);
    proxy.set(Link::Reset);
    let mut others = raw(&server).await;
    // More together than the server puts into one message.
    let value = vec![b'x'; 11_000];
    for round in 0..20 {
        let puts: Vec<_> =
            (0..120).map(|n| TxnOp::put(format!("/d/{round}-{n}"), value.clone(), None)).collect();
        others.txn(etcd_client::Txn::new().and_then(puts)).await.unwrap();
    }
    proxy.set(Link::Up);
    view.until(&mut stream, |view| view.events == 2400).await;
    assert_eq!((view.snapshots, view.keys.len()), (1, 2400));
    let mut revisions: BTreeMap<Revision, usize> = BTreeMap::new();
    view.keys.values().for_each(|entry| *revisions.entry(entry.meta.modified).or_default() += 1);
    assert!(revisions.len() == 20 && revisions.values().all(|entries| *entries == 120));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_backlog_beyond_the_usual_message_size_is_read() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    put(&store, "/d/first", "").await;
    let after = get(&store, "/d/first").await.unwrap().meta.modified;
    let mut others = raw(&server).await;
    let value = vec![b'x'; 10_000];
    for n in 0..1200 {
        others.put(format!("/d/{n}"), value.clone(), None).await.unwrap();
    }
    let mut view = View::default();
    let mut stream = watch(&store, "/d", Start::After(after)).await;
    view.until(&mut stream, |view| view.events == 1200).await;
    assert_eq!(view.snapshots, 0);
    // And as one snapshot, in pages.
    let mut stream = watch(&store, "/d", Start::Snapshot).await;
    let WatchEvent::Snapshot { entries, .. } = next(&mut stream).await else { panic!("a snapshot") };
    assert_eq!(entries.len(), 1201);
    store.close().await.unwrap();
}

#[tokio::test]
async fn values_of_the_largest_size_are_read_in_smaller_pages() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    for n in 0..80 {
        put(&store, &format!("/d/{n}"), vec![b'x'; 1_000_000]).await;
    }
    let mut stream = watch(&store, "/d", Start::Snapshot).await;
    let WatchEvent::Snapshot { entries, .. } = next(&mut stream).await else { panic!("a snapshot") };
    assert_eq!(entries.len(), 80, "80 MB are more than the driver decodes at once");
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_may_not_be_read_ends_the_watch_with_a_reason() {
    let server = server!(ServerOptions::new().auth("root", "s3cret"));
    let options = etcd_client::ConnectOptions::new().with_user("root", "s3cret");
    let mut admin = etcd_client::Client::connect([server.addr().to_string()], Some(options)).await.unwrap();
    admin.user_add("bob", "b0b", None).await.unwrap();
    admin.role_add("part").await.unwrap();
    let permission = etcd_client::Permission::read_write("/mine/").with_prefix();
    admin.role_grant_permission("part", permission).await.unwrap();
    admin.user_grant_role("bob", "part").await.unwrap();

    let store = open(&format!("etcd://bob:b0b@{}", server.addr())).await.unwrap();
    put(&store, "/mine/a", "1").await;
    let mut mine = watch(&store, "/mine", Start::Snapshot).await;
    assert!(matches!(next(&mut mine).await, WatchEvent::Snapshot { entries, .. } if entries.len() == 1));
    let error = store.get(&nobody(), &key("/other")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    for start in [Start::Snapshot, Start::After(Revision::new(1))] {
        let mut theirs = watch(&store, "/theirs", start).await;
        let error = soon("an end", theirs.next()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
    let error = soon("an end", store.wait(&nobody(), &Seen::Absent(key("/theirs/a")))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_expired_token_stops_neither_calls_nor_sessions_nor_watches() {
    let options = ServerOptions::new().auth("root", "s3cret").extra("auth-token-ttl", "1");
    let server = server!(options);
    let proxy = server.proxied().await.unwrap();
    let store = open(&format!("etcd://root:s3cret@{}", proxy.addr())).await.unwrap();
    let session = session(&store, Duration::from_secs(3)).await;
    let mut stream = watch(&store, "/d", Start::Snapshot).await;
    next(&mut stream).await;
    let first = session.valid_until();
    // The token lives for a second, and renewals come every second.
    until("the token is old", async || session.valid_until() > first + Duration::from_secs(4)).await;
    // A new watch and a new stream of renewals, with the old token.
    proxy.cut_connections();
    until("calls go on", async || store.get(&nobody(), &key("/d/a")).await.is_ok()).await;
    put(&store, "/d/a", "1").await;
    assert!(matches!(next(&mut stream).await, WatchEvent::Put(_)));
    let first = session.valid_until();
    until("renewals go on", async || session.valid_until() > first + Duration::from_secs(2)).await;
    store.close().await.unwrap();
}
