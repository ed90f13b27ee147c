//! Hand-over to a named candidate, and priorities.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use coord_api::{Coord, ErrorKind, Freshness, SessionOptions};
use coord_recipes::{Candidate, CandidateOptions, SessionKeeper};

use super::{
    election::{DIR, candidate, elected, ids, stand},
    lock::entries,
};
use crate::{CaseResult, Cx, Failure, eventually, within};

cases!("election_order", needs Store:
    a_leader_hands_over_to_the_one_it_names,
    handing_over_to_nobody_leaves_everything_as_it_is,
    a_cancelled_hand_over_is_taken_back,
    a_hand_over_does_not_pass_by_strangers,
    those_of_lower_priority_let_higher_ones_pass,
    a_leader_stays_whatever_the_priority_of_others,
    a_run_yields_to_a_higher_priority_if_it_says_so,
    notes_of_strangers_do_no_harm,
);

/// Beside the line, never in it.
const NOTES: &str = "/elections/x.meta";

fn with_priority(coord: &Coord, id: &str, options: CandidateOptions) -> Result<Candidate, Failure> {
    let keeper = SessionKeeper::new(coord, SessionOptions::new(Cx::LONG));
    Ok(Candidate::with_options(&keeper, DIR, id, options)?)
}

async fn no_notes_are_left(coord: &Coord) -> CaseResult {
    eventually("no notes are left", || async { Ok(entries(coord, NOTES).await? == 0) }).await
}

/// Promise: the named candidate leads next, those between step behind it, and epochs keep growing.
async fn a_leader_hands_over_to_the_one_it_names(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let leadership = candidate(&cx.coord().await?, "a")?.leadership().await?;
    let mut waiting = Vec::new();
    for (ahead, id) in ["b", "c", "d", "e"].into_iter().enumerate() {
        waiting.push(stand(&coord, &candidate(&cx.coord().await?, id)?, ahead + 1).await?);
    }
    let old = leadership.epoch();
    within("handed over", leadership.hand_over("d", Duration::from_secs(10))).await??;
    assert!(!leadership.is_valid());
    let next = elected(waiting.remove(2)).await?;
    assert!(next.id() == "d" && next.epoch() > old);
    eventually("all others wait behind it", || async {
        let mut line = ids(&coord).await?;
        let first = line.remove(0);
        line.sort();
        Ok(first == "d" && line == ["b", "c", "e"])
    })
    .await?;
    assert!(waiting.iter().all(|one| !one.is_finished()));
    no_notes_are_left(&coord).await?;
    // And on: nobody was lost on the way.
    let mut epoch = next.epoch();
    next.resign().await?;
    for _ in 0..3 {
        let (done, _, rest) = within("the next", futures::future::select_all(waiting)).await?;
        let leadership = done.expect("no panic")?;
        assert!(leadership.epoch() > epoch);
        epoch = leadership.epoch();
        leadership.resign().await?;
        waiting = rest;
    }
    Ok(())
}

/// Promise: if the named one does not come, the leader leads on and nobody was moved for good.
async fn handing_over_to_nobody_leaves_everything_as_it_is(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let leadership = candidate(&coord, "a")?.leadership().await?;
    let waiting = stand(&coord, &candidate(&coord, "b")?, 1).await?;
    let error = within("it ends", leadership.hand_over("nobody", Duration::from_millis(300))).await?;
    assert_eq!(error.expect_err("nobody came").kind(), ErrorKind::Timeout);
    assert!(leadership.is_valid() && !waiting.is_finished());
    leadership.check().await?;
    no_notes_are_left(&coord).await?;
    // A candidate does not take over from itself either.
    let error = leadership.hand_over("a", Duration::ZERO).await.expect_err("it leads already");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    leadership.hand_over("b", Duration::from_secs(10)).await?;
    elected(waiting).await?.resign().await?;
    Ok(())
}

/// Promise: a hand-over that is given up in the middle changes nothing.
async fn a_cancelled_hand_over_is_taken_back(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let leadership = candidate(&coord, "a")?.leadership().await?;
    for polls in 1..10 {
        let hand_over = leadership.hand_over("nobody", Duration::from_secs(10));
        let _ = tokio::time::timeout(Duration::from_millis(200), crate::sweep::drop_after(hand_over, polls))
            .await;
    }
    assert!(leadership.is_valid());
    leadership.check().await?;
    no_notes_are_left(&coord).await
}

/// Promise: an entry that does not step back is not passed; the hand-over says so in time.
async fn a_hand_over_does_not_pass_by_strangers(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let leadership = candidate(&coord, "a")?.leadership().await?;
    // Some other program's entry, which knows no notes.
    let stranger = cx.session().await?;
    let lock = coord_recipes::Lock::new(&stranger, DIR)?;
    let queued = tokio::spawn(async move { lock.acquire().await });
    eventually("the stranger is in the line", || async { Ok(entries(&coord, DIR).await? == 2) }).await?;
    let waiting = stand(&coord, &candidate(&coord, "c")?, 2).await?;
    let error = within("it ends", leadership.hand_over("c", Duration::from_secs(1))).await?;
    assert_eq!(error.expect_err("the stranger is next").kind(), ErrorKind::Timeout);
    assert!(leadership.is_valid() && !queued.is_finished() && !waiting.is_finished());
    leadership.resign().await?;
    within("the stranger", queued).await?.expect("no panic")?.release().await?;
    elected(waiting).await?.resign().await?;
    no_notes_are_left(&coord).await
}

