//! Latches, barriers and shared values, while everything works.

use std::{sync::Arc, time::Duration};

use coord_api::ErrorKind;
use coord_recipes::{CountDownLatch, SharedValue};
use futures::StreamExt;

use crate::{CaseResult, Cx, Failure, sweep::drop_after, within};

cases!("latch", needs Store:
    all_waiters_resume,
    each_count_counts_once_in_a_crowd,
    an_open_latch_stays_open,
    a_dropped_count_counts_once_or_not_at_all,
    time_outs_mean_what_they_say,
    bad_counts_and_foreign_keys_are_refused,
    a_value_changes_by_version,
    a_listener_of_a_value_hears_of_changes_only,
);

async fn latch(cx: &Cx, count: u32) -> Result<CountDownLatch, Failure> {
    Ok(CountDownLatch::new(&cx.session().await?, "/latches/x", count)?)
}

/// BB-296 (redisson#2304): a hundred wait, and all go on.
async fn all_waiters_resume(cx: Arc<Cx>) -> CaseResult {
    let (near, far) = (latch(&cx, 2).await?, latch(&cx, 2).await?);
    let waiters: Vec<_> = (0..100)
        .map(|i| {
            let latch = if i % 2 == 0 { near.clone() } else { far.clone() };
            tokio::spawn(async move { latch.wait().await })
        })
        .collect();
    assert_eq!(far.count_down().await?, 1);
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "one is missing still");
    assert_eq!(near.count_down().await?, 0);
    for waiter in waiters {
        within("every waiter", waiter).await?.expect("no panic")?;
    }
    Ok(())
}

/// Promise: as many as agreed open it, not one fewer, however they crowd.
async fn each_count_counts_once_in_a_crowd(cx: Arc<Cx>) -> CaseResult {
    let last = latch(&cx, 13).await?;
    let mut crowd = Vec::new();
    for _ in 0..12 {
        let latch = latch(&cx, 13).await?;
        crowd.push(tokio::spawn(async move { latch.count_down().await }));
    }
    let mut left = Vec::new();
    for one in crowd {
        left.push(within("the crowd", one).await?.expect("no panic")?);
    }
    left.sort_unstable();
    assert_eq!(left, (1..=12).collect::<Vec<_>>());
    assert!(!last.wait_timeout(Duration::ZERO).await?);
    assert_eq!(last.count_down().await?, 0);
    within("open", last.wait()).await??;
    Ok(())
}

/// Promise: counting down further changes nothing, and waiting later returns at once.
async fn an_open_latch_stays_open(cx: Arc<Cx>) -> CaseResult {
    let here = latch(&cx, 1).await?;
    assert_eq!(here.count().await?, 1);
    for _ in 0..3 {
        assert_eq!(here.count_down().await?, 0);
    }
    let later = latch(&cx, 1).await?;
    within("open", later.wait()).await??;
    assert!(later.wait_timeout(Duration::ZERO).await?);
    Ok(())
}

/// Promise: a count that is dropped at any await point counts once or not at all (G9).
async fn a_dropped_count_counts_once_or_not_at_all(cx: Arc<Cx>) -> CaseResult {
    let latch = latch(&cx, 1000).await?;
    let mut before = 1000;
    for polls in 1.. {
        let done = within("the count", drop_after(latch.count_down(), polls)).await?.is_some();
        // A write that was sent may be applied until another of the same handle is answered.
        let now = latch.count_down().await? + 1;
        assert!(now == before || now + 1 == before, "{before} became {now}");
        before = now - 1;
        if done {
            break;
        }
    }
    Ok(())
}

/// BB-274, BB-275: zero is one look, and short is short.
async fn time_outs_mean_what_they_say(cx: Arc<Cx>) -> CaseResult {
    let latch = latch(&cx, 1).await?;
    for timeout in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(200)] {
        let began = tokio::time::Instant::now();
        assert!(!latch.wait_timeout(timeout).await?);
        assert!(began.elapsed() >= timeout && began.elapsed() < timeout + Cx::SLACK);
    }
    latch.count_down().await?;
    assert!(within("for ever", latch.wait_timeout(Duration::MAX)).await??);
    Ok(())
}

/// Promise: a count of nothing is refused, and so is a key that holds no count of this latch; it is left as it is.
async fn bad_counts_and_foreign_keys_are_refused(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let error = CountDownLatch::new(&session, "/latches/x", 0).expect_err("nothing to count");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let latch = CountDownLatch::new(&session, "/latches/x", 3)?;
    for foreign in ["closed", "-1", "4", "9223372036854775807"] {
        session.coord().put("/latches/x", foreign).await?;
        for error in [
            latch.count_down().await.expect_err("foreign"),
            latch.count().await.expect_err("foreign"),
            within("the wait", latch.wait()).await?.expect_err("foreign"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        }
        assert_eq!(session.coord().get("/latches/x").await?.expect("there").value, foreign);
    }
    Ok(())
}

/// Promise: of two who saw the same version, one changes the value.
async fn a_value_changes_by_version(cx: Arc<Cx>) -> CaseResult {
    let (a, b) =
        (SharedValue::new(&cx.coord().await?, "/v/x")?, SharedValue::new(&cx.coord().await?, "/v/x")?);
    assert_eq!(a.get().await?, None);
    assert!(a.set_if(None, "1").await?);
    assert!(!b.set_if(None, "2").await?, "there is one now");
    let seen = b.get().await?.expect("set");
    assert_eq!(seen.value, "1");
    assert!(b.set_if(Some(seen.version), "2").await?);
    assert!(!a.set_if(Some(seen.version), "3").await?, "somebody was faster");
    a.set("4").await?;
    assert_eq!(b.get().await?.expect("set").value, "4");
    let huge = a.set(vec![0; 64 << 20]).await.expect_err("too large");
    assert_eq!(huge.kind(), ErrorKind::LimitExceeded, "{huge}");
    assert_eq!(b.get().await?.expect("set").value, "4");
    Ok(())
}

/// BB-268 (CURATOR-688), BB-269 (CURATOR-329): a listener is told the value that is there, whatever its version, and
/// then what changes; keys beside it are not its business.
async fn a_listener_of_a_value_hears_of_changes_only(cx: Arc<Cx>) -> CaseResult {
    let (coord, writer) = (cx.coord().await?, cx.coord().await?);
    writer.put("/v/x", "once").await?;
    let value = SharedValue::new(&coord, "/v/x")?;
    let mut changes = value.changes()?;
    assert_eq!(within("the value", changes.next()).await?.expect("open").expect("set").value, "once");
    writer.put("/v/beside", "").await?;
    writer.put("/v/x", "twice").await?;
    let told = within("the change", changes.next()).await?.expect("open").expect("set");
    assert_eq!(told.value, "twice");
    assert!(value.set_if(Some(told.version), "thrice").await?, "the version that is told is the one to use");
    assert_eq!(within("the change", changes.next()).await?.expect("open").expect("set").value, "thrice");
    writer.delete("/v/x").await?;
    assert_eq!(within("the deletion", changes.next()).await?, Some(None));
    Ok(())
}
