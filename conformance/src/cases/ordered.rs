//! The line of a directory.

use std::sync::Arc;

use bytes::Bytes;
use coord_api::{
    Child, Dir, ErrorKind, Freshness, Key, Lifetime, Nonce, Ordered, OrderedCreate, Seen, Session, Tag,
};

use crate::{CaseResult, Cx, within};

cases!("ordered", needs Store:
    the_line_is_the_order_of_arrival,
    a_nonce_finds_its_entry_again,
    the_line_of_the_reply_shows_everybody_ahead,
    entries_go_with_their_session,
    a_persistent_entry_stays,
    revisions_grow_also_after_the_line_was_empty,
    what_is_no_place_stands_behind,
    joining_needs_a_session,
    the_longest_directory_has_a_line,
);

fn request(dir: &str, nonce: Nonce) -> OrderedCreate {
    OrderedCreate {
        dir: Dir::parse(dir).expect("a literal"),
        tag: Tag::new("lock-").expect("a literal"),
        nonce,
        value: Bytes::from_static(b"payload"),
        lifetime: Lifetime::Session,
    }
}

async fn join(session: &Session, dir: &str) -> coord_api::Result<Ordered> {
    let nonce = session.coord().runtime().nonce();
    session.coord().backend().create_ordered(session.coord().context(), request(dir, nonce)).await
}

fn keys(children: &[Child]) -> Vec<&Key> {
    children.iter().map(|child| &child.key).collect()
}

/// Promise: the line is the order in which the store received the entries, whoever sent them.
async fn the_line_is_the_order_of_arrival(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let mut joined = Vec::new();
    for i in 0..12 {
        joined.push(join(if i % 3 == 0 { &a } else { &b }, "/q").await?);
    }
    assert!(joined.windows(2).all(|pair| pair[0].created < pair[1].created), "fences grow along the line");
    let line = cx.coord().await?.with_freshness(Freshness::Latest).list("/q").await?;
    assert_eq!(keys(&line.children), joined.iter().map(|o| &o.key).collect::<Vec<_>>());
    assert!(line.children.iter().all(|child| child.tag.as_ref().is_some_and(|tag| tag.as_str() == "lock-")));
    let entry =
        cx.coord().await?.with_freshness(Freshness::Latest).get(&joined[0].key).await?.expect("it stands");
    assert_eq!((entry.value.as_ref(), entry.meta.owner.as_ref()), (&b"payload"[..], Some(a.id())));
    assert_eq!(entry.meta.created, joined[0].created);
    Ok(())
}

/// Promise: joining again with the same nonce returns the same place and makes no second one.
async fn a_nonce_finds_its_entry_again(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let coord = session.coord();
    let ahead = join(&session, "/q").await?;
    let nonce = coord.runtime().nonce();
    let first = coord.backend().create_ordered(coord.context(), request("/q", nonce)).await?;
    let behind = join(&session, "/q").await?;
    for _ in 0..3 {
        let again = coord.backend().create_ordered(coord.context(), request("/q", nonce)).await?;
        assert_eq!((&again.key, again.created), (&first.key, first.created));
    }
    let line = coord.clone().with_freshness(Freshness::Latest).list("/q").await?;
    assert_eq!(keys(&line.children), [&ahead.key, &first.key, &behind.key]);
    assert_eq!(line.children[1].nonce, Some(nonce));
    Ok(())
}

/// Promise: the reply's line has our own entry and every earlier one that stands.
async fn the_line_of_the_reply_shows_everybody_ahead(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let first = join(&a, "/q").await?;
    let second = join(&b, "/q").await?;
    let third = join(&a, "/q").await?;
    for (ordered, wanted) in [(&first, 1), (&second, 2), (&third, 3)] {
        let Some(line) = &ordered.line else { continue };
        assert_eq!(line.position(&ordered.key), Some(wanted - 1));
        assert_eq!(keys(&line.children[..wanted]), [&first.key, &second.key, &third.key][..wanted]);
    }
    Ok(())
}

