//! Code of the program that blocks, on a store whose sessions are renewed by the library's threads.

use std::{sync::mpsc, time::Duration};

use coord_api::{Config, Registry, SessionState};
use coord_backend_sqlite::SqliteFactory;
use coord_config_centre::{ConfigCentre, Consumer, ConsumerOptions, Content, Edit, Identity};
use futures::future::try_join_all;

const TTL: Duration = Duration::from_secs(2);

/// Promise G11, also where the library has one thread.
#[tokio::test]
async fn checks_that_block_for_longer_than_a_ttl_lose_no_session() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/coord.db", dir.path().display());
    let coord = Registry::new().with(SqliteFactory).connect(&Config::from_url(&url).unwrap()).await.unwrap();
    let session = coord.session(TTL).await.unwrap();
    let centre = ConfigCentre::new(&coord, "/config").unwrap();
    // As many as the library has threads, at most.
    let mut consumers = Vec::new();
    for name in ["billing", "orders"] {
        let namespace = centre.namespace(name).unwrap();
        namespace.publish(Content::items([("rate", "1")]), &Edit::by("alice")).await.unwrap().done().unwrap();
        let options = ConsumerOptions::new(Identity::new("a")).with_check(|_| {
            let (_kept, never) = mpsc::channel::<()>();
            let _ = never.recv_timeout(TTL * 3 / 2);
            Ok(())
        });
        consumers.push(Consumer::open(&namespace, options).unwrap());
    }
    try_join_all(consumers.iter().map(Consumer::ready)).await.unwrap();
    assert_eq!(session.state(), SessionState::Live);
    assert!(session.is_valid());
    coord.close().await.unwrap();
}
