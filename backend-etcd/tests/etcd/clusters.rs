//! Three members, of which one fails.

use std::time::Duration;

use coord_api::{Durability, SessionState, Start, WatchEvent};
use coord_testbed::{Cluster, Kind, Provider, ServerOptions};

use crate::support::*;

#[tokio::test]
async fn a_member_that_is_killed_or_hangs_is_left_for_another() {
    let provider = Provider::choose(Kind::Etcd).await.unwrap();
    if provider == Provider::Off {
        println!("left out: COORD_TEST_ETCD=off");
        return;
    }
    let mut cluster = Cluster::start_three(Kind::Etcd, &provider, ServerOptions::new()).await.unwrap();
    let store = open(&format!("{}?request_timeout=1s", cluster.url())).await.unwrap();
    assert_eq!(store.info().guarantees.durability, Durability::Quorum);
    let session = session(&store, Duration::from_secs(10)).await;
    let place = join(&store, &session, "/l").await;
    let mut watch = store.watch(&nobody(), &dir("/d"), Start::Snapshot).await.unwrap();
    next(&mut watch).await;

    // The first of the URL is the one in use.
    cluster.nodes()[0].pause().await.unwrap();
    until("calls go on", async || store.get(&nobody(), &key("/d/a")).await.is_ok()).await;
    put(&store, "/d/a", "1").await;
    assert!(matches!(next(&mut watch).await, WatchEvent::Put(entry) if entry.key == key("/d/a")));
    state(&session, SessionState::Live).await;
    cluster.nodes()[0].resume().await.unwrap();

    cluster.nodes_mut()[1].kill().await.unwrap();
    until("calls go on", async || store.get(&nobody(), &key("/d/b")).await.is_ok()).await;
    put(&store, "/d/b", "1").await;
    assert!(matches!(next(&mut watch).await, WatchEvent::Put(entry) if entry.key == key("/d/b")));
    let before = session.valid_until();
    until("renewals go on", async || session.valid_until() > before).await;
    assert_eq!(get(&store, place.key.as_str()).await.unwrap().meta.owner.as_ref(), Some(session.id()));
    store.close().await.unwrap();
}
