//! The config centre: history, rollback, retention, audit.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, ErrorKind};
use coord_config_centre::{
    Content, Diff, Edit, Edited, Format, Generation, GrayContent, Namespace, Operation, ReleaseVersion,
    Retention, Rule,
};

use super::config::{ann, billing, centre, publish_rate, rate, told};
use crate::{CaseResult, Cx, Failure, eventually, within};

cases!("config_history", needs Store:
    a_rollback_goes_to_any_release_and_forward_again,
    a_release_that_was_collected_is_named,
    the_history_says_from_where_to_where,
    any_two_releases_can_be_compared,
    what_is_pointed_at_is_never_collected,
    publishers_collect_by_themselves,
    what_is_young_is_kept_beyond_the_count,
    what_is_old_goes_while_somebody_never_stops_publishing,
    a_rollback_beside_a_collection_points_at_what_is_there,
    many_who_collect_and_publish_break_nothing,
    an_audit_finds_whatever_was_changed,
    an_audit_does_not_miss_what_retention_removed,
);

async fn publish_many(namespace: &Namespace, rates: std::ops::RangeInclusive<u64>) -> CaseResult {
    for number in rates {
        publish_rate(namespace, &number.to_string()).await?;
    }
    Ok(())
}

fn keeping(coord: &Coord, retention: Retention) -> Result<Namespace, Failure> {
    Ok(centre(coord)?.with_retention(retention).namespace("billing")?)
}

fn versions(numbers: &[u64]) -> Vec<ReleaseVersion> {
    numbers.iter().copied().map(ReleaseVersion::new).collect()
}

/// Promise: a rollback takes effect at once and is a new generation; the way forward is the same call.
async fn a_rollback_goes_to_any_release_and_forward_again(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    publish_many(&a, 1..=4).await?;
    for (generation, version) in [(5, 1), (6, 3), (7, 4), (8, 2)] {
        let head = b.rollback(ReleaseVersion::new(version), &ann()).await?.done()?;
        assert_eq!((head.generation.get(), head.op), (generation, Operation::Rollback));
        assert_eq!(a.get("rate").await?, Some(version.to_string()));
    }
    let same = a.rollback(ReleaseVersion::new(2), &ann()).await?;
    assert!(matches!(same, Edited::Unchanged(_)), "{same:?}");
    // What is published next is a release of its own, and begins with the one that is in force.
    let head = a.publish(rate("5"), &ann()).await?.done()?;
    assert_eq!((head.main.version.get(), head.newest.get()), (5, 5));
    assert_eq!(a.release(head.main.version).await?.parent, Some(ReleaseVersion::new(2)));
    let wrong = a.rollback(ReleaseVersion::FIRST, &ann().expecting(Generation::new(3))).await?;
    assert!(matches!(wrong, Edited::Conflict(_)), "{wrong:?}");
    assert_eq!(b.verify().await?.broken, None);
    Ok(())
}

/// Promise: going back to a release that was collected, or never made, is an error with its key; nothing changes.
async fn a_release_that_was_collected_is_named(cx: Arc<Cx>) -> CaseResult {
    let namespace = keeping(&cx.coord().await?, Retention::default().with_releases(2))?;
    publish_many(&namespace, 1..=4).await?;
    namespace.collect().await?;
    for version in [1, 99] {
        let version = ReleaseVersion::new(version);
        for error in [
            namespace.rollback(version, &ann()).await.map(drop).expect_err("it is not there"),
            namespace.release(version).await.map(drop).expect_err("it is not there"),
            namespace.diff(version, ReleaseVersion::new(4)).await.map(drop).expect_err("it is not there"),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(error.to_string().contains(&format!("/config/billing/rel/{version:020}")), "{error}");
        }
    }
    assert_eq!(namespace.head().await?.expect("a head").generation.get(), 4);
    Ok(())
}

/// Promise: every generation says who made it, when and why, and which release it leads from and to.
async fn the_history_says_from_where_to_where(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    assert!(a.history(10).await?.entries.is_empty());
    publish_many(&a, 1..=2).await?;
    let edit = Edit::by("ben").note("too fast");
    b.rollback(ReleaseVersion::FIRST, &edit).await?.done()?;
    let entries = a.history(10).await?.entries;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| (entry.generation.get(), entry.from.map(ReleaseVersion::get), entry.to.version.get()))
        .collect();
    assert_eq!(told, [(3, Some(2), 1), (2, Some(1), 2), (1, None, 1)]);
    assert_eq!((entries[0].made.by.as_str(), entries[0].made.note.as_str()), ("ben", "too fast"));
    assert!(entries.iter().all(|entry| entry.made.at.as_millis() > 1_600_000_000_000), "{entries:?}");
    assert_eq!(a.history(2).await?.entries, entries[..2]);
    assert!(a.history(0).await?.entries.is_empty());
    Ok(())
}

