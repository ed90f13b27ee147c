//! Counters, ids and latches while links fail.

use std::sync::Arc;

use coord_api::{ErrorKind, Outcome};
use coord_recipes::{CountDownLatch, Counter, IdGenerator};

use crate::{CaseResult, Cx, within};

cases!("counter_faults", needs Link:
    a_lost_reply_counts_once,
    lost_replies_in_a_crowd_count_once,
    a_change_behind_a_cut_ends_with_the_session,
    a_latch_counts_a_lost_reply_once,
    a_latch_opens_for_those_who_were_cut_off,
    ids_are_unique_whatever_reply_is_lost,
);

/// BB-301 (CURATOR-584): whichever reply is lost, the change is counted once.
async fn a_lost_reply_counts_once(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let counter = Counter::new(&a.coord.session(Cx::LONG).await?, "/counters/x")?;
    let truth = Counter::new(&b.coord.session(Cx::LONG).await?, "/counters/x")?;
    let mut sum = 0;
    for round in 0..2 {
        for nth in 1..=4 {
            a.link.lose_reply(nth).await?;
            let added = within(&format!("round {round}, reply {nth} lost"), counter.add(1)).await??;
            sum += 1;
            assert_eq!(added, sum, "reply {nth} lost");
            assert_eq!(truth.get().await?, sum, "reply {nth} lost");
        }
    }
    Ok(())
}

/// BB-301 again, while others change the number at the same time: the sum is that of what was acknowledged, and what is
/// ambiguous counts for one or nothing.
async fn lost_replies_in_a_crowd_count_once(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let mut crowd = Vec::new();
    for i in 0..4_u64 {
        let client = cx.client(&rig).await?;
        let session = client.coord.session(Cx::LONG).await?;
        crowd.push(tokio::spawn(async move {
            let counter = Counter::new(&session, "/counters/x")?;
            let (mut sure, mut unknown) = (0, 0);
            for round in 0..6 {
                if round % 3 == 1 {
                    client.link.lose_reply(1 + i % 3).await.ok();
                }
                match counter.add(1).await {
                    Ok(_) => sure += 1,
                    Err(error) if error.outcome() == Outcome::Unknown => unknown += 1,
                    Err(error) => return Err(error),
                }
            }
            // With the link, over which leaving the line goes on in the background.
            Ok((sure, unknown, client, session))
        }));
    }
    let (mut sure, mut unknown, mut kept) = (0, 0, Vec::new());
    for one in crowd {
        let (s, u, client, session) = within("the crowd", one).await?.expect("no panic")?;
        (sure, unknown) = (sure + s, unknown + u);
        kept.push((client, session));
    }
    let client = cx.client(&rig).await?;
    let truth = Counter::new(&client.coord.session(Cx::LONG).await?, "/counters/x")?;
    let sum = truth.get().await?;
    assert!((sure..=sure + unknown).contains(&sum), "{sum} for {sure} acknowledged and {unknown} ambiguous");
    Ok(())
}

/// Promise: behind a cut a change ends no later than its session, and says what is known (G8, G10).
async fn a_change_behind_a_cut_ends_with_the_session(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let session = a.coord.session(Cx::SHORT).await?;
    let counter = Counter::new(&session, "/counters/x")?;
    assert_eq!(counter.add(1).await?, 1);
    a.link.blackhole().await;
    let error = within("the change", counter.add(1)).await?.expect_err("nobody answers");
    assert!(error.kind() == ErrorKind::SessionLost || error.outcome() == Outcome::Unknown, "{error:?}");
    assert!(!session.is_valid());
    a.link.heal().await;
    Ok(())
}

/// BB-301 for the latch: whichever reply is lost, it is counted down by one.
async fn a_latch_counts_a_lost_reply_once(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let latch = CountDownLatch::new(&a.coord.session(Cx::LONG).await?, "/latches/x", 5)?;
    let truth = CountDownLatch::new(&b.coord.session(Cx::LONG).await?, "/latches/x", 5)?;
    for nth in 1..=4 {
        a.link.lose_reply(u64::from(nth)).await?;
        let left = within(&format!("reply {nth} lost"), latch.count_down()).await??;
        assert_eq!((left, truth.count().await?), (5 - nth, 5 - nth), "reply {nth} lost");
    }
    assert!(!truth.wait_timeout(std::time::Duration::ZERO).await?);
    Ok(())
}

/// Promise: a waiter that was cut off while the latch opened goes on when it is back.
async fn a_latch_opens_for_those_who_were_cut_off(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let waiting = CountDownLatch::new(&a.coord.session(Cx::LONG).await?, "/latches/x", 1)?;
    let latch = CountDownLatch::new(&b.coord.session(Cx::LONG).await?, "/latches/x", 1)?;
    let waiter = tokio::spawn(async move { waiting.wait().await });
    a.link.blackhole().await;
    assert_eq!(latch.count_down().await?, 0);
    a.link.heal().await;
    within("the waiter", waiter).await?.expect("no panic")?;
    Ok(())
}

/// Promise: a reservation whose reply was lost wastes its block and gives no id twice.
async fn ids_are_unique_whatever_reply_is_lost(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let here = IdGenerator::new(&a.coord, "/ids/x")?.with_block(2)?;
    let there = IdGenerator::new(&b.coord, "/ids/x")?.with_block(3)?;
    let mut ids = Vec::new();
    for nth in 1..=4 {
        a.link.lose_reply(nth).await?;
        for _ in 0..3 {
            // A read that was lost is an error; nothing is reserved then.
            match within("the next id", here.next()).await? {
                Ok(id) => ids.push(id),
                Err(error) => assert_ne!(error.kind(), ErrorKind::Malformed, "{error}"),
            }
            ids.push(there.next().await?);
        }
    }
    let total = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), total, "an id was given twice");
    assert!(total > 12, "the generator behind the link gave some, too");
    Ok(())
}
