//! The config centre: publishing while links fail.

use std::sync::Arc;

use coord_api::{Error, ErrorKind, Outcome};
use coord_config_centre::{
    Edit, Edited, Generation, GrayContent, Namespace, Operation, ReleaseVersion, Retention, Rule, Saved,
};

use super::config::{ann, billing, centre, publish_rate, rate, told};
use crate::{CaseResult, Cx, Failure, eventually, within};

cases!("config_faults", needs Link:
    a_publish_whose_reply_is_lost_is_made_once_and_no_error,
    every_change_whose_reply_is_lost_is_made_once,
    a_lost_race_after_a_lost_reply_is_a_conflict,
    lost_replies_among_many_publishers_double_nothing,
    a_publisher_that_is_cut_off_says_that_it_does_not_know,
    a_draft_whose_reply_is_lost_is_saved_once,
    retention_goes_on_after_a_lost_reply,
);

/// More replies than any of the changes waits for.
const REPLIES: u64 = 5;

/// Waits until the link works again, also for what goes on in the background.
async fn works(client: &crate::Client) -> CaseResult {
    eventually("the link works", || async { Ok(client.coord.get("/other").await.is_ok()) }).await
}

/// Promise: whichever reply is lost, a publish is made once, and one that is made is no error.
async fn a_publish_whose_reply_is_lost_is_made_once_and_no_error(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (namespace, truth) = (billing(&a.coord)?, billing(&b.coord)?);
    let mut generation = Generation::default();
    for nth in 1..=REPLIES {
        // One that expects anything, one that expects what is there, and one by a handle that has seen nothing.
        for (namespace, expects) in [(&namespace, false), (&namespace, true), (&billing(&a.coord)?, true)] {
            let value = format!("{nth}-{generation}");
            let edit = if expects && generation > Generation::default() {
                ann().expecting(generation)
            } else {
                ann()
            };
            a.link.lose_reply(nth).await?;
            let what = format!("publish with reply {nth} lost");
            let head = within(&what, namespace.publish(rate(&value), &edit)).await??.done()?;
            generation = generation.next();
            assert_eq!(head.generation, generation, "reply {nth} lost");
            let current = truth.current().await?.expect("it was published");
            assert_eq!((current.generation(), current.content()), (generation, &rate(&value)));
            assert_eq!(current.head, head, "what was told is what is there");
            works(&a).await?;
        }
    }
    assert_eq!(told(&truth).await?.len() as u64, generation.get());
    assert_eq!(truth.releases().await?.len() as u64, generation.get(), "no release that nothing points at");
    assert_eq!(truth.verify().await?.broken, None);
    Ok(())
}

/// Promise: the same for rollbacks, gray rules, promotions and drafts that are published.
async fn every_change_whose_reply_is_lost_is_made_once(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (namespace, truth) = (billing(&a.coord)?, billing(&b.coord)?);
    publish_rate(&namespace, "1").await?;
    publish_rate(&namespace, "2").await?;
    let rule = || Rule::new("canary").with_label("track", "canary");
    for nth in 1..=REPLIES {
        let before = truth.head().await?.expect("a head");
        let target = ReleaseVersion::new(if before.main.version.get() == 1 { 2 } else { 1 });
        let gray = GrayContent::set([("rate", format!("gray {nth}"))]);
        let mut generation = before.generation;
        for step in 0..5 {
            let draft = match step {
                4 => Some(truth.save_draft(rate(&format!("draft {nth}")), None, &ann()).await?.done()?),
                _ => None,
            };
            a.link.lose_reply(nth).await?;
            let change = async {
                match (step, draft) {
                    (0, _) => namespace.rollback(target, &ann()).await,
                    (1, _) => namespace.set_gray(rule(), gray.clone(), &ann()).await,
                    (2, _) => namespace.promote("canary", &ann()).await,
                    (3, _) => namespace.rollback(target, &ann()).await,
                    (_, Some(draft)) => namespace.publish_draft(&draft, &ann()).await,
                    (_, None) => Err(Error::invalid("no draft")),
                }
            };
            let edited = within(&format!("step {step}, reply {nth} lost"), Box::pin(change)).await??;
            assert!(matches!(edited, Edited::Done(_)), "step {step}, reply {nth} lost: {edited:?}");
            generation = generation.next();
            assert_eq!(truth.head().await?, Some(edited.done()?), "step {step}, reply {nth} lost");
            works(&a).await?;
        }
        assert_eq!(truth.head().await?.expect("a head").generation, generation);
        assert_eq!(truth.draft().await?, None);
    }
    assert_eq!(truth.verify().await?.broken, None);
    Ok(())
}

/// Promise: a publish that was not applied, and whose place somebody else took, is a conflict and nothing worse.
async fn a_lost_race_after_a_lost_reply_is_a_conflict(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (one, other) = (billing(&a.coord)?, billing(&b.coord)?);
    let mut seen = publish_rate(&one, "0").await?;
    for nth in 1..=REPLIES {
        // The first believes that it has seen the current head.
        let now = other.publish(rate(&format!("b{nth}")), &Edit::by("ben")).await?.done()?;
        a.link.lose_reply(nth).await?;
        let edit = ann().expecting(seen);
        let edited = within("refused", one.publish(rate(&format!("a{nth}")), &edit)).await??;
        let Edited::Conflict(conflict) = edited else { panic!("reply {nth} lost: {edited:?}") };
        assert_eq!(conflict.current, Some(now.clone()));
        works(&a).await?;
        seen = one.head().await?.expect("a head").generation;
        assert_eq!(seen, now.generation);
    }
    Ok(())
}

