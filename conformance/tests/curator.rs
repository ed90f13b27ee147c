//! Our lock and Curator's are one lock on ZooKeeper, and our registry and Curator's are one registry: a real Curator 5.4 in
//! a Java process of its own.

#[path = "curator/discovery.rs"]
mod discovery;
#[path = "curator/dubbo.rs"]
mod dubbo;
#[path = "curator/java.rs"]
mod java;

use std::time::Duration;

use coord::{Coord, Lock, Session};
use coord_testbed::Server;
use tokio::time::timeout;

use java::{Java, SOON, zookeeper};

const LONG: Duration = Duration::from_secs(20);
const LOCK: &str = "/locks/shared";

/// Curator's `InterProcessMutex`.
async fn curator(server: &Server) -> Java {
    Java::start("CuratorLock.java", server, &[LOCK]).await
}

async fn rig() -> (Server, Coord, Session) {
    let server = zookeeper().await;
    let coord = coord::connect(&server.url()).await.expect("it is up");
    let session = coord.session(LONG).await.expect("it is up");
    (server, coord, session)
}

/// Waits until so many stand in the line.
async fn standing(coord: &Coord, wanted: usize) {
    timeout(SOON, async {
        while coord.list(LOCK).await.expect("it is up").children.len() != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the line has the wanted length");
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_waits_for_us_and_we_for_curator() {
    let (server, coord, session) = rig().await;
    let mut curator = curator(&server).await;
    let lock = Lock::new(&session, LOCK).unwrap();

    let guard = lock.acquire().await.unwrap();
    assert_eq!(curator.ask("acquire 300").await, "false", "we hold it");
    guard.release().await.unwrap();
    assert_eq!(curator.ask("acquire 5000").await, "true", "it is free");

    assert!(lock.try_acquire().await.unwrap().is_none(), "Curator holds it");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    standing(&coord, 2).await;
    assert!(!waiter.is_finished());
    assert_eq!(curator.ask("release").await, "released");
    let guard = timeout(SOON, waiter).await.unwrap().unwrap().unwrap();

    // Behind us again, and served as soon as we leave.
    curator.send("acquire 20000").await;
    standing(&coord, 2).await;
    guard.release().await.unwrap();
    assert_eq!(curator.answer().await, "true");
    assert_eq!(curator.ask("release").await, "released");
    standing(&coord, 0).await;
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_line_in_the_order_of_the_store() {
    let (server, coord, session) = rig().await;
    let (mut first, mut third) = (curator(&server).await, curator(&server).await);
    let lock = Lock::new(&session, LOCK).unwrap();
    assert_eq!(first.ask("acquire 5000").await, "true");
    let second = tokio::spawn(async move { lock.acquire().await });
    standing(&coord, 2).await;
    third.send("acquire 20000").await;
    standing(&coord, 3).await;

    assert_eq!(first.ask("release").await, "released");
    let guard = timeout(SOON, second).await.unwrap().unwrap().unwrap();
    let line = coord.list(LOCK).await.unwrap();
    assert_eq!((line.children.len(), line.position(guard.key())), (2, Some(0)), "{line:?}");
    guard.release().await.unwrap();
    assert_eq!(third.answer().await, "true");
    server.stop().await.unwrap();
}

/// A Curator that dies with its session gives way like anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_curator_that_was_killed_gives_way() {
    let (server, coord, session) = rig().await;
    let mut curator = curator(&server).await;
    assert_eq!(curator.ask("acquire 5000").await, "true");
    let lock = Lock::new(&session, LOCK).unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await });
    standing(&coord, 2).await;
    drop(curator);
    // Its session lasts for five seconds.
    let guard = timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
    assert!(guard.is_valid());
    server.stop().await.unwrap();
}
