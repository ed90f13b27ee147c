//! The config centre: publishing, while everything works.

use std::sync::Arc;

use coord_api::{Coord, ErrorKind};
use coord_config_centre::{
    ConfigCentre, Content, Edit, Edited, Expected, Format, Generation, Namespace, ReleaseVersion,
};

use crate::{CaseResult, Cx, Failure, sweep::drop_after, within};

cases!("config", needs Store:
    a_thousand_releases_are_each_seen_whole,
    a_change_that_expects_something_else_is_refused_and_changes_nothing,
    an_empty_value_and_no_items_at_all_are_content,
    the_same_content_again_makes_no_generation,
    many_publishers_make_each_generation_once,
    what_is_published_reads_back_byte_for_byte,
    a_malformed_release_is_refused_and_nothing_is_half_published,
    a_release_over_the_limit_is_refused_with_the_limit,
    values_of_others_are_errors_that_name_the_key,
    a_head_that_was_deleted_is_not_begun_anew,
    namespaces_may_have_any_name_and_do_not_meet,
    dropping_a_publish_at_any_await_point_leaves_all_of_it_or_nothing,
);

/// The author of what the cases publish.
pub(super) fn ann() -> Edit {
    Edit::by("ann")
}

pub(super) fn centre(coord: &Coord) -> Result<ConfigCentre, Failure> {
    Ok(ConfigCentre::new(coord, "/config")?)
}

pub(super) fn billing(coord: &Coord) -> Result<Namespace, Failure> {
    Ok(centre(coord)?.namespace("billing")?)
}

pub(super) fn rate(value: &str) -> Content {
    Content::items([("rate", value)])
}

/// Publishes this rate.
pub(super) async fn publish_rate(namespace: &Namespace, value: &str) -> Result<Generation, Failure> {
    Ok(namespace.publish(rate(value), &ann()).await?.done()?.generation)
}

/// The author and operation of each generation, the oldest first.
pub(super) async fn told(namespace: &Namespace) -> Result<Vec<String>, Failure> {
    let history = namespace.history(1_000).await?;
    assert!(history.unreadable.is_empty(), "{:?}", history.unreadable);
    let told = history.entries.iter().rev().map(|entry| format!("{} {}", entry.made.by, entry.op));
    Ok(told.collect())
}

/// Promise: who reads while others publish sees all items of one release, and never an older one than before.
///
/// BB-244 (the project's fourth article): host and port were updated one after the other, and a reader saw the new host
/// with the old port.
async fn a_thousand_releases_are_each_seen_whole(cx: Arc<Cx>) -> CaseResult {
    const RELEASES: u64 = 1_000;
    let (writer, reader) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    let pair =
        |number: u64| Content::items([("host", format!("10.0.0.{number}")), ("port", format!("{number}"))]);
    writer.publish(pair(1), &ann()).await?.done()?;
    let publishing = tokio::spawn(async move {
        for number in 2..=RELEASES {
            writer.publish(pair(number), &ann()).await?.done()?;
        }
        Ok::<_, coord_api::Error>(())
    });
    let (mut last, mut seen) = (Generation::default(), 0);
    while last < Generation::new(RELEASES) && !publishing.is_finished() {
        let current = reader.current().await?.expect("it was published");
        assert!(current.generation() >= last, "went back from {last} to {}", current.generation());
        let host = current.content().item("host").expect("a host").to_owned();
        let port = current.content().item("port").expect("a port");
        assert_eq!(host, format!("10.0.0.{port}"), "in generation {}", current.generation());
        assert_eq!(port, current.generation().to_string(), "the release of another generation");
        seen += usize::from(current.generation() > last);
        last = current.generation();
    }
    within("published", publishing).await?.expect("no panic")?;
    assert!(seen > 10, "only {seen} releases were looked at");
    Ok(())
}