/// Promise: what leads from one release to another is told, of any two and in either direction.
async fn any_two_releases_can_be_compared(cx: Arc<Cx>) -> CaseResult {
    let namespace = billing(&cx.coord().await?)?;
    let contents = [
        Content::items([("a", "1"), ("b", "1")]),
        Content::items([("b", "2"), ("c", "")]),
        Content::document(Format::Text, "one\ntwo\n"),
        Content::document(Format::Text, "one\nthree\n"),
    ];
    for content in &contents {
        namespace.publish(content.clone(), &ann()).await?.done()?;
    }
    for (from, one) in (1..).zip(&contents) {
        for (to, other) in (1..).zip(&contents) {
            let diff = namespace.diff(ReleaseVersion::new(from), ReleaseVersion::new(to)).await?;
            assert_eq!(diff, Diff::between(one, other));
            assert_eq!(diff.is_empty(), from == to);
        }
    }
    let Diff::Items(items) = namespace.diff(ReleaseVersion::new(1), ReleaseVersion::new(2)).await? else {
        panic!("both are items")
    };
    let told: Vec<_> =
        items.iter().map(|item| (item.key.as_str(), item.before.as_deref(), item.after.as_deref())).collect();
    assert_eq!(told, [("a", Some("1"), None), ("b", Some("1"), Some("2")), ("c", None, Some(""))]);
    Ok(())
}

/// Promise: retention removes the oldest, and never what the head or a gray rule points at.
async fn what_is_pointed_at_is_never_collected(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (all, few) = (billing(&coord)?, keeping(&coord, Retention::default().with_releases(2).with_log(3))?);
    let document = |number: u64| Content::document(Format::Json, number.to_string());
    for number in 1..=3 {
        all.publish(document(number), &ann()).await?.done()?;
    }
    let rule = Rule::new("canary").with_label("track", "canary");
    all.set_gray(rule, GrayContent::whole(document(4)), &ann()).await?.done()?;
    for number in 5..=8 {
        all.publish(document(number), &ann()).await?.done()?;
    }
    all.rollback(ReleaseVersion::new(2), &ann()).await?.done()?;
    let collected = few.collect().await?;
    assert_eq!((collected.releases, collected.entries), (4, 6));
    assert_eq!(few.releases().await?, versions(&[8, 7, 4, 2]));
    assert_eq!(few.collect().await?, Default::default(), "nothing more");
    assert_eq!(few.history(100).await?.entries.len(), 3);
    assert_eq!(few.current().await?.expect("a release").content(), &document(2));
    assert_eq!(few.verify().await?.broken, None);
    // Once nothing points at it any more, it goes.
    all.abandon("canary", &ann()).await?.done()?;
    all.rollback(ReleaseVersion::new(8), &ann()).await?.done()?;
    assert_eq!(few.collect().await?.releases, 2);
    assert_eq!(few.releases().await?, versions(&[8, 7]));
    assert_eq!(few.verify().await?.broken, None);
    Ok(())
}

/// Promise: nobody has to ask: those who publish remove what is too old.
async fn publishers_collect_by_themselves(cx: Arc<Cx>) -> CaseResult {
    let namespace = keeping(&cx.coord().await?, Retention::default().with_releases(5).with_log(8))?;
    publish_many(&namespace, 1..=20).await?;
    let counts = async || -> Result<_, Failure> {
        Ok((namespace.releases().await?.len(), namespace.history(100).await?.entries.len()))
    };
    eventually("collected", || async { Ok(counts().await? == (5, 8)) }).await?;
    assert_eq!(namespace.get("rate").await?.as_deref(), Some("20"));
    assert_eq!(namespace.verify().await?.broken, None);
    Ok(())
}