/// Promise: the entries of a session go with it, at once when it is closed.
async fn entries_go_with_their_session(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    join(&a, "/q").await?;
    let stays = join(&b, "/q").await?;
    join(&a, "/q").await?;
    a.close().await?;
    let line = b.coord().clone().with_freshness(Freshness::Latest).list("/q").await?;
    assert_eq!(keys(&line.children), [&stays.key]);
    Ok(())
}

/// Promise: a persistent entry keeps its place after its session.
async fn a_persistent_entry_stays(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let coord = session.coord();
    let persistent =
        OrderedCreate { lifetime: Lifetime::Persistent, ..request("/q", coord.runtime().nonce()) };
    let ordered = coord.backend().create_ordered(coord.context(), persistent).await?;
    session.close().await?;
    let coord = cx.coord().await?.with_freshness(Freshness::Latest);
    assert!(coord.get(&ordered.key).await?.expect("it stays").meta.owner.is_none());
    Ok(())
}

/// Promise: fences grow for ever, also when the line was empty and its directory vanished in between.
async fn revisions_grow_also_after_the_line_was_empty(cx: Arc<Cx>) -> CaseResult {
    let mut last = coord_api::Revision::ZERO;
    for _ in 0..5 {
        let session = cx.session().await?;
        let ordered = join(&session, "/q").await?;
        assert!(ordered.created > last);
        last = ordered.created;
        assert!(session.coord().delete(&ordered.key).await?);
        session.close().await?;
        // Lets a store that collects empty directories do so.
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    }
    Ok(())
}

/// Promise: a key that no line made does not get ahead of those who were there before.
async fn what_is_no_place_stands_behind(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let first = join(&session, "/q").await?;
    session.coord().put("/q/aaa-foreign", "x").await?;
    let second = join(&session, "/q").await?;
    let line = session.coord().clone().with_freshness(Freshness::Latest).list("/q").await?;
    let (first, second) = (line.position(&first.key), line.position(&second.key));
    assert_eq!(first, Some(0), "{line:?}");
    assert!(second > first && line.children.len() == 3, "{line:?}");
    Ok(())
}

/// Promise: without a session, or with one that is over, nothing is made.
async fn joining_needs_a_session(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let session = coord.session(Cx::LONG).await?;
    let nonce = coord.runtime().nonce();
    let without = coord.backend().create_ordered(coord.context(), request("/q", nonce)).await;
    assert_eq!(without.expect_err("no session").kind(), ErrorKind::InvalidArgument);
    let ctx = session.coord().context().clone();
    session.close().await?;
    let after = coord.backend().create_ordered(&ctx, request("/q", nonce)).await;
    assert_eq!(after.expect_err("it is over").kind(), ErrorKind::SessionLost);
    assert!(coord.list("/q").await?.children.is_empty());
    Ok(())
}

/// Promise: every directory that the grammar allows has a line, whatever the store appends for the names in it.
async fn the_longest_directory_has_a_line(cx: Arc<Cx>) -> CaseResult {
    let dir = format!("/{}", vec!["d".repeat(255); 4].join("/"));
    assert_eq!(dir.len(), 1024);
    let (a, b) = (cx.session().await?, cx.session().await?);
    let (first, second) = (join(&a, &dir).await?, join(&b, &dir).await?);
    let line = second.line.expect("every store of this project shows it");
    assert_eq!(keys(&line.children), [&first.key, &second.key]);
    assert_eq!(keys(&b.coord().list(dir.as_str()).await?.children), [&first.key, &second.key]);
    let ahead = Seen::Exists(first.key.clone());
    let waiting = tokio::spawn({
        let coord = b.coord().clone();
        async move { coord.wait(&ahead).await }
    });
    a.coord().delete(first.key).await?;
    within("the one behind is told", waiting).await?.expect("no panic")?;
    Ok(())
}
