//! The config centre: gray releases.

use std::sync::Arc;

use coord_api::ErrorKind;
use coord_config_centre::{
    Alternative, Content, Edit, Edited, Format, GrayContent, Identity, Namespace, Operation, Percent,
    ReleaseVersion, Rule,
};

use super::config::{ann, billing, centre, publish_rate, rate, told};
use crate::{CaseResult, Cx, Failure, within};

cases!("config_gray", needs Store:
    main_releases_do_not_change_what_a_gray_rule_gives,
    a_gray_value_that_equals_the_main_one_is_still_gray,
    a_gray_document_is_whole_and_main_ones_pass_it_by,
    promoting_and_abandoning_are_one_generation_each,
    a_wider_rule_drops_nobody,
    a_rule_that_can_match_nothing_is_refused,
    gray_rules_and_content_of_another_kind_do_not_meet,
    rules_of_two_who_edit_at_once_are_both_there,
    an_edit_of_a_rule_that_is_gone_is_told,
    the_head_with_its_rules_stays_small,
);

fn canary() -> Rule {
    Rule::new("canary").with_label("track", "canary")
}

fn chosen() -> Identity {
    Identity::new("i-1").with_label("track", "canary")
}

async fn given(namespace: &Namespace, instance: &Identity) -> Result<Option<String>, Failure> {
    let content = namespace.content_for(instance).await?.expect("it was published");
    Ok(content.item("rate").map(str::to_owned))
}

/// Promise: what a rule sets stays as it is set, whatever is published; what it does not set shows through.
///
/// BB-230 (apollo#1677): main releases changed the gray value.
async fn main_releases_do_not_change_what_a_gray_rule_gives(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    let content = |rate: &str, zone: &str| Content::items([("rate", rate), ("zone", zone), ("limit", "9")]);
    a.publish(content("1", "eu"), &ann()).await?.done()?;
    a.set_gray(canary(), GrayContent::set([("rate", "2")]).remove("limit"), &ann()).await?.done()?;
    for (rate, zone) in [("1", "eu"), ("3", "us"), ("2", "us"), ("4", "asia")] {
        a.publish(content(rate, zone), &ann()).await?.done()?;
        let gray = b.content_for(&chosen()).await?.expect("it was published");
        assert_eq!(gray, Content::items([("rate", "2"), ("zone", zone)]));
        let main = b.content_for(&Identity::new("i-2")).await?.expect("it was published");
        assert_eq!(main, content(rate, zone));
    }
    a.rollback(ReleaseVersion::FIRST, &ann()).await?.done()?;
    assert_eq!(given(&b, &chosen()).await?.as_deref(), Some("2"));
    assert_eq!(given(&b, &Identity::new("i-2")).await?.as_deref(), Some("1"));
    Ok(())
}

/// Promise: an override is what was set and not what differs: it holds also while main happens to say the same.
///
/// BB-230 again: the gray value was lost when the main one was equal to it for a while.
async fn a_gray_value_that_equals_the_main_one_is_still_gray(cx: Arc<Cx>) -> CaseResult {
    let namespace = billing(&cx.coord().await?)?;
    publish_rate(&namespace, "2").await?;
    namespace.set_gray(canary(), GrayContent::set([("rate", "2")]), &ann()).await?.done()?;
    publish_rate(&namespace, "3").await?;
    assert_eq!(given(&namespace, &chosen()).await?.as_deref(), Some("2"));
    Ok(())
}

/// Promise: a rule over a document gives another one, whole, in its own format, whatever is published beside it.
async fn a_gray_document_is_whole_and_main_ones_pass_it_by(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    let main = |rate: u8| Content::document(Format::Toml, format!("rate = {rate}"));
    let gray = |rate: u8| Content::document(Format::Yaml, format!("rate: {rate}"));
    a.publish(main(1), &ann()).await?.done()?;
    let bad = GrayContent::whole(Content::document(Format::Json, "{"));
    let error = a.set_gray(canary(), bad, &ann()).await.expect_err("no document");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    a.set_gray(canary(), GrayContent::whole(gray(2)), &ann()).await?.done()?;
    a.publish(main(3), &ann()).await?.done()?;
    assert_eq!(b.content_for(&chosen()).await?, Some(gray(2)));
    assert_eq!(b.content_for(&Identity::new("i-2")).await?, Some(main(3)));
    // The same again is nothing new; other conditions keep the release.
    let again = b.set_gray(canary(), GrayContent::whole(gray(2)), &ann()).await?;
    assert!(matches!(again, Edited::Unchanged(_)), "{again:?}");
    let head = b.set_rule(canary().with_percent(Percent::ALL), &ann()).await?.done()?;
    assert!(matches!(&head.grays[0].change, Alternative::Release(release) if release.version.get() == 2));
    let head = a.promote("canary", &ann()).await?.done()?;
    assert_eq!((head.main.version.get(), head.newest.get()), (2, 3));
    assert_eq!(b.current().await?.expect("promoted").content(), &gray(2));
    assert_eq!(b.verify().await?.broken, None);
    Ok(())
}

