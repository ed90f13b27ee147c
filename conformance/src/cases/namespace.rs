//! Namespaces: a directory as a store of its own.

use std::sync::Arc;

use coord_api::{Lifetime, Seen, WatchEvent};
use coord_recipes::Lock;
use futures::StreamExt;

use crate::{CaseResult, Cx, within};

cases!("namespace", needs Store:
    keys_go_in_and_come_out_without_it,
    neighbours_are_apart,
    a_name_equal_to_the_namespace_is_just_a_name,
    locks_of_two_namespaces_are_two_locks,
);

/// Promise: every call means the same paths inside as it would without a namespace.
async fn keys_go_in_and_come_out_without_it(cx: Arc<Cx>) -> CaseResult {
    let (inside, outside) = (cx.coord_in("/app").await?, cx.coord().await?);
    let mut stream = inside.watch("/d").await?;
    inside.put("/d/a", "1").await?;
    assert_eq!(inside.get("/d/a").await?.expect("inside").key.as_str(), "/d/a");
    assert_eq!(inside.list("/d").await?.children[0].key.as_str(), "/d/a");
    assert!(outside.clone().with_freshness(coord_api::Freshness::Latest).get("/app/d/a").await?.is_some());
    within("the key in the stream", async {
        loop {
            match stream.next().await {
                Some(Ok(WatchEvent::Put(entry))) if entry.key.as_str() == "/d/a" => return,
                Some(Ok(WatchEvent::Snapshot { entries, .. }))
                    if entries.iter().any(|e| e.key.as_str() == "/d/a") =>
                {
                    return;
                }
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    })
    .await?;
    let session = inside.session(Cx::LONG).await?;
    session.coord().create("/d/eph", "", Lifetime::Session).await?.expect("new");
    let seen = Seen::Exists(coord_api::Key::parse("/d/eph")?);
    let (waited, closed) = tokio::join!(within("the key is gone", inside.wait(&seen)), session.close());
    waited??;
    closed?;
    Ok(())
}

/// Promise: `app` and `app2` do not see each other, in any call.
async fn neighbours_are_apart(cx: Arc<Cx>) -> CaseResult {
    let (app, app2) = (cx.coord_in("/app").await?, cx.coord_in("/app2").await?);
    app2.put("/x", "2").await?;
    app2.put("/d/y", "2").await?;
    assert!(app.get("/x").await?.is_none() && app.get("/2/x").await?.is_none());
    assert!(app.list("/").await?.children.is_empty());
    app.put("/x", "1").await?;
    assert!(app.delete("/x").await?);
    assert_eq!(app2.get("/x").await?.expect("untouched").value, "2");
    Ok(())
}

/// Promise: a key named like the namespace is not taken for it.
async fn a_name_equal_to_the_namespace_is_just_a_name(cx: Arc<Cx>) -> CaseResult {
    let zoo = cx.coord_in("/zoo").await?;
    zoo.put("/zoo/zoo", "1").await?;
    assert_eq!(zoo.get("/zoo/zoo").await?.expect("there").key.as_str(), "/zoo/zoo");
    assert!(zoo.get("/zoo").await?.is_none());
    assert_eq!(zoo.list("/zoo").await?.children[0].key.as_str(), "/zoo/zoo");
    Ok(())
}

/// Promise: locks of the same name in two namespaces do not exclude each other.
async fn locks_of_two_namespaces_are_two_locks(cx: Arc<Cx>) -> CaseResult {
    let a = cx.coord_in("/a").await?.session(Cx::LONG).await?;
    let b = cx.coord_in("/b").await?.session(Cx::LONG).await?;
    let held_a = Lock::new(&a, "/lock")?.try_acquire().await?.expect("free");
    let held_b = Lock::new(&b, "/lock")?.try_acquire().await?.expect("free");
    held_a.release().await?;
    held_b.release().await?;
    Ok(())
}
