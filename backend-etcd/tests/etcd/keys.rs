//! Where keys lie, and what is shown of what others wrote.

use std::time::Duration;

use coord_api::{Freshness, Lifetime, OpContext, Txn};

use crate::support::*;

fn names(listing: &coord_api::Listing) -> Vec<&str> {
    listing.children.iter().map(|child| child.key.as_str()).collect()
}

#[tokio::test]
async fn keys_lie_below_the_path_of_the_url() {
    let server = server!();
    let store = open(&format!("{}/app/x", server.url())).await.unwrap();
    put(&store, "/a/b", "1").await;
    let found = raw(&server).await.get("/app/x/a/b", None).await.unwrap();
    assert_eq!(found.kvs()[0].value(), b"1");
    let meta = get(&store, "/a/b").await.unwrap().meta;
    assert_eq!((meta.created, meta.modified), (meta.modified, meta.created));
    assert_eq!(meta.version.get(), meta.modified.get());
    assert_eq!(meta.owner, None);
    assert!(get(&store, "/a").await.is_none());
    store.close().await.unwrap();
}

#[tokio::test]
async fn neighbours_with_a_longer_name_are_apart() {
    let server = server!();
    let store = open(&format!("{}/root", server.url())).await.unwrap();
    raw(&server).await.put("/root2/app/x", "", None).await.unwrap();
    for path in ["/app/a", "/app2/b", "/app", "/app/d/e"] {
        put(&store, path, "").await;
    }
    for freshness in [Freshness::Latest, Freshness::Session] {
        let ctx = OpContext::default().with_freshness(freshness);
        assert_eq!(names(&store.list(&ctx, &dir("/app")).await.unwrap()), ["/app/a", "/app/d"]);
        assert_eq!(names(&store.list(&ctx, &dir("/")).await.unwrap()), ["/app", "/app2"]);
        assert!(store.list(&ctx, &dir("/none")).await.unwrap().children.is_empty());
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_listing_is_the_same_from_the_mirror_and_from_the_store() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let _watch = store.watch(&nobody(), &dir("/d"), coord_api::Start::Snapshot).await.unwrap();
    let session = session(&store, Duration::from_secs(5)).await;
    join(&store, &session, "/d").await;
    for path in ["/d/z", "/d/b", "/d/m"] {
        put(&store, path, "").await;
        // Its own write shows at once.
        let mirrored = store.list(&nobody(), &dir("/d")).await.unwrap();
        assert!(names(&mirrored).contains(&path), "{path}");
        let latest = OpContext::default().with_freshness(Freshness::Latest);
        assert_eq!(mirrored, store.list(&latest, &dir("/d")).await.unwrap());
    }
    let txn = Txn::new().delete(key("/d/b"));
    assert!(store.commit(&nobody(), txn).await.unwrap().is_committed());
    assert!(!names(&store.list(&nobody(), &dir("/d")).await.unwrap()).contains(&"/d/b"));
    // An ended session took its keys along.
    session.close().await.unwrap();
    assert_eq!(names(&store.list(&nobody(), &dir("/d")).await.unwrap()), ["/d/z", "/d/m"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_ephemeral_key_names_its_session() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let session = session(&store, Duration::from_secs(5)).await;
    let txn = Txn::new().create(key("/e"), "", Lifetime::Session);
    assert!(store.commit(&owned_by(&session), txn).await.unwrap().is_committed());
    assert_eq!(get(&store, "/e").await.unwrap().meta.owner.as_ref(), Some(session.id()));
    let lease = raw(&server).await.get("/e", None).await.unwrap().kvs()[0].lease();
    assert_eq!(session.id().as_str(), format!("{lease:x}"));
    store.close().await.unwrap();
}

#[tokio::test]
async fn names_of_others_are_shown_or_left_out_and_nothing_stops() {
    let server = server!();
    let store = open(&format!("{}/r", server.url())).await.unwrap();
    let mut others = raw(&server).await;
    for name in [&b"/r/d/ok"[..], b"/r/d/\xff\xfe", b"/r/d/", b"/r/d//x", b"/r/d/line\nbreak", b"/r"] {
        others.put(name, "", None).await.unwrap();
    }
    let listed = store.list(&nobody(), &dir("/d")).await.unwrap();
    assert_eq!(names(&listed), ["/d/ok", "/d/", "/d/line\nbreak"]);
    let mut watch = store.watch(&nobody(), &dir("/d"), coord_api::Start::Snapshot).await.unwrap();
    let coord_api::WatchEvent::Snapshot { entries, .. } = next(&mut watch).await else {
        panic!("a snapshot first")
    };
    assert_eq!(entries.len(), 4);
    others.put(&b"/r/d/\xff"[..], "", None).await.unwrap();
    others.delete(&b"/r/d/\xff"[..], None).await.unwrap();
    others.put("/r/d/after", "", None).await.unwrap();
    let coord_api::WatchEvent::Put(entry) = next(&mut watch).await else { panic!("a put") };
    assert_eq!(entry.key.as_str(), "/d/after");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_listing_of_many_pages_is_of_one_moment() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let mut others = raw(&server).await;
    for batch in 0..110 {
        let puts: Vec<_> =
            (0..100).map(|n| etcd_client::TxnOp::put(format!("/many/{batch:03}-{n:02}"), "", None)).collect();
        others.txn(etcd_client::Txn::new().and_then(puts)).await.unwrap();
    }
    let listing = store.list(&nobody(), &dir("/many")).await.unwrap();
    assert_eq!(listing.children.len(), 11_000);
    // By creation, and by key within one transaction.
    assert!(listing.children.is_sorted_by(|a, b| a.key < b.key));
    store.close().await.unwrap();
}
