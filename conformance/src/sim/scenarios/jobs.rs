//! Jobs that run once a period.

use coord_api::SessionOptions;
use coord_recipes::{Candidate, RunOnce, SessionKeeper};

use super::{BASE, of_data};
use crate::{
    checkers::{facts::Job, run_once},
    sim::{
        client::{Client, TTL},
        recorder::Ledger,
        run::{Rule, Scenario},
    },
};

const RULES: &[(&str, Rule)] = &[BASE[0], BASE[1], ("jobs run once", run_once)];

/// Leaders that come and go, all of whom want to run the job of the same few periods.
pub(super) static SCENARIO: Scenario = Scenario {
    clients: 4,
    steps: 4,
    faults: super::waits_only(),
    dirs: &["/elections/jobs"],
    // A job that begins is alone with its marker; that others wanted it too shows in the markers they find.
    quiet: &["jobs run once"],
    keeps: |key| key.starts_with("/jobs/"),
    ledger: Ledger::line(|_| None),
    ..of_data("jobs", "run-once: no job begins twice for one period, whoever leads", RULES, |me| {
        Box::pin(client(me))
    })
};

async fn client(me: Client) {
    let keeper = SessionKeeper::new(me.coord(), SessionOptions::new(TTL));
    let id = format!("node-{}", me.id());
    for _ in 0..me.steps() {
        me.idle(0, 300).await;
        let Ok(candidate) = Candidate::new(&keeper, "/elections/jobs", id.as_str()) else { break };
        let Some(Ok(leadership)) = me.perhaps_cancelled(candidate.leadership()).await else { continue };
        let Ok(jobs) = RunOnce::new("/jobs") else { break };
        let period = me.range(1, 7);
        let body = async || {
            me.record(Job { name: "job".to_owned(), period });
            me.idle(1, 300).await;
            Ok::<(), ()>(())
        };
        // That it ran, had run or broke off is all the same here: it must not begin twice.
        let _ = me.perhaps_cancelled(jobs.run(&leadership, "job", &period.to_string(), body)).await;
        let _ = leadership.resign().await;
    }
    // What does not arrive is made good by the ttl.
    let _ = keeper.close().await;
}