/// Promise: a change that expects what is not so is refused, says what is there and who made it, and changes nothing.
///
/// BB-245 (spring-integration#11013): a replace that replaced nothing said that it did.
async fn a_change_that_expects_something_else_is_refused_and_changes_nothing(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    let nothing = a.publish(rate("1"), &ann().expecting(Generation::FIRST)).await?;
    assert!(matches!(nothing, Edited::Conflict(ref conflict) if conflict.current.is_none()), "{nothing:?}");
    assert!(a.current().await?.is_none());

    let first = a.publish(rate("1"), &ann().expecting(Expected::Nothing)).await?.done()?.generation;
    let second = b.publish(rate("2"), &Edit::by("ben").expecting(first)).await?.done()?.generation;
    // One that has seen the current head and one that has not.
    for namespace in [&a, &b] {
        for expected in [Expected::Nothing, first.into(), Generation::new(99).into()] {
            let edited = namespace.publish(rate("3"), &ann().expecting(expected)).await?;
            let Edited::Conflict(conflict) = edited.clone() else { panic!("{edited:?}") };
            let current = conflict.current.expect("a head");
            assert_eq!((current.generation, current.made.by.as_str()), (second, "ben"));
            let error = edited.done().expect_err("a conflict");
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(
                error.to_string().contains("by=ben") && error.to_string().contains("current=2"),
                "{error}"
            );
        }
    }
    assert_eq!(told(&a).await?, ["ann publish", "ben publish"]);
    assert_eq!(b.get("rate").await?.as_deref(), Some("2"));
    Ok(())
}

/// Promise: an empty value is a value, and a release without items is a release.
///
/// BB-239 (spring-cloud-alibaba#4333): an empty text was taken for a missing one.
async fn an_empty_value_and_no_items_at_all_are_content(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    publish_rate(&a, "").await?;
    assert_eq!(b.get("rate").await?.as_deref(), Some(""));
    assert_eq!(b.get("other").await?, None);
    a.publish(Content::items::<&str, &str>([]), &ann()).await?.done()?;
    let current = b.current().await?.expect("it was published");
    assert_eq!((current.content().size(), b.get("rate").await?), (0, None));
    a.publish(Content::document(Format::Text, ""), &ann()).await?.done()?;
    assert_eq!(b.read::<String>().await?.as_deref(), Some(""));
    Ok(())
}

/// Promise: publishing what is there already writes nothing; a wrong expectation is still told.
async fn the_same_content_again_makes_no_generation(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    let first = publish_rate(&a, "1").await?;
    for namespace in [&a, &b] {
        let again = namespace.publish(rate("1"), &Edit::by("ben")).await?;
        assert!(matches!(again, Edited::Unchanged(ref head) if head.made.by == "ann"), "{again:?}");
        let wrong = namespace.publish(rate("1"), &ann().expecting(Generation::new(7))).await?;
        assert!(matches!(wrong, Edited::Conflict(_)), "{wrong:?}");
    }
    // What this handle saw last is not what is there: it looks before it says that nothing is to be done.
    publish_rate(&b, "2").await?;
    assert!(matches!(a.publish(rate("1"), &ann()).await?, Edited::Done(_)));
    assert_eq!(a.head().await?.expect("a head").generation, first.next().next());
    Ok(())
}

/// Promise: however many publish at once, every publish that was acknowledged made one generation of its own.
async fn many_publishers_make_each_generation_once(cx: Arc<Cx>) -> CaseResult {
    const PUBLISHERS: u64 = 6;
    const EACH: u64 = 8;
    // A store in memory goes with its last handle, and the first publisher may be done before the next one is here.
    let namespace = billing(&cx.coord().await?)?;
    let mut crowd = Vec::new();
    for publisher in 0..PUBLISHERS {
        let publishing = billing(&cx.coord().await?)?;
        crowd.push(tokio::spawn(async move {
            let mut made = Vec::new();
            for number in 0..EACH {
                let content = rate(&format!("{publisher}-{number}"));
                made.push(
                    publishing.publish(content, &Edit::by(publisher.to_string())).await?.done()?.generation,
                );
            }
            Ok::<_, coord_api::Error>(made)
        }));
    }
    let mut made = Vec::new();
    for publisher in crowd {
        let generations = within("published", publisher).await?.expect("no panic")?;
        assert!(generations.is_sorted(), "{generations:?}");
        made.extend(generations);
    }
    made.sort_unstable();
    assert_eq!(made, (1..=PUBLISHERS * EACH).map(Generation::new).collect::<Vec<_>>());
    let mut authors = told(&namespace).await?;
    authors.sort();
    for publisher in 0..PUBLISHERS {
        let count = authors.iter().filter(|told| **told == format!("{publisher} publish")).count();
        assert_eq!(count as u64, EACH, "of publisher {publisher}");
    }
    assert_eq!(namespace.verify().await?.broken, None);
    Ok(())
}

