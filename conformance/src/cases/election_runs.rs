//! Giving up, and runs: a body that works as long as its candidate leads.

use std::{future::pending, ops::ControlFlow, sync::Arc, time::Duration};

use coord_api::{ErrorKind, SessionOptions};
use coord_recipes::{Candidate, CandidateState, SessionKeeper};

use super::{
    election::{DIR, candidate},
    lock::entries,
};
use crate::{CaseResult, Cx, eventually, sweep::drop_after, within};

cases!("election_runs", needs Store:
    a_candidate_that_gives_up_leaves_nothing_behind,
    starting_and_stopping_at_once_harms_nobody,
    a_run_leads_term_after_term_until_its_body_breaks,
    a_body_is_stopped_when_its_leadership_is_lost,
    a_body_that_panics_resigns_and_is_reported,
    a_dropped_run_drops_its_body_and_resigns,
);

/// Promise: a candidate that is dropped at any await point leaves the line (G9).
async fn a_candidate_that_gives_up_leaves_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let leader = candidate(&coord, "leader")?.leadership().await?;
    let a = candidate(&coord, "a")?;
    for polls in 1..12 {
        let parked = Duration::from_millis(300);
        // Once it only waits, there are no more polls.
        let _ = tokio::time::timeout(parked, drop_after(a.leadership(), polls)).await;
        eventually("it has left", || async { Ok(entries(&coord, DIR).await? == 1) }).await?;
        assert_eq!(*a.states().borrow(), CandidateState::Out);
    }
    assert!(leader.is_valid());
    leader.resign().await?;
    within("free", a.leadership()).await??.resign().await?;
    eventually("nothing is left", || async { Ok(entries(&coord, DIR).await? == 0) }).await
}

/// Promise: a candidate that never led gives back nothing that is not its own.
///
/// BB-118 (CURATOR-337) and BB-119 (INT-4254): release without acquire; start and stop at once.
async fn starting_and_stopping_at_once_harms_nobody(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let leader = candidate(&coord, "leader")?.leadership().await?;
    let a = candidate(&coord, "a")?;
    for _ in 0..50 {
        let run = tokio::spawn({
            let a = a.clone();
            async move { a.run_while_leader(|_| pending::<ControlFlow<()>>()).await }
        });
        tokio::task::yield_now().await;
        run.abort();
        let _ = run.await;
    }
    leader.check().await?;
    eventually("only the leader is left", || async { Ok(entries(&coord, DIR).await? == 1) }).await?;
    leader.resign().await?;
    assert!(within("it is no dead candidate", a.leadership()).await??.is_valid());
    Ok(())
}

/// Promise: a run stands again after each term, and ends with what its body breaks with.
async fn a_run_leads_term_after_term_until_its_body_breaks(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let mut runs = Vec::new();
    for id in ["a", "b"] {
        let candidate = candidate(&coord, id)?;
        runs.push(tokio::spawn(async move {
            let (mut terms, mut epochs) = (0, Vec::new());
            let run = candidate.run_while_leader(|leadership| {
                terms += 1;
                epochs.push(leadership.epoch());
                let done = terms == 3;
                async move {
                    assert!(leadership.is_valid());
                    if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                }
            });
            run.await.map(|()| epochs)
        }));
    }
    let mut epochs = Vec::new();
    for run in runs {
        let own = within("the run", run).await?.expect("no panic")?;
        assert!(own.len() == 3 && own.windows(2).all(|pair| pair[0] < pair[1]), "{own:?}");
        epochs.extend(own);
    }
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), 6, "two led with one epoch");
    eventually("nothing is left", || async { Ok(entries(&coord, DIR).await? == 0) }).await
}

/// Promise: a body is told of the loss and dropped within the bound; the run stands again with the next session.
async fn a_body_is_stopped_when_its_leadership_is_lost(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(Cx::LONG));
    let a = Candidate::new(&keeper, DIR, "a")?;
    let (started, mut terms) = tokio::sync::mpsc::unbounded_channel();
    let run = tokio::spawn({
        let a = a.clone();
        async move {
            a.run_while_leader(|leadership| {
                let started = started.clone();
                async move {
                    let alive = Arc::new(());
                    let _ = started.send((leadership.epoch(), Arc::downgrade(&alive)));
                    pending::<()>().await; // takes no notice
                    drop(alive);
                    ControlFlow::<()>::Continue(())
                }
            })
            .await
        }
    });
    let (first, body) = within("the first term", terms.recv()).await?.expect("alive");
    keeper.session().await?.close().await?;
    assert!(!a.is_leader());
    let (second, _) = within("the second term", terms.recv()).await?.expect("alive");
    assert!(second > first);
    assert!(body.upgrade().is_none(), "the first body lives in the second term");
    run.abort();
    Ok(())
}

/// Promise: a panic in the body neither keeps the leadership nor passes unnoticed.
async fn a_body_that_panics_resigns_and_is_reported(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (a, b) = (candidate(&coord, "a")?, candidate(&coord, "b")?);
    let run = a.run_while_leader(|_| async {
        if true {
            std::panic::resume_unwind(Box::new("the body fell over"));
        }
        ControlFlow::<()>::Continue(())
    });
    let error = within("the run", run).await?.expect_err("its body panicked");
    assert_eq!(error.kind(), ErrorKind::Unexpected);
    assert!(error.to_string().contains("the body fell over"), "{error}");
    assert!(!a.is_leader());
    within("free", b.leadership()).await??.resign().await?;
    within("it can stand again", a.leadership()).await??.resign().await?;
    Ok(())
}

/// Promise: dropping the run stops the body at once and frees the leadership.
async fn a_dropped_run_drops_its_body_and_resigns(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (a, b) = (candidate(&coord, "a")?, candidate(&coord, "b")?);
    let run = tokio::spawn({
        let a = a.clone();
        async move { a.run_while_leader(|_| pending::<ControlFlow<()>>()).await }
    });
    eventually("it leads", || async { Ok(a.is_leader()) }).await?;
    run.abort();
    let _ = within("the run", run).await?;
    assert!(!a.is_leader());
    within("the next", b.leadership()).await??.resign().await?;
    Ok(())
}
