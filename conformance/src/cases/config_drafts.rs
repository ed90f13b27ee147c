//! The config centre: drafts.

use std::sync::Arc;

use coord_api::ErrorKind;
use coord_config_centre::{Edit, Edited, Expected, Generation, ReleaseVersion, Saved};

use super::config::{ann, billing, publish_rate, rate};
use crate::{CaseResult, Cx};

cases!("config_drafts", needs Store:
    a_draft_is_saved_over_what_was_seen,
    a_draft_is_published_and_gone_at_once,
);

/// Promise: a draft is saved by those who have seen the last one; consumers see nothing of it, and no rollback touches it.
async fn a_draft_is_saved_over_what_was_seen(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    publish_rate(&a, "1").await?;
    let first = a.save_draft(rate("draft 1"), None, &ann()).await?.done()?;
    assert_eq!(first.base, Some(Generation::FIRST));
    let second = b.save_draft(rate("draft 2"), Some(&first), &Edit::by("ben")).await?.done()?;
    for seen in [None, Some(&first)] {
        let saved = a.save_draft(rate("draft 3"), seen, &ann()).await?;
        assert_eq!(saved, Saved::Conflict(Some(second.clone())));
        assert!(saved.done().is_err_and(|error| error.to_string().contains("by=ben")));
    }
    publish_rate(&a, "2").await?;
    a.rollback(ReleaseVersion::FIRST, &ann()).await?.done()?;
    assert_eq!(a.draft().await?, Some(second.clone()));
    assert_eq!(a.get("rate").await?.as_deref(), Some("1"));

    assert!(!a.discard_draft(&first, &ann()).await?, "it is another by now");
    assert!(a.discard_draft(&second, &ann()).await?);
    assert_eq!(b.draft().await?, None);
    assert_eq!(b.save_draft(rate("x"), Some(&second), &ann()).await?, Saved::Conflict(None));
    // A new one is not taken for one of before.
    let third = b.save_draft(rate("draft 4"), None, &ann()).await?.done()?;
    assert!(!a.discard_draft(&second, &ann()).await?);
    assert_eq!(a.draft().await?, Some(third));
    Ok(())
}

/// Promise: a draft is published as it was seen, and gone in the same moment; one that was changed is neither.
async fn a_draft_is_published_and_gone_at_once(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (billing(&cx.coord().await?)?, billing(&cx.coord().await?)?);
    let first = a.save_draft(rate("1"), None, &ann()).await?.done()?;
    let second = b.save_draft(rate("2"), Some(&first), &ann()).await?.done()?;
    let error = a.publish_draft(&first, &ann()).await.expect_err("it was changed");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("/config/billing/draft"), "{error}");
    assert!(a.current().await?.is_none());
    a.publish_draft(&second, &ann().expecting(Expected::Nothing)).await?.done()?;
    assert_eq!((b.get("rate").await?.as_deref(), b.draft().await?), (Some("2"), None));
    // Somebody publishes while a draft is worked on: its base tells.
    let draft = a.save_draft(rate("3"), None, &ann()).await?.done()?;
    publish_rate(&b, "4").await?;
    let edit = ann().expecting(draft.base.expect("it was begun from a generation"));
    assert!(matches!(a.publish_draft(&draft, &edit).await?, Edited::Conflict(_)));
    assert_eq!(b.draft().await?, Some(draft));
    Ok(())
}
