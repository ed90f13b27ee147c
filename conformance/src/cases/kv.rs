//! Reading and writing single keys.

use std::sync::Arc;

use coord_api::{Freshness, Lifetime};

use crate::{CaseResult, Cx};

cases!("kv", needs Store:
    an_absent_key_is_none,
    a_handle_reads_its_own_writes,
    revisions_grow_and_creation_stays,
    create_refuses_what_is_there,
    compare_and_set_lets_one_win,
    delete_tells_whether_it_was_there,
    a_latest_read_sees_the_writes_of_others,
    listing_shows_keys_and_directories,
    a_large_directory_lists_whole,
);

/// Promise: what is not there is `None`, and an absent directory is empty.
async fn an_absent_key_is_none(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    assert!(coord.get("/absent/key").await?.is_none());
    assert!(coord.list("/absent").await?.children.is_empty());
    coord.put("/parent/child", "x").await?;
    assert!(coord.get("/parent").await?.is_none(), "a directory is no key");
    Ok(())
}

/// Promise: an acknowledged write is seen by the next read of the same handle.
async fn a_handle_reads_its_own_writes(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    for i in 0..50 {
        let written = coord.put("/own", format!("{i}")).await?;
        let entry = coord.get("/own").await?.expect("just written");
        assert_eq!(entry.value, format!("{i}"));
        assert_eq!((entry.meta.modified, entry.meta.version), (written.revision, written.version));
    }
    Ok(())
}

/// Promise: every write has a larger revision and another version; `created` stays until the key is deleted.
async fn revisions_grow_and_creation_stays(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let first = coord.put("/a", "1").await?;
    let second = coord.put("/a", "2").await?;
    let other = coord.put("/b", "1").await?;
    assert!(first.revision < second.revision && second.revision < other.revision);
    assert_ne!(first.version, second.version);
    let entry = coord.get("/a").await?.expect("written");
    assert_eq!((entry.meta.created, entry.meta.modified), (first.revision, second.revision));
    assert!(entry.meta.owner.is_none());

    coord.delete("/a").await?;
    let again = coord.put("/a", "3").await?;
    assert!(again.revision > other.revision);
    assert_eq!(coord.get("/a").await?.expect("written").meta.created, again.revision);
    Ok(())
}

/// Promise: of two creations one is refused, and it changes nothing.
async fn create_refuses_what_is_there(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    assert!(coord.create("/a", "first", Lifetime::Persistent).await?.is_some());
    assert!(coord.create("/a", "second", Lifetime::Persistent).await?.is_none());
    assert_eq!(coord.get("/a").await?.expect("created").value, "first");
    Ok(())
}

/// Promise: of many who change the same version, exactly one wins each round.
async fn compare_and_set_lets_one_win(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/n", "0").await?;
    for round in 1..=5 {
        let version = coord.get("/n").await?.expect("there").meta.version;
        let tries = (0..8).map(|_| {
            let coord = coord.clone();
            async move { coord.compare_and_set("/n", version, format!("{round}")).await }
        });
        let results = futures::future::join_all(tries).await;
        let winners =
            results.into_iter().collect::<coord_api::Result<Vec<_>>>()?.into_iter().flatten().count();
        assert_eq!(winners, 1, "round {round}");
    }
    Ok(())
}

/// Promise: a deletion tells whether there was something.
async fn delete_tells_whether_it_was_there(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let written = coord.put("/a", "1").await?;
    coord.put("/a", "2").await?;
    assert!(!coord.delete_version("/a", written.version).await?, "an old version must not delete");
    assert!(coord.delete("/a").await?);
    assert!(!coord.delete("/a").await?);
    assert!(coord.get("/a").await?.is_none());
    Ok(())
}

/// Promise: a latest read sees what was acknowledged to anybody.
async fn a_latest_read_sees_the_writes_of_others(cx: Arc<Cx>) -> CaseResult {
    let (writer, reader) = (cx.coord().await?, cx.coord().await?.with_freshness(Freshness::Latest));
    for i in 0..50 {
        writer.put("/shared", format!("{i}")).await?;
        assert_eq!(reader.get("/shared").await?.expect("acknowledged").value, format!("{i}"));
        assert_eq!(reader.list("/").await?.children.len(), 1);
    }
    Ok(())
}

/// Promise: a listing has the keys and the directories of one level, each once.
async fn listing_shows_keys_and_directories(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    for key in ["/d/a", "/d/b/x", "/d/b/y", "/d/b2/z", "/d2/q"] {
        coord.put(key, "").await?;
    }
    let listing = coord.list("/d").await?;
    let mut names: Vec<&str> = listing.children.iter().map(|child| child.key.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["/d/a", "/d/b", "/d/b2"]);
    Ok(())
}

/// Promise: a directory of more names than a page or packet shows all of them.
async fn a_large_directory_lists_whole(cx: Arc<Cx>) -> CaseResult {
    const NAMES: usize = 2_500;
    let coord = cx.coord().await?;
    let writes = (0..NAMES).map(|i| {
        let coord = coord.clone();
        async move { coord.put(format!("/many/name-{i:06}"), "").await }
    });
    use futures::StreamExt;
    let results: Vec<_> = futures::stream::iter(writes).buffer_unordered(64).collect().await;
    results.into_iter().collect::<coord_api::Result<Vec<_>>>()?;
    assert_eq!(coord.list("/many").await?.children.len(), NAMES);
    Ok(())
}
