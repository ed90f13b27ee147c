//! A nightly job on two nodes: the leader dies in the middle, and the job is not run twice.
//!
//! Runs on the memory store; the same calls run on ZooKeeper, etcd and Redis.

#![allow(clippy::print_stdout, reason = "an example is for reading")]

use std::{future::pending, time::Duration};

use coord::{Candidate, Coord, Leadership, RunOnce, RunOutcome, SessionKeeper, SessionOptions, Unfinished};

const NIGHT: &str = "2026-05-01";

#[tokio::main(flavor = "current_thread")]
async fn main() -> coord::Result<()> {
    let store = coord::connect("memory:").await?;
    let jobs = RunOnce::new("/jobs")?;

    // Node 1 leads, begins to archive, and dies.
    let (keeper, leadership) = lead(&store, "node-1").await?;
    let archiving = jobs.run(&leadership, "archive", NIGHT, async || pending::<Result<(), String>>().await);
    if tokio::time::timeout(Duration::from_millis(200), archiving).await.is_err() {
        println!("node-1 began to archive with epoch {}, and dies", leadership.epoch());
    }
    keeper.close().await?;

    // Node 2 takes over. Its clock says that it is time to archive, too.
    let (keeper, leadership) = lead(&store, "node-2").await?;
    println!("node-2 leads with epoch {}", leadership.epoch());
    tell(jobs.run(&leadership, "archive", NIGHT, archive).await?);

    // Somebody has looked: the archive is not there, and to run it again is right.
    let again = jobs.clone().with_unfinished(Unfinished::RunAgain);
    tell(again.run(&leadership, "archive", NIGHT, archive).await?);
    // From here on it is done, whoever asks.
    tell(again.run(&leadership, "archive", NIGHT, archive).await?);

    leadership.resign().await?;
    keeper.close().await
}

async fn lead(store: &Coord, id: &str) -> coord::Result<(SessionKeeper, Leadership)> {
    let keeper = SessionKeeper::new(store, SessionOptions::default());
    let leadership = Candidate::new(&keeper, "/elections/jobs", id)?.leadership().await?;
    Ok((keeper, leadership))
}

async fn archive() -> Result<u32, String> {
    Ok(12)
}

fn tell(ran: RunOutcome<u32, String>) {
    match ran {
        RunOutcome::Ran(files) => println!("archived {files} files"),
        RunOutcome::Failed(error) => println!("archiving failed: {error}"),
        RunOutcome::Finished(marker) => {
            println!("not again: {} did it with epoch {}", marker.by(), marker.epoch())
        }
        RunOutcome::Unfinished(marker) => {
            println!("left alone: {} began it with epoch {} and did not finish", marker.by(), marker.epoch());
        }
    }
}
