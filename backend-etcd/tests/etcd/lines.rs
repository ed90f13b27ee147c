//! Lines: joining, order, and others who stand in them.

use std::{process::Stdio, time::Duration};

use coord_api::{ErrorKind, Lifetime, Listing, Seen, Start, Txn};
use etcd_client::PutOptions;
use tokio::{io::AsyncReadExt, process::Command};

use crate::support::*;

const TTL: Duration = Duration::from_secs(10);

fn names(listing: &Listing) -> Vec<&str> {
    listing.children.iter().map(|child| child.key.as_str()).collect()
}

#[tokio::test]
async fn the_line_is_in_the_order_of_creation_and_comes_with_the_reply() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let sessions = [session(&store, TTL).await, session(&store, TTL).await];
    let mut joined: Vec<coord_api::Ordered> = Vec::new();
    for n in 0..6 {
        // The second half with a mirror of the directory.
        let _watch = match n {
            3.. => Some(store.watch(&nobody(), &dir("/l"), Start::Snapshot).await.unwrap()),
            _ => None,
        };
        let place = join(&store, &sessions[n % 2], "/l").await;
        assert!(joined.last().is_none_or(|last| last.created < place.created));
        joined.push(place);
        let line = joined.last().unwrap().line.as_ref().unwrap();
        let all: Vec<_> = joined.iter().map(|place| place.key.as_str()).collect();
        assert_eq!(names(line), all);
        assert!(line.children.iter().all(|child| child.nonce.is_some()));
        assert!(
            line.children.iter().all(|child| child.tag.as_ref().is_some_and(|tag| tag.as_str() == "lock-"))
        );
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_retry_with_the_same_nonce_finds_its_entry() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let store = open(&proxy.url()).await.unwrap();
    let session = session(&store, TTL).await;
    for lifetime in [Lifetime::Session, Lifetime::Persistent] {
        let request = request(&store, "/l", lifetime);
        let lost = proxy.lose_reply(1);
        let error = store.create_ordered(&owned_by(&session), request.clone()).await.unwrap_err();
        assert!(lost.wait().await);
        assert_eq!(error.retry(), coord_api::Retry::Ambiguous, "{error}");
        put(&store, "/elsewhere", "").await;
        let found = store.create_ordered(&owned_by(&session), request.clone()).await.unwrap();
        let again = store.create_ordered(&owned_by(&session), request.clone()).await.unwrap();
        assert_eq!((&found.key, found.created), (&again.key, again.created));
        let entry = get(&store, found.key.as_str()).await.unwrap();
        assert_eq!(entry.meta.created, found.created);
        assert_eq!(entry.meta.owner.is_some(), lifetime == Lifetime::Session);
        let nonces: Vec<_> = again.line.unwrap().children.into_iter().map(|child| child.nonce).collect();
        assert_eq!(nonces.iter().filter(|nonce| **nonce == Some(request.nonce)).count(), 1);
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_persistent_place_outlives_its_session_and_is_found_by_the_next() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let first = session(&store, TTL).await;
    let request = request(&store, "/l", Lifetime::Persistent);
    let place = store.create_ordered(&owned_by(&first), request.clone()).await.unwrap();
    first.close().await.unwrap();
    let second = session(&store, TTL).await;
    let again = store.create_ordered(&owned_by(&second), request).await.unwrap();
    assert_eq!((again.key, again.created), (place.key, place.created));
    store.close().await.unwrap();
}

#[tokio::test]
async fn others_in_the_line_are_respected_however_they_are_named() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, TTL).await;
    let mut others = raw(&server).await;
    let lease = others.lease_grant(30, None).await.unwrap().id();
    let theirs = format!("/l/{lease:x}");
    others.put(theirs.as_str(), "", Some(PutOptions::new().with_lease(lease))).await.unwrap();
    others.put("/l/deep/er/x", "", None).await.unwrap();
    others.put("/l2/x", "", None).await.unwrap();
    let ours = join(&store, &session, "/l").await;
    others.put("/l/later", "", None).await.unwrap();
    others.put("/l/deep/later", "", None).await.unwrap();
    let expected = [theirs.as_str(), "/l/deep/er/x", ours.key.as_str(), "/l/later", "/l/deep/later"];
    assert_eq!(names(ours.line.as_ref().unwrap()), expected[..3]);
    assert_eq!(names(&store.list(&nobody(), &dir("/l")).await.unwrap()), expected);

    // The same with a mirror, which does not know the order of what lies deeper.
    let mut watch = store.watch(&nobody(), &dir("/l"), Start::Snapshot).await.unwrap();
    next(&mut watch).await;
    assert_eq!(names(&store.list(&nobody(), &dir("/l")).await.unwrap()), expected);
    let last = join(&store, &session, "/l").await;
    assert_eq!(names(last.line.as_ref().unwrap())[..5], expected);

    // And whoever stands there can be waited for.
    for name in [theirs.as_str(), "/l/deep/er/x"] {
        let waiting = waiting(&store, Seen::Exists(key(name)));
        assert!(!waiting.is_finished());
        others.delete(name, None).await.unwrap();
        soon("the waiter returns", waiting).await.unwrap();
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn no_place_is_given_behind_what_cannot_be_seen() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, TTL).await;
    let mut others = raw(&server).await;
    for mirrored in [false, true] {
        let mut watch = None;
        if mirrored {
            watch = Some(store.watch(&nobody(), &dir("/l"), Start::Snapshot).await.unwrap());
            next(watch.as_mut().unwrap()).await;
        }
        let before = join(&store, &session, "/l").await;
        others.put(&b"/l/\xff"[..], "", None).await.unwrap();
        let request = request(&store, "/l", Lifetime::Session);
        let error = store.create_ordered(&owned_by(&session), request.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        // Nothing is left behind, and those who stood before it stand.
        let listed = store.list(&nobody(), &dir("/l")).await.unwrap();
        assert_eq!(listed.children.iter().filter(|child| child.nonce == Some(request.nonce)).count(), 0);
        assert!(listed.position(&before.key).is_some());
        others.delete(&b"/l/\xff"[..], None).await.unwrap();
        join(&store, &session, "/l").await;
        drop(watch);
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_contended_place_costs_one_call_and_waiting_none() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    let store = open(&proxy.url()).await.unwrap();
    // Long, so that no renewal is counted.
    let session = session(&store, Duration::from_secs(600)).await;
    let first = join(&store, &session, "/l").await;
    let spawn_wait = |key: coord_api::Key| waiting(&store, Seen::Exists(key));
    let warm = spawn_wait(first.key.clone());
    until("the mirror is there", async || {
        let before = proxy.requests();
        store.list(&nobody(), &dir("/l")).await.unwrap();
        proxy.requests() == before
    })
    .await;
    let mut waiters = vec![warm];
    let mut ahead = first.key;
    let mut places = vec![ahead.clone()];
    let before = proxy.requests();
    for _ in 0..20 {
        let place = join(&store, &session, "/l").await;
        let line = place.line.unwrap();
        let at = line.position(&place.key).unwrap();
        assert_eq!(line.children[at - 1].key, ahead);
        waiters.push(spawn_wait(ahead));
        ahead = place.key;
        places.push(ahead.clone());
    }
    assert_eq!(proxy.requests() - before, 20, "one call a place");
    for (place, waiter) in places.into_iter().zip(waiters) {
        assert!(store.commit(&nobody(), Txn::new().delete(place)).await.unwrap().is_committed());
        soon("the waiter is woken", waiter).await.unwrap();
    }
    assert_eq!(proxy.requests() - before, 41, "one call a release");
    store.close().await.unwrap();
}

#[tokio::test]
async fn etcdctl_lock_and_we_wait_for_each_other() {
    let server = server!();
    let Some(etcdctl) = etcdctl() else {
        println!("left out: no etcdctl beside the server");
        return;
    };
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, TTL).await;
    let ours = join(&store, &session, "/shared").await;
    let endpoint = format!("--endpoints={}", server.addr());
    // Prints its key once it holds the lock, and holds it until it is told to end.
    let mut command = Command::new(etcdctl);
    command.args([&endpoint, "lock", "/shared"]).env("ETCDCTL_API", "3").kill_on_drop(true);
    let mut theirs = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("etcdctl stands in the line", async || {
        store.list(&nobody(), &dir("/shared")).await.unwrap().children.len() == 2
    })
    .await;
    let behind = join(&store, &session, "/shared").await;
    let line = behind.line.unwrap();
    assert_eq!((line.position(&ours.key), line.position(&behind.key)), (Some(0), Some(2)));
    let foreign = &line.children[1];
    assert_eq!((&foreign.tag, foreign.nonce), (&None, None));
    // Its layout: the lease in hex and nothing else.
    assert_eq!(
        get(&store, foreign.key.as_str()).await.unwrap().meta.owner.unwrap().as_str(),
        foreign.key.name()
    );

    // It holds only after we let go.
    assert!(store.commit(&nobody(), Txn::new().delete(ours.key)).await.unwrap().is_committed());
    let mut printed = vec![0; foreign.key.as_str().len()];
    soon("etcdctl holds", theirs.stdout.as_mut().unwrap().read_exact(&mut printed)).await.unwrap();
    assert_eq!(String::from_utf8(printed).unwrap(), foreign.key.as_str());
    let waiting = waiting(&store, Seen::Exists(foreign.key.clone()));
    let pid = theirs.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    soon("our turn comes", waiting).await.unwrap();
    soon("etcdctl ends", theirs.wait()).await.unwrap();
    store.close().await.unwrap();
}

/// The client that comes with the server.
fn etcdctl() -> Option<std::path::PathBuf> {
    let beside = std::env::var_os("COORD_SERVERS").map(|dir| std::path::Path::new(&dir).join("bin"));
    let root =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(|root| root.join(".servers/bin"));
    let path = std::env::var_os("PATH")?;
    beside
        .into_iter()
        .chain(root)
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join("etcdctl"))
        .find(|p| p.is_file())
}
