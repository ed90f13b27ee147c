//! Scheduled jobs that run once, while links fail.

use std::{future::pending, sync::Arc};

use coord_api::{ErrorKind, SessionOptions};
use coord_recipes::{Candidate, MarkerState, RunOnce, RunOutcome, SessionKeeper};

use super::{election::DIR, run_once::Job};
use crate::{CaseResult, Cx, eventually, within};

cases!("run_once_faults", needs Link:
    a_leader_cut_off_in_the_middle_is_stopped_and_known,
    any_lost_reply_runs_the_job_once,
);

/// Promise: a failover in the middle of a job ends the job, and the next leader knows that it began.
///
/// The third pitfall of the project's second article: the job ran twice.
async fn a_leader_cut_off_in_the_middle_is_stopped_and_known(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let candidate = |client: &crate::Client, id: &str, ttl| {
        Candidate::new(&SessionKeeper::new(&client.coord, SessionOptions::new(ttl)), DIR, id)
    };
    let old = candidate(&a, "old", Cx::SHORT)?.leadership().await?;
    let epoch = old.epoch();
    let run = tokio::spawn(async move {
        let jobs = RunOnce::new("/jobs")?;
        jobs.run(&old, "job", "1", async || pending::<Result<(), ()>>().await).await
    });
    let (jobs, job) = (RunOnce::new("/jobs")?, Job::default());
    eventually("it has begun", || async { Ok(jobs.marker(&b.coord, "job", "1").await?.is_some()) }).await?;
    a.link.blackhole().await;
    let new = within("the next", candidate(&b, "new", Cx::LONG)?.leadership()).await??;
    let error = within("the old run", run).await?.expect("no panic").expect_err("it no longer leads");
    assert!(matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::LockLost), "{error}");
    match jobs.run(&new, "job", "1", async || job.run().await).await? {
        RunOutcome::Unfinished(marker) => assert_eq!((marker.by(), marker.epoch()), ("old", epoch)),
        other => panic!("{other:?}"),
    }
    assert_eq!(job.runs(), 0);
    a.link.heal().await;
    Ok(())
}

/// Promise: whichever reply is lost, the job runs once and its marker says finished.
async fn any_lost_reply_runs_the_job_once(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Cx::LONG));
    let leadership = Candidate::new(&keeper, DIR, "a")?.leadership().await?;
    let (jobs, job) = (RunOnce::new("/jobs")?, Job::default());
    for nth in 1..=4 {
        let period = format!("{nth}");
        a.link.lose_reply(nth).await?;
        let run = jobs.run(&leadership, "job", &period, async || job.run().await);
        let ran = within(&format!("run with reply {nth} lost"), run).await??;
        assert_eq!(ran, RunOutcome::Ran(usize::try_from(nth).unwrap_or(0)), "reply {nth} lost");
        let marker = jobs.marker(&b.coord, "job", &period).await?.expect("it ran");
        assert_eq!(marker.state(), MarkerState::Finished);
        eventually("the link works", || async { Ok(a.coord.get("/other").await.is_ok()) }).await?;
    }
    Ok(())
}