/// Promise: with an age, what is younger is kept, however much it is.
async fn what_is_young_is_kept_beyond_the_count(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let few = Retention::default().with_releases(1).with_log(1);
    let young = keeping(&coord, few.with_within(Duration::from_secs(3_600)))?;
    publish_many(&young, 1..=6).await?;
    assert_eq!(young.collect().await?, Default::default());
    assert_eq!((young.releases().await?.len(), young.history(100).await?.entries.len()), (6, 6));
    let old = keeping(&coord, few.with_within(Duration::ZERO))?;
    // Made in this very millisecond, they are not older than nothing yet.
    let collect = async || -> Result<_, Failure> {
        old.collect().await?;
        Ok(old.releases().await?.len() == 1 && old.history(100).await?.entries.len() == 1)
    };
    eventually("all of them are older than nothing", || async { collect().await }).await?;
    assert_eq!(old.verify().await?.broken, None);
    Ok(())
}

/// Promise: retention comes to its end while others publish and never pause.
async fn what_is_old_goes_while_somebody_never_stops_publishing(cx: Arc<Cx>) -> CaseResult {
    let few = keeping(&cx.coord().await?, Retention::default().with_releases(5).with_log(5))?;
    publish_many(&hoarding(&cx).await?, 1..=20).await?;
    let mut crowd = Vec::new();
    for publisher in 0..2 {
        let namespace = hoarding(&cx).await?;
        crowd.push(tokio::spawn(async move {
            for number in 0_u64.. {
                publish_rate(&namespace, &format!("{publisher}-{number}")).await?;
                // In memory nothing in it waits: neither would others run, nor would it end when it is told to.
                tokio::task::yield_now().await;
            }
            Ok::<_, Failure>(())
        }));
    }
    let newest =
        async || -> Result<u64, Failure> { Ok(few.head().await?.map_or(0, |head| head.newest.get())) };
    eventually("they publish", || async { Ok(newest().await? > 20) }).await?;
    let collected = within("collected", few.collect()).await??;
    assert!((collected.releases, collected.entries) >= (15, 15), "{collected:?}");
    let oldest = few.releases().await?.last().copied();
    assert!(oldest > Some(ReleaseVersion::new(15)), "{oldest:?} is left");
    let then = newest().await?;
    eventually("they publish still", || async { Ok(newest().await? > then) }).await?;
    for publisher in &crowd {
        publisher.abort();
    }
    assert_eq!(few.verify().await?.broken, None);
    Ok(())
}

/// A handle that removes nothing in this case.
async fn hoarding(cx: &Cx) -> Result<Namespace, Failure> {
    keeping(&cx.coord().await?, Retention::default().with_releases(100_000).with_log(100_000))
}

/// Promise: of a rollback and a collection of the same release one comes first, and the other takes it as it is.
async fn a_rollback_beside_a_collection_points_at_what_is_there(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let few = keeping(&cx.coord().await?, Retention::default().with_releases(2).with_log(2))?;
    let all = billing(&coord)?;
    for round in 0..20_u64 {
        publish_many(&all, round * 3 + 1..=round * 3 + 3).await?;
        let old = ReleaseVersion::new(round * 3 + 1);
        let back = {
            let all = all.clone();
            tokio::spawn(async move { all.rollback(old, &ann()).await })
        };
        within("collected", few.collect()).await??;
        let there = match within("ends", back).await?.expect("no panic") {
            Ok(edited) => edited.done()?.main.version == old,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error.into()),
        };
        // A handle that has read no release yet.
        let current = billing(&coord)?.current().await?.expect("a release");
        assert_eq!(current.release.version == old, there, "round {round}");
        few.collect().await?;
        assert_eq!(few.releases().await?.contains(&old), there, "round {round}");
        assert_eq!(few.verify().await?.broken, None, "round {round}");
    }
    Ok(())
}

/// Promise: retention at work beside publishers and rollbacks loses no release that is in force.
async fn many_who_collect_and_publish_break_nothing(cx: Arc<Cx>) -> CaseResult {
    const ROUNDS: u64 = 15;
    let mut crowd = Vec::new();
    for author in 0..3 {
        let namespace = keeping(&cx.coord().await?, Retention::default().with_releases(3).with_log(4))?;
        crowd.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                namespace.publish(rate(&format!("{author}-{round}")), &ann()).await?.done()?;
                let oldest = namespace.releases().await?.last().copied().unwrap_or(ReleaseVersion::FIRST);
                match namespace.rollback(oldest, &ann()).await {
                    Ok(edited) => drop(edited),
                    // Somebody else has just collected it.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
                namespace.collect().await?;
                namespace.current().await?;
            }
            Ok::<_, coord_api::Error>(namespace)
        }));
    }
    let mut kept = Vec::new();
    for one in crowd {
        kept.push(within("published", one).await?.expect("no panic")?);
    }
    kept[0].collect().await?;
    assert_eq!(kept[0].verify().await?.broken, None);
    let left = kept[0].releases().await?.len();
    assert!((3..=4).contains(&left), "{left} releases");
    Ok(())
}

