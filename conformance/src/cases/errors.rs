//! Errors that every store gives alike.

use std::sync::Arc;

use coord_api::{ErrorKind, Lifetime, Outcome, Seen};
use coord_recipes::Lock;

use crate::{CaseResult, Cx, eventually, within};

cases!("errors", needs Store:
    a_malformed_name_is_refused_before_anything_is_sent,
    a_closed_handle_says_so,
    closing_ends_waits_and_watches,
    closing_ends_the_sessions_of_the_handle,
    an_error_names_the_operation_and_the_key,
);

/// Promise: a bad name is a typed error in every call, and nothing changes.
async fn a_malformed_name_is_refused_before_anything_is_sent(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let session = cx.session().await?;
    for bad in ["", "/", "//", "/a//b", "/a/", "/../up", "/.", "/a\0b", "/a\u{1b}[2J"] {
        let errors = [
            coord.get(bad).await.map(drop),
            coord.put(bad, "").await.map(drop),
            coord.create(bad, "", Lifetime::Persistent).await.map(drop),
            coord.delete(bad).await.map(drop),
        ];
        for error in errors.into_iter().map(|result| result.expect_err(bad)) {
            assert_eq!(
                (error.kind(), error.outcome()),
                (ErrorKind::InvalidArgument, Outcome::NotApplied),
                "{bad:?}"
            );
            assert!(!error.to_string().contains('\u{1b}'), "an escape sequence got through");
        }
    }
    for bad in ["/a//b", "/..", "/a\0"] {
        assert_eq!(coord.list(bad).await.expect_err(bad).kind(), ErrorKind::InvalidArgument);
        assert_eq!(coord.watch(bad).await.map(drop).expect_err(bad).kind(), ErrorKind::InvalidArgument);
        assert_eq!(Lock::new(&session, bad).expect_err(bad).kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(Lock::new(&session, "/").expect_err("the root is no lock").kind(), ErrorKind::InvalidArgument);
    assert!(coord.list("/").await?.children.is_empty());
    Ok(())
}

/// Promise: after `close` every call fails with `Closed`, and closing again is fine.
async fn a_closed_handle_says_so(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/a", "").await?;
    coord.close().await?;
    coord.close().await?;
    let errors = [
        coord.get("/a").await.map(drop),
        coord.put("/a", "").await.map(drop),
        coord.list("/").await.map(drop),
        coord.watch("/").await.map(drop),
        coord.session(Cx::LONG).await.map(drop),
        coord.wait(&Seen::Exists(coord_api::Key::parse("/a")?)).await,
    ];
    for (i, error) in errors.into_iter().enumerate() {
        assert_eq!(error.expect_err("closed").kind(), ErrorKind::Closed, "call {i}");
    }
    Ok(())
}

/// Promise: nobody waits for ever on a handle that was closed.
async fn closing_ends_waits_and_watches(cx: Arc<Cx>) -> CaseResult {
    use futures::StreamExt;
    let coord = cx.coord().await?;
    coord.put("/d/a", "").await?;
    let mut stream = coord.watch("/d").await?;
    within("the snapshot", stream.next()).await?.expect("an event")?;
    let waiter = {
        let coord = coord.clone();
        tokio::spawn(async move { coord.wait(&Seen::Exists(coord_api::Key::parse("/d/a")?)).await })
    };
    tokio::task::yield_now().await;
    coord.close().await?;
    let ended = within("the wait ends", waiter).await?.expect("no panic");
    assert!(ended.is_err(), "the key is still there");
    within("the watch ends", async {
        while let Some(event) = stream.next().await {
            if event.is_err() {
                break;
            }
        }
    })
    .await
}

/// Promise: sessions end with their handle, at once.
async fn closing_ends_the_sessions_of_the_handle(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?.with_freshness(coord_api::Freshness::Latest));
    let session = coord.session(Cx::LONG).await?;
    session.coord().create("/eph", "", Lifetime::Session).await?.expect("new");
    coord.close().await?;
    within("lost resolves", session.lost()).await?;
    eventually("the key is gone", || async { Ok(other.get("/eph").await?.is_none()) }).await
}

/// Promise: an error tells what failed and on which key.
async fn an_error_names_the_operation_and_the_key(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let large = vec![0; coord.info().limits.value_max_bytes + 1];
    let error = coord.put("/config/large", large).await.expect_err("too large");
    let text = error.to_string();
    assert!(text.contains("commit") && text.contains("/config/large") && text.contains("1000001"), "{text}");
    Ok(())
}
