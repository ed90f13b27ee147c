//! The leaf rule on real servers: no write hides the value of a node above.

mod common;

use std::time::Duration;

use common::*;
use coord_api::{ErrorKind, Lifetime, Outcome, Txn};

#[tokio::test]
async fn a_node_with_a_value_keeps_no_keys_below() {
    on_each(async |server| {
        let coord = open(&server.url()).await;
        let session = coord.session(Duration::from_secs(10)).await.unwrap();
        // This handle knows the directory; another puts a key where it was.
        coord.put("/was/dir", "").await.unwrap();
        assert!(coord.delete("/was/dir").await.unwrap());
        coord.put("/was", "now a key").await.unwrap();
        coord.put("/k", "value").await.unwrap();
        session.coord().create("/mine", "", Lifetime::Session).await.unwrap().unwrap();
        for (below, above) in
            [("/was/x", "/was"), ("/k/x", "/k"), ("/k/deep/down/x", "/k"), ("/mine/x", "/mine")]
        {
            let error = coord.put(below, "x").await.unwrap_err();
            assert_eq!(
                (error.kind(), error.outcome()),
                (ErrorKind::InvalidArgument, Outcome::NotApplied),
                "{error}"
            );
            let text = error.to_string();
            assert!(
                text.contains(&format!("key={below}")) && text.contains(&format!("other={above}")),
                "{text}"
            );
            assert!(coord.list(above).await.unwrap().children.is_empty(), "something was made below {above}");
        }
        let both = Txn::new().put(key("/t/a"), "1").put(key("/t/a/b"), "2");
        let error = coord.commit(both).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        // One bad write among several spoils them all.
        let mixed = Txn::new().put(key("/fine/a"), "1").put(key("/k/a"), "2");
        assert_eq!(coord.commit(mixed).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(coord.get("/fine/a").await.unwrap(), None);
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_is_no_key_of_ours_is_a_directory() {
    on_each(async |server| {
        let root = open(&server.url()).await;
        // What other programs make directories of.
        root.put("/empty", "").await.unwrap();
        root.put("/empty/x", "1").await.unwrap();
        // A chroot is no key of who is in it.
        root.put("/app", "somebody's").await.unwrap();
        let inside = open(&format!("{}/app", server.url())).await;
        inside.put("/a", "1").await.unwrap();
        let session = inside.session(Duration::from_secs(10)).await.unwrap();
        join(&session, "/lock").await;
        assert_eq!(inside.get("/a").await.unwrap().unwrap().value, "1");
        for coord in [inside, root] {
            coord.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn only_the_first_creation_in_a_directory_looks_at_it() {
    on_each(async |server| {
        let other = open(&server.url()).await;
        other.put("/d/there", "").await.unwrap();
        let proxy = server.proxied().await.unwrap();
        let coord = open(&proxy.url()).await;
        let create = async |n: u64| {
            coord.create(format!("/d/{n}"), "", Lifetime::Persistent).await.unwrap().unwrap();
        };
        create(0).await;
        let before = proxy.requests();
        let creations = 50;
        for n in 1..=creations {
            create(n).await;
        }
        let spent = proxy.requests() - before;
        let pings = 10;
        assert!(spent <= creations + pings, "{spent} requests for {creations} creations");
        for coord in [coord, other] {
            coord.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}