/// Promise: a release, an entry of the log or a head that somebody changed, or removed, is found and named.
async fn an_audit_finds_whatever_was_changed(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let namespace = billing(&coord)?;
    assert_eq!((namespace.verify().await?.last, namespace.verify().await?.broken), (None, None));
    publish_many(&namespace, 1..=4).await?;
    namespace.rollback(ReleaseVersion::new(2), &ann()).await?.done()?;
    let sound = namespace.verify().await?;
    assert_eq!((sound.entries, sound.releases, sound.last), (5, 4, Some(Generation::new(5))));
    assert_eq!(sound.broken, None);

    let key = |name: &str, number: u64| format!("/config/billing/{name}/{number:020}");
    let text = async |key: &str| -> Result<String, Failure> {
        let entry = coord.get(key).await?.expect("it is there");
        Ok(String::from_utf8_lossy(&entry.value).into_owned())
    };
    let head = "/config/billing/live/head".to_owned();
    let forged_author = text(&key("log", 2)).await?.replace("\"ann\"", "\"eve\"");
    let forged_rate = text(&key("rel", 3)).await?.replace("\"3\"", "\"4\"");
    let forged_head =
        text(&head).await?.replace("\"ann\"", "\"eve\"").replace("\"generation\":5", "\"generation\":4");
    let other_release = text(&key("rel", 4)).await?;
    for (changed, value, found) in [
        // The entry after the one that was changed does not follow it any more.
        (key("log", 2), Some(forged_author.as_str()), key("log", 3)),
        (key("log", 4), Some("mine"), key("log", 4)),
        (key("log", 1), None, key("log", 1)),
        (key("log", 5), None, key("log", 5)),
        (key("rel", 3), Some(forged_rate.as_str()), key("rel", 3)),
        (key("rel", 3), Some(other_release.as_str()), key("rel", 3)),
        (key("rel", 1), None, key("rel", 1)),
        (head.clone(), Some(forged_head.as_str()), head.clone()),
    ] {
        let before = text(&changed).await?;
        match value {
            Some(value) => {
                assert_ne!(value, before, "nothing was forged");
                coord.put(&changed, value.to_owned()).await?;
            }
            None => assert!(coord.delete(&changed).await?),
        }
        let broken = namespace.verify().await?.broken.expect("something was changed");
        assert_eq!(broken.key.as_str(), found, "{changed}: {}", broken.why);
        coord.put(&changed, before).await?;
        assert_eq!(namespace.verify().await?, sound);
    }
    // The last entry was rewritten: the head does not fit.
    let forged = text(&key("log", 5)).await?.replace("\"ann\"", "\"eve\"");
    coord.put(key("log", 5), forged).await?;
    assert_eq!(namespace.verify().await?.broken.expect("changed").key.as_str(), head);
    Ok(())
}

/// Promise: after retention the chain begins at the anchor, and is as tight as before.
async fn an_audit_does_not_miss_what_retention_removed(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let namespace = keeping(&coord, Retention::default().with_releases(2).with_log(3))?;
    publish_many(&namespace, 1..=8).await?;
    namespace.collect().await?;
    let sound = namespace.verify().await?;
    assert_eq!((sound.first.get(), sound.entries, sound.releases), (6, 3, 2));
    assert_eq!(sound.broken, None);
    assert_eq!(told(&namespace).await?.len(), 3);
    // One more is removed than retention did.
    let key = "/config/billing/log/00000000000000000006";
    let before = coord.get(key).await?.expect("it is there").value;
    coord.delete(key).await?;
    assert_eq!(namespace.verify().await?.broken.expect("missing").key.as_str(), key);
    // An entry that says that something else came before it.
    let forged =
        String::from_utf8_lossy(&before).replace("\"previous_sha256\":\"", "\"previous_sha256\":\"0");
    coord.put(key, forged).await?;
    assert_eq!(namespace.verify().await?.broken.expect("changed").key.as_str(), key);
    coord.put(key, before).await?;
    assert_eq!(namespace.verify().await?, sound);
    coord.delete("/config/billing/rel/00000000000000000007").await?;
    let broken = namespace.verify().await?.broken.expect("missing");
    assert_eq!(broken.key.as_str(), "/config/billing/rel/00000000000000000007");
    Ok(())
}