/// Promise: content, format, author and note come back as they were given, also by a rollback.
///
/// BB-238 (nacos#12371): a rollback lost type and description.
async fn what_is_published_reads_back_byte_for_byte(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    let odd = "\u{feff}key: \"\\u0000\"\r\n\t# \u{4e2d}\u{6587} \u{1f600}\n";
    let contents = [
        Content::items::<&str, &str>([]),
        Content::items([("a.b/c d", odd), ("\u{4e2d}", ""), ("quote\"", "\\")]),
        Content::document(Format::Text, odd),
        Content::document(Format::Json, "{ \"a\" : 1.0 }\n"),
        Content::document(Format::Yaml, "# why\na: [1, 2]\n"),
        Content::document(Format::Toml, "# why\n\na = 1\n"),
    ];
    let mut versions = Vec::new();
    for content in &contents {
        let edit = Edit::by("\u{e4}nn\n").note("line one\nline two");
        let head = a.publish(content.clone(), &edit).await?.done()?;
        versions.push(head.main);
        let current = b.current().await?.expect("it was published");
        assert_eq!(current.content(), content);
        let made = &current.head.made;
        assert_eq!((made.by.as_str(), made.note.as_str()), ("\u{e4}nn\n", "line one\nline two"));
    }
    for (named, content) in versions.iter().zip(&contents) {
        let head = b.rollback(named.version, &ann()).await?.done()?;
        assert_eq!(head.main, *named);
        assert_eq!(a.current().await?.expect("rolled back").content(), content);
    }
    assert_eq!(a.verify().await?.broken, None);
    Ok(())
}

