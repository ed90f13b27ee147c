//! Scheduled jobs that run once.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use coord_api::{Coord, ErrorKind};
use coord_recipes::{Leadership, MarkerState, RunOnce, RunOutcome, Unfinished};

use super::{election::candidate, lock::entries};
use crate::{CaseResult, Cx, Failure, eventually, within};

cases!("run_once", needs Store:
    a_job_runs_once_a_period_whoever_leads,
    a_job_that_began_before_a_failover_is_skipped,
    a_job_that_began_before_a_failover_runs_again_if_told_so,
    a_job_that_fails_may_run_again_in_the_same_term,
    a_leader_of_the_past_begins_and_finishes_nothing,
    a_job_is_stopped_when_its_leadership_is_lost,
    a_job_runs_once_at_a_time_in_one_process,
    old_markers_are_forgotten_and_new_ones_kept,
    a_marker_that_is_none_stops_the_job,
);

/// A job that counts its runs.
#[derive(Default)]
pub(super) struct Job(AtomicUsize);

impl Job {
    pub(super) async fn run(&self) -> Result<usize, &'static str> {
        tokio::task::yield_now().await;
        Ok(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    pub(super) fn runs(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

async fn lead(coord: &Coord, id: &str) -> Result<Leadership, Failure> {
    Ok(within("elected", candidate(coord, id)?.leadership()).await??)
}

/// Begins a job and goes away in the middle, as a leader that dies.
async fn begin_and_die(jobs: &RunOnce, leadership: &Leadership, period: &str) -> CaseResult {
    let (began, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let run = jobs.run(leadership, "job", period, async || {
        let _ = began.send(());
        pending::<Result<(), ()>>().await
    });
    tokio::select! {
        biased;
        _ = run => Err(Failure("a job that does not end has ended".to_owned())),
        _ = seen.recv() => Ok(()),
    }
}

/// Promise: one run a job and period, in whatever term; another period is another run.
async fn a_job_runs_once_a_period_whoever_leads(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (jobs, job) = (RunOnce::new("/jobs")?, Job::default());
    let mut epochs = Vec::new();
    for id in ["a", "b", "c"] {
        let leadership = lead(&coord, id).await?;
        epochs.push(leadership.epoch());
        for period in ["2026/05/01", "2026/05/02"] {
            let ran = jobs.run(&leadership, "job", period, async || job.run().await).await?;
            match ran {
                RunOutcome::Ran(_) => assert_eq!(id, "a"),
                RunOutcome::Finished(marker) => {
                    assert_eq!(
                        (marker.by(), marker.epoch(), marker.state()),
                        ("a", epochs[0], MarkerState::Finished)
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        let ran = jobs.run(&leadership, "job", &format!("only {id}"), async || job.run().await).await?;
        assert!(matches!(ran, RunOutcome::Ran(_)));
        leadership.resign().await?;
    }
    assert_eq!(job.runs(), 2 + 3);
    assert!(jobs.marker(&coord, "job", "never").await?.is_none());
    assert_eq!(jobs.marker(&coord, "job", "only c").await?.expect("it ran").by(), "c");
    Ok(())
}

/// Promise: at most once, if told so: what began is not begun again.
async fn a_job_that_began_before_a_failover_is_skipped(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (jobs, job) = (RunOnce::new("/jobs")?, Job::default());
    let old = lead(&coord, "old").await?;
    begin_and_die(&jobs, &old, "1").await?;
    let epoch = old.epoch();
    drop(old);
    let new = lead(&coord, "new").await?;
    let ran = RunOnce::new("/jobs")?.run(&new, "job", "1", async || job.run().await).await?;
    match ran {
        RunOutcome::Unfinished(marker) => {
            assert_eq!((marker.by(), marker.epoch(), marker.state()), ("old", epoch, MarkerState::Started));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(job.runs(), 0);
    Ok(())
}

/// Promise: at least once, if told so; and once finished, never again.
async fn a_job_that_began_before_a_failover_runs_again_if_told_so(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let job = Job::default();
    let jobs = RunOnce::new("/jobs")?.with_unfinished(Unfinished::RunAgain);
    let old = lead(&coord, "old").await?;
    begin_and_die(&jobs, &old, "1").await?;
    drop(old);
    let new = lead(&coord, "new").await?;
    for _ in 0..3 {
        let _ = jobs.run(&new, "job", "1", async || job.run().await).await?;
    }
    assert_eq!(job.runs(), 1);
    let marker = jobs.marker(&coord, "job", "1").await?.expect("it ran");
    assert_eq!((marker.by(), marker.epoch(), marker.state()), ("new", new.epoch(), MarkerState::Finished));
    Ok(())
}

/// Promise: a failure is told, and is not success.
async fn a_job_that_fails_may_run_again_in_the_same_term(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (jobs, job) = (RunOnce::new("/jobs")?, Job::default());
    let leadership = lead(&coord, "a").await?;
    let failed = jobs.run(&leadership, "job", "1", async || Err::<usize, _>("no disk")).await?;
    assert_eq!(failed, RunOutcome::Failed("no disk"));
    let skipped = jobs.run(&leadership, "job", "1", async || job.run().await).await?;
    assert!(matches!(skipped, RunOutcome::Unfinished(_)));
    let again = jobs.clone().with_unfinished(Unfinished::RunAgain);
    assert_eq!(again.run(&leadership, "job", "1", async || job.run().await).await?, RunOutcome::Ran(1));
    Ok(())
}

/// Promise: the markers are written by who leads, and by nobody else.
async fn a_leader_of_the_past_begins_and_finishes_nothing(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (jobs, job) = (RunOnce::new("/jobs")?, Job::default());
    let old = lead(&coord, "old").await?;
    let key = old.key().clone();
    let late = jobs.run(&old, "job", "1", async || {
        // Somebody takes the leadership away while the job runs; it has not noticed when it ends.
        coord.delete(&key).await.map_err(|_| "no store")?;
        job.run().await
    });
    let error = within("the late end", late).await?.expect_err("it no longer leads");
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    assert_eq!(jobs.marker(&coord, "job", "1").await?.expect("it began").state(), MarkerState::Started);
    let error = jobs.run(&old, "job", "2", async || job.run().await).await.expect_err("it no longer leads");
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    assert!(jobs.marker(&coord, "job", "2").await?.is_none());
    let new = lead(&coord, "new").await?;
    assert!(matches!(jobs.run(&new, "job", "2", async || job.run().await).await?, RunOutcome::Ran(_)));
    Ok(())
}

/// Promise: a job does not work on beside the next leader.
async fn a_job_is_stopped_when_its_leadership_is_lost(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let jobs = RunOnce::new("/jobs")?;
    let old = Arc::new(lead(&coord, "old").await?);
    let alive = Arc::new(());
    let body = Arc::downgrade(&alive);
    let run = tokio::spawn({
        let (jobs, old) = (jobs.clone(), Arc::clone(&old));
        async move {
            jobs.run(&old, "job", "1", async move || {
                let _alive = alive;
                pending::<Result<(), ()>>().await
            })
            .await
        }
    });
    eventually("it has begun", || async { Ok(jobs.marker(&coord, "job", "1").await?.is_some()) }).await?;
    coord.delete(old.key()).await?;
    let error = within("the run", run).await?.expect("no panic").expect_err("it no longer leads");
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    assert!(body.upgrade().is_none());
    Ok(())
}

/// Promise: one job and period does not run twice at once, whatever is to be done with unfinished ones.
async fn a_job_runs_once_at_a_time_in_one_process(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let job = Job::default();
    let jobs = RunOnce::new("/jobs")?.with_unfinished(Unfinished::RunAgain);
    let leadership = lead(&coord, "a").await?;
    let ran = jobs
        .run(&leadership, "job", "1", async || {
            let error =
                jobs.run(&leadership, "job", "1", async || job.run().await).await.expect_err("it runs");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            job.run().await
        })
        .await?;
    assert_eq!(ran, RunOutcome::Ran(1));
    Ok(())
}

/// Promise: markers do not grow without bound, and the newest stay.
async fn old_markers_are_forgotten_and_new_ones_kept(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let job = Job::default();
    let jobs = RunOnce::new("/jobs")?.with_keep(4);
    let leadership = lead(&coord, "a").await?;
    coord.put("/jobs/job/readme", "not a marker").await?;
    for period in 0..12 {
        let ran = jobs.run(&leadership, "job", &format!("{period}"), async || job.run().await).await?;
        assert!(matches!(ran, RunOutcome::Ran(_)));
    }
    assert!(entries(&coord, "/jobs/job").await? <= 6);
    for period in 9..12 {
        assert!(jobs.marker(&coord, "job", &format!("{period}")).await?.is_some(), "{period}");
    }
    assert!(jobs.marker(&coord, "job", "0").await?.is_none());
    assert!(coord.get("/jobs/job/readme").await?.is_some(), "it is somebody else's");
    Ok(())
}

/// Promise: foreign data in the place of a marker is a typed error, and stays as it is.
async fn a_marker_that_is_none_stops_the_job(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (jobs, job) = (RunOnce::new("/jobs")?.with_unfinished(Unfinished::RunAgain), Job::default());
    let leadership = lead(&coord, "a").await?;
    coord.put("/jobs/job/1", "mine!").await?;
    let error = jobs.run(&leadership, "job", "1", async || job.run().await).await.expect_err("no marker");
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    assert_eq!(
        (job.runs(), coord.get("/jobs/job/1").await?.expect("kept").value.as_ref()),
        (0, &b"mine!"[..])
    );
    assert_eq!(RunOnce::new("/").expect_err("bad").kind(), ErrorKind::InvalidArgument);
    for (job, period) in [("", ""), ("a/b", ".."), ("\u{0}", "x".repeat(80).as_str())] {
        let ran = jobs.run(&leadership, job, period, async || Ok::<_, ()>(())).await?;
        assert_eq!(ran, RunOutcome::Ran(()), "{job:?} {period:?}");
    }
    let error =
        jobs.run(&leadership, "job", &"x".repeat(300), async || Ok::<_, ()>(())).await.expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    Ok(())
}