/// Promise: while many publish and replies are lost, every publish that was acknowledged is there once, and an ambiguous
/// one at most once.
async fn lost_replies_among_many_publishers_double_nothing(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let mut crowd = Vec::new();
    for publisher in 0..4_u64 {
        let client = cx.client(&rig).await?;
        let namespace = billing(&client.coord)?;
        crowd.push(tokio::spawn(async move {
            let (mut sure, mut unknown) = (Vec::new(), Vec::new());
            for round in 0..6 {
                if round % 2 == 1 {
                    client.link.lose_reply(1 + publisher % 3).await.ok();
                }
                let value = format!("{publisher}-{round}");
                match namespace.publish(rate(&value), &Edit::by(&value)).await.and_then(Edited::done) {
                    Ok(head) => sure.push((value, head.generation)),
                    Err(error) if error.outcome() == Outcome::Unknown => unknown.push(value),
                    // Its look at the head was lost before it sent anything.
                    Err(error) if error.kind() == ErrorKind::Unavailable => {}
                    Err(error) => return Err(error),
                }
            }
            Ok((sure, unknown, client))
        }));
    }
    let truth_client = cx.client(&rig).await?;
    let truth = billing(&truth_client.coord)?;
    let (mut sure, mut unknown) = (Vec::new(), Vec::new());
    let mut clients = Vec::new();
    for publisher in crowd {
        let (s, u, client) = within("published", publisher).await?.expect("no panic")?;
        sure.extend(s);
        unknown.extend(u);
        clients.push(client);
    }
    let entries = truth.history(1_000).await?.entries;
    for (value, generation) in &sure {
        let made: Vec<_> = entries.iter().filter(|entry| entry.made.by == *value).collect();
        assert_eq!(made.len(), 1, "{value} was published {} times", made.len());
        assert_eq!(made[0].generation, *generation, "{value}");
    }
    for value in &unknown {
        let made = entries.iter().filter(|entry| entry.made.by == *value).count();
        assert!(made <= 1, "{value} was published {made} times");
    }
    assert!(sure.len() > 12, "only {} were acknowledged", sure.len());
    assert_eq!(truth.verify().await?.broken, None);
    Ok(())
}

/// Promise: a publish behind a cut ends within its patience and says what is known; it is there once or not at all.
async fn a_publisher_that_is_cut_off_says_that_it_does_not_know(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let namespace = centre(&a.coord)?.with_patience(Cx::SHORT).namespace("billing")?;
    let truth = billing(&b.coord)?;
    let first = publish_rate(&namespace, "1").await?;
    a.link.blackhole().await;
    // What it saw last is there still, so it sends at once.
    let error = within("ends", namespace.publish(rate("2"), &ann())).await?.expect_err("nobody answers");
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error}");
    a.link.heal().await;
    works(&a).await?;
    let generation = within("published", publish_rate(&namespace, "3")).await??;
    let entries = told(&truth).await?;
    assert_eq!(entries.len() as u64, generation.get());
    assert!(generation <= first.next().next(), "published twice");
    if error.outcome() == Outcome::NotApplied {
        assert_eq!(generation, first.next(), "it said that nothing was applied");
    }
    assert_eq!(truth.verify().await?.broken, None);
    Ok(())
}

/// Promise: whichever reply is lost, a draft is saved once and what is told is what is there.
async fn a_draft_whose_reply_is_lost_is_saved_once(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (namespace, truth) = (billing(&a.coord)?, billing(&b.coord)?);
    let mut seen = None;
    for nth in 1..=REPLIES {
        for round in 0..2 {
            a.link.lose_reply(nth).await?;
            let content = rate(&format!("{nth}-{round}"));
            let edit = ann();
            let saving = namespace.save_draft(content.clone(), seen.as_ref(), &edit);
            let saved = within(&format!("saved with reply {nth} lost"), saving).await??;
            let Saved::Done(draft) = saved else { panic!("reply {nth} lost: {saved:?}") };
            assert_eq!(draft.content, content);
            assert_eq!(truth.draft().await?, Some(draft.clone()));
            seen = Some(draft);
            works(&a).await?;
        }
    }
    Ok(())
}

/// Promise: a lost reply neither stops retention nor breaks the chain.
async fn retention_goes_on_after_a_lost_reply(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let truth = billing(&b.coord)?;
    let few = Retention::default().with_releases(2).with_log(3);
    let namespace: Namespace = centre(&a.coord)?.with_retention(few).namespace("billing")?;
    for nth in 1..=8 {
        for number in 0..4 {
            publish_rate(&truth, &format!("{nth}-{number}")).await?;
        }
        a.link.lose_reply(nth).await?;
        // It may fail; asked again, it goes on from where it was.
        let _ = within("collects", namespace.collect()).await?;
        works(&a).await?;
        let collected = async || -> Result<_, Failure> {
            namespace.collect().await?;
            Ok((truth.releases().await?.len(), truth.history(100).await?.entries.len()) == (2, 3))
        };
        eventually("collected", || async { collected().await }).await?;
        assert_eq!(truth.verify().await?.broken, None, "reply {nth} lost");
    }
    let last = truth.history(1).await?.entries;
    assert_eq!((last[0].op, last[0].generation.get()), (Operation::Publish, 32));
    Ok(())
}