/// Promise: a malformed document, and an item without a name, are refused before anything is written.
async fn a_malformed_release_is_refused_and_nothing_is_half_published(cx: Arc<Cx>) -> CaseResult {
    let namespace = billing(&cx.coord().await?)?;
    let bad = [
        Content::document(Format::Json, "{\"a\": hunter2}"),
        Content::document(Format::Yaml, "a: [hunter2"),
        Content::document(Format::Toml, "a = hunter2"),
        Content::items([("", "hunter2")]),
    ];
    for round in 0..2 {
        for content in &bad {
            let error = namespace.publish(content.clone(), &ann()).await.expect_err("malformed");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        assert_eq!(namespace.releases().await?.len(), round);
        publish_rate(&namespace, "1").await?;
    }
    assert_eq!(told(&namespace).await?, ["ann publish"]);
    #[derive(Debug, serde::Deserialize)]
    struct Wrong {
        #[expect(dead_code, reason = "only its type counts")]
        rate: bool,
    }
    let error = namespace.read::<Wrong>().await.expect_err("it is no bool");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let told = error.to_string();
    assert!(told.contains("item=rate") && told.contains("/config/billing/rel/"), "{told}");
    Ok(())
}

/// Promise: a release that is too large is refused with its size and the limit, whoever sets it; nothing is written.
async fn a_release_over_the_limit_is_refused_with_the_limit(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let limits = coord.info().limits;
    let large = |bytes: usize| Content::document(Format::Text, "x".repeat(bytes));
    let store = limits.value_max_bytes.min(limits.request_max_bytes);
    for (centre, bytes, limit) in [
        (centre(&coord)?, 512 * 1024 + 1, 512 * 1024),
        (centre(&coord)?.with_release_max(1_000), 1_001, 1_000),
        (centre(&coord)?.with_release_max(usize::MAX), store + 1, store),
    ] {
        let namespace = centre.namespace("billing")?;
        let error = namespace.publish(large(bytes), &ann()).await.expect_err("too large");
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(error.to_string().contains(&format!("limit={limit}")), "{error}");
        assert!(namespace.current().await?.is_none());
    }
    let namespace = billing(&coord)?;
    namespace.publish(large(500 * 1024), &ann()).await?.done()?;
    assert_eq!(namespace.current().await?.expect("it fits").content().size(), 500 * 1024);
    Ok(())
}

/// Promise: what others wrote where our keys are is an error that names the key; it is not overwritten, and other
/// namespaces work.
async fn values_of_others_are_errors_that_name_the_key(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let centre = centre(&coord)?;
    let dir = "/config/billing";
    let first = "00000000000000000001";
    for (number, value) in
        ["", "hello", "{}", "{\"v\":2}", "{\"v\":1,\"generation\":0}", "\u{0}"].iter().enumerate()
    {
        let namespace = centre.namespace(&format!("head-{number}"))?;
        let key = format!("/config/head-{number}/live/head");
        coord.put(&key, *value).await?;
        for error in [
            namespace.current().await.map(drop).expect_err("no head"),
            namespace.publish(rate("1"), &ann()).await.map(drop).expect_err("no head"),
            namespace.verify().await.map(drop).expect_err("no head"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
            assert!(error.to_string().contains(&key), "{error}");
        }
        assert_eq!(coord.get(&key).await?.expect("it is there").value, *value);
    }
    // Where the first release, or the first entry of the log, belongs.
    for place in ["rel", "log"] {
        let namespace = centre.namespace("billing")?;
        let key = format!("{dir}/{place}/{first}");
        coord.put(&key, "mine").await?;
        let error = namespace.publish(rate("1"), &ann()).await.expect_err("in the way");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert!(error.to_string().contains(&key), "{error}");
        assert!(namespace.current().await?.is_none(), "half published");
        coord.delete(&key).await?;
    }
    let namespace = centre.namespace("billing")?;
    publish_rate(&namespace, "1").await?;
    publish_rate(&namespace, "2").await?;
    // Beside our keys others do no harm.
    coord.put(format!("{dir}/rel/readme"), "x").await?;
    coord.put(format!("{dir}/log/readme"), "x").await?;
    assert_eq!(namespace.releases().await?.len(), 2);
    // An entry of the log hides no other.
    coord.put(format!("{dir}/log/{first}"), "mine").await?;
    let history = namespace.history(10).await?;
    assert_eq!((history.entries.len(), history.unreadable.len()), (1, 1));
    assert!(history.unreadable[0].to_string().contains(first), "{:?}", history.unreadable);
    // A release that was changed is not given out, and is not rolled back to if it cannot be read.
    coord.put(format!("{dir}/rel/{first}"), "mine").await?;
    let error = namespace.rollback(ReleaseVersion::FIRST, &ann()).await.expect_err("no release");
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    assert_eq!(billing(&cx.coord().await?)?.get("rate").await?.as_deref(), Some("2"));
    Ok(())
}

/// Promise: a head that somebody has deleted is not replaced by a first generation: consumers would wait for ever.
async fn a_head_that_was_deleted_is_not_begun_anew(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let namespace = billing(&coord)?;
    publish_rate(&namespace, "1").await?;
    publish_rate(&namespace, "2").await?;
    coord.delete("/config/billing/live/head").await?;
    for namespace in [namespace, billing(&cx.coord().await?)?] {
        let error = namespace.publish(rate("3"), &ann()).await.expect_err("what was before is still there");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert!(error.to_string().contains("/config/billing/log/00000000000000000001"), "{error}");
        assert!(namespace.head().await?.is_none());
    }
    Ok(())
}

/// Promise: any text names a namespace; the names come back, and what is in one is not in another.
async fn namespaces_may_have_any_name_and_do_not_meet(cx: Arc<Cx>) -> CaseResult {
    let centre = centre(&cx.coord().await?)?;
    let mut names = ["a", "a/b", "b", "..", "100 %", "\u{4e2d}\u{6587} \u{1f600}", "live", "a%2Fb"];
    for name in names {
        centre.namespace(name)?.publish(rate(name), &ann()).await?.done()?;
    }
    for name in names {
        assert_eq!(centre.namespace(name)?.get("rate").await?.as_deref(), Some(name));
    }
    names.sort_unstable();
    assert_eq!(centre.namespaces().await?, names);
    for bad in [String::new(), "x".repeat(300)] {
        assert_eq!(centre.namespace(&bad).expect_err("no name").kind(), ErrorKind::InvalidArgument);
    }
    Ok(())
}

/// Promise: a publish that is dropped at any await point was made whole or not at all.
async fn dropping_a_publish_at_any_await_point_leaves_all_of_it_or_nothing(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let centre = centre(&coord)?;
    for polls in 1..40 {
        let namespace = centre.namespace(&format!("n-{polls}"))?;
        let first = ann().expecting(Expected::Nothing);
        let ended = drop_after(namespace.publish(rate("1"), &first), polls).await.transpose()?;
        // Whoever comes next makes the first or the second generation, and what is there fits.
        let generation = within("the next publish", publish_rate(&namespace, "2")).await??;
        assert!(generation.get() <= 2);
        let audit = namespace.verify().await?;
        assert_eq!((audit.broken, audit.entries as u64), (None, generation.get()));
        if ended.is_some() {
            // A store in memory answers at the first poll.
            break;
        }
    }
    Ok(())
}