/// Promise: a promotion makes the release and removes the rule in one generation, and so does abandoning without one.
async fn promoting_and_abandoning_are_one_generation_each(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    a.publish(Content::items([("rate", "1"), ("zone", "eu")]), &ann()).await?.done()?;
    let other = Rule::new("other").with_label("track", "other");
    a.set_gray(canary(), GrayContent::set([("rate", "2")]), &ann()).await?.done()?;
    a.set_gray(other.clone(), GrayContent::set([("rate", "3")]), &ann()).await?.done()?;
    let before = b.head().await?.expect("a head").generation;
    let head = b.promote("canary", &Edit::by("ben")).await?.done()?;
    assert_eq!((head.generation, head.op, head.grays.len()), (before.next(), Operation::Promote, 1));
    assert_eq!(head.grays[0].rule, other, "the other rule stays");
    let main = a.current().await?.expect("promoted");
    assert_eq!(main.content(), &Content::items([("rate", "2"), ("zone", "eu")]));
    let head = b.abandon("other", &Edit::by("ben")).await?.done()?;
    assert_eq!((head.generation, head.main, head.grays.len()), (before.next().next(), main.head.main, 0));
    let expected = ["ann publish", "ann gray", "ann gray", "ben promote", "ben abandon"];
    assert_eq!(told(&a).await?, expected);
    let history = a.history(2).await?;
    let changes: Vec<_> = history.entries.iter().filter_map(|entry| entry.gray.as_ref()).collect();
    assert!(changes.iter().all(|change| change.before.is_some() && change.after.is_none()), "{changes:?}");
    // A rule that gives what all have makes no release when it is promoted.
    a.set_gray(canary(), GrayContent::set([("rate", "2")]), &ann()).await?.done()?;
    assert_eq!(a.promote("canary", &ann()).await?.done()?.main, main.head.main);
    Ok(())
}

/// Promise: who falls under a rule still does when its percentage is raised, and a preview says so beforehand.
async fn a_wider_rule_drops_nobody(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    publish_rate(&a, "1").await?;
    let instances: Vec<_> = (0..200).map(|number| Identity::new(format!("i-{number}"))).collect();
    let rule = |percent: f64| -> Result<Rule, Failure> {
        Ok(Rule::new("wave").with_percent(Percent::new(percent)?))
    };
    a.set_gray(rule(1.0)?, GrayContent::set([("rate", "2")]), &ann()).await?.done()?;
    let mut before = Vec::new();
    for percent in [10.0, 30.0, 75.0, 100.0] {
        a.set_rule(rule(percent)?, &ann()).await?.done()?;
        let preview = b.preview(&instances).await?;
        let taken: Vec<_> = preview.instances.iter().map(|matched| matched.rule.is_some()).collect();
        assert!(before.iter().zip(&taken).all(|(before, now)| *now || !before), "dropped at {percent}");
        let count = preview.count("wave");
        assert!(count > before.iter().filter(|taken| **taken).count(), "nobody more at {percent}");
        // What the preview says is what they get.
        for (instance, taken) in instances.iter().zip(&taken).take(5) {
            let expected = if *taken { "2" } else { "1" };
            assert_eq!(given(&b, instance).await?.as_deref(), Some(expected));
        }
        before = taken;
    }
    assert!(before.iter().all(|taken| *taken));
    Ok(())
}

/// Promise: a rule that can match nothing, or gives nothing, is refused, with its id; the rules stay as they were.
async fn a_rule_that_can_match_nothing_is_refused(cx: Arc<Cx>) -> CaseResult {
    let namespace = billing(&cx.coord().await?)?;
    let gives = || GrayContent::set([("rate", "2")]);
    let early = namespace.set_gray(canary(), gives(), &ann()).await.expect_err("nothing was published");
    assert_eq!(early.kind(), ErrorKind::NotFound, "{early}");
    publish_rate(&namespace, "1").await?;
    namespace.set_gray(canary(), gives(), &ann()).await?.done()?;
    let before = namespace.head().await?;
    for (rule, gives) in [
        (Rule::new("bad"), gives()),
        (Rule::new("bad").with_labels("zone", Vec::<String>::new()), gives()),
        (Rule::new("bad").with_label("track", "canary").with_priority(101), gives()),
        (Rule::new("bad").with_label("zone", "x"), GrayContent::set::<&str, &str>([])),
        (Rule::new("bad").with_label("zone", "x"), GrayContent::set([("", "x")])),
    ] {
        let error = namespace.set_gray(rule, gives, &ann()).await.expect_err("it can match nothing");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("rule=bad"), "{error}");
    }
    // A rule that would leave nothing to a later one.
    let error = namespace.set_gray(Rule::new("a").with_percent(Percent::ALL), gives(), &ann()).await;
    assert!(error.is_err_and(|error| error.to_string().contains("rule=canary")));
    assert_eq!(namespace.head().await?, before);
    Ok(())
}