/// Promise: among those who wait, higher priorities lead first; nobody stands twice or is forgotten.
async fn those_of_lower_priority_let_higher_ones_pass(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let leadership = candidate(&coord, "leader")?.leadership().await?;
    let mut waiting = Vec::new();
    for (ahead, priority) in [1, 0, 3, 7, 3].into_iter().enumerate() {
        let options = CandidateOptions::default().with_priority(priority);
        let one = with_priority(&coord, &format!("{ahead}:{priority}"), options)?;
        waiting.push(tokio::spawn(async move { one.leadership().await }));
        eventually("it is in the line", || async {
            Ok(ids(&coord).await?.iter().any(|id| id.starts_with(&format!("{ahead}:"))))
        })
        .await?;
    }
    let priority = |id: &str| id.split(':').nth(1).and_then(|n| n.parse::<u32>().ok());
    eventually("the line is in order", || async {
        let line = ids(&coord).await?;
        let order: Vec<_> = line.iter().skip(1).filter_map(|id| priority(id)).collect();
        Ok(order == [7, 3, 3, 1, 0])
    })
    .await?;
    let mut epoch = leadership.epoch();
    leadership.resign().await?;
    for expected in [7, 3, 3, 1, 0] {
        let (done, _, rest) = within("the next", futures::future::select_all(waiting)).await?;
        let next = done.expect("no panic")?;
        assert_eq!(priority(next.id()), Some(expected));
        assert!(next.epoch() > epoch);
        epoch = next.epoch();
        next.resign().await?;
        waiting = rest;
    }
    no_notes_are_left(&coord).await
}

/// Promise: a leader is told of a higher priority that is next, and stays until it decides to go.
async fn a_leader_stays_whatever_the_priority_of_others(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let leadership = candidate(&coord, "a")?.leadership().await?;
    let low = stand(&coord, &candidate(&coord, "low")?, 1).await?;
    assert!(tokio::time::timeout(Duration::from_millis(300), leadership.outranked()).await.is_err());
    let high = with_priority(&coord, "high", CandidateOptions::default().with_priority(1))?;
    let high = tokio::spawn(async move { high.leadership().await });
    within("the leader is told", leadership.outranked()).await??;
    leadership.check().await?;
    assert!(leadership.is_valid() && !high.is_finished());
    leadership.resign().await?;
    elected(high).await?.resign().await?;
    elected(low).await?.resign().await?;
    Ok(())
}

/// Promise: a run with the option ends its term for a higher priority, when its body has stopped.
async fn a_run_yields_to_a_higher_priority_if_it_says_so(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let options = CandidateOptions::default().yielding_leadership().with_stop_within(Duration::from_secs(10));
    let low = with_priority(&coord, "low", options)?;
    let (stopped, mut stops) = tokio::sync::mpsc::unbounded_channel();
    let run = tokio::spawn({
        let low = low.clone();
        async move {
            low.run_while_leader(|leadership| {
                let stopped = stopped.clone();
                async move {
                    leadership.ending().await;
                    let _ = stopped.send(leadership.is_valid());
                    ControlFlow::<()>::Continue(())
                }
            })
            .await
        }
    });
    eventually("it leads", || async { Ok(low.is_leader()) }).await?;
    let high = with_priority(&coord, "high", CandidateOptions::default().with_priority(1))?;
    let leadership = within("the higher one", high.leadership()).await??;
    assert_eq!(within("the body", stops.recv()).await?, Some(true), "it stopped while it led");
    assert!(!low.is_leader());
    leadership.resign().await?;
    eventually("it leads again", || async { Ok(low.is_leader()) }).await?;
    run.abort();
    Ok(())
}

/// Promise: forged and broken notes elect nobody, whatever they say.
async fn notes_of_strangers_do_no_harm(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let leadership = candidate(&coord, "a")?.leadership().await?;
    let waiting = stand(&coord, &candidate(&coord, "b")?, 1).await?;
    let line = coord.clone().with_freshness(Freshness::Latest).list(DIR).await?.children;
    let (head, next) = (line[0].key.name(), line[1].key.name());
    for name in [
        "readme".to_owned(),
        "priority-".to_owned(),
        format!("priority-99999999999-{next}"),
        format!("handover-{next}={head}=x"),
        format!("handover-{head}={head}=x"),
        format!("priority-9-{head}"),
    ] {
        coord.put(format!("{NOTES}/{name}"), "").await?;
    }
    assert!(tokio::time::timeout(Duration::from_millis(500), leadership.lost()).await.is_err());
    leadership.resign().await?;
    elected(waiting).await?.resign().await?;
    Ok(())
}