/// Promise: gray items over a document, and a document over items, are refused, in whichever order they come.
async fn gray_rules_and_content_of_another_kind_do_not_meet(cx: Arc<Cx>) -> CaseResult {
    let centre = centre(&cx.coord().await?)?;
    let document = || Content::document(Format::Json, "1");
    let (items, documents) = (centre.namespace("items")?, centre.namespace("documents")?);
    publish_rate(&items, "1").await?;
    documents.publish(document(), &ann()).await?.done()?;
    let refused = |edited: coord_api::Result<Edited>| {
        let error = edited.expect_err("of another kind");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("rule=canary"), "{error}");
    };
    refused(items.set_gray(canary(), GrayContent::whole(document()), &ann()).await);
    refused(documents.set_gray(canary(), GrayContent::set([("rate", "2")]), &ann()).await);
    items.set_gray(canary(), GrayContent::set([("rate", "2")]), &ann()).await?.done()?;
    let other = Content::document(Format::Json, "2");
    documents.set_gray(canary(), GrayContent::whole(other), &ann()).await?.done()?;
    refused(items.publish(document(), &ann()).await);
    refused(documents.publish(rate("1"), &ann()).await);
    // Nor by going back to a time before.
    items.abandon("canary", &ann()).await?.done()?;
    items.publish(document(), &ann()).await?.done()?;
    let other = Content::document(Format::Json, "3");
    items.set_gray(canary(), GrayContent::whole(other), &ann()).await?.done()?;
    refused(items.rollback(ReleaseVersion::FIRST, &ann()).await);
    Ok(())
}

/// Promise: two who add rules at the same time do not undo each other's, and a publish keeps them both.
async fn rules_of_two_who_edit_at_once_are_both_there(cx: Arc<Cx>) -> CaseResult {
    const EDITORS: usize = 5;
    let namespace = billing(&cx.coord().await?)?;
    publish_rate(&namespace, "1").await?;
    let mut editors = Vec::new();
    for editor in 0..EDITORS {
        let namespace = billing(&cx.coord().await?)?;
        editors.push(tokio::spawn(async move {
            let rule = Rule::new(format!("rule-{editor}")).with_label("track", format!("{editor}"));
            let gives = GrayContent::set([("rate", format!("gray {editor}"))]);
            namespace.set_gray(rule, gives, &ann()).await?.done()?;
            namespace.publish(rate(&format!("main {editor}")), &ann()).await?.done()
        }));
    }
    for editor in editors {
        within("edited", editor).await?.expect("no panic")?;
    }
    for editor in 0..EDITORS {
        let instance = Identity::new("i").with_label("track", format!("{editor}"));
        assert_eq!(given(&namespace, &instance).await?, Some(format!("gray {editor}")));
    }
    assert_eq!(told(&namespace).await?.len(), 1 + 2 * EDITORS);
    Ok(())
}

/// Promise: widening, promoting or abandoning a rule that is not there is an error that names it.
async fn an_edit_of_a_rule_that_is_gone_is_told(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    publish_rate(&a, "1").await?;
    a.set_gray(canary(), GrayContent::set([("rate", "2")]), &ann()).await?.done()?;
    b.abandon("canary", &ann()).await?.done()?;
    // The first handle still believes that the rule is there.
    for edited in [
        a.set_rule(canary(), &ann()).await,
        a.promote("canary", &ann()).await,
        a.abandon("canary", &ann()).await,
    ] {
        let error = edited.expect_err("it is gone");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(
            error.to_string().contains("rule=canary") && error.to_string().contains("/live/head"),
            "{error}"
        );
    }
    assert_eq!(a.get("rate").await?.as_deref(), Some("1"));
    Ok(())
}

/// Promise: overrides that would make the head large are refused with the limit.
async fn the_head_with_its_rules_stays_small(cx: Arc<Cx>) -> CaseResult {
    let namespace = billing(&cx.coord().await?)?;
    publish_rate(&namespace, "1").await?;
    let gives = GrayContent::set([("rate", "x".repeat(64 * 1024))]);
    let error = namespace.set_gray(canary(), gives, &ann()).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("limit=65536"), "{error}");
    assert!(namespace.head().await?.expect("a head").grays.is_empty());
    Ok(())
}
