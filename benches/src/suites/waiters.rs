//! Memory of idle waiters on one lock, in a process of their own.

use std::{env, time::Duration};

use coord::{Lock, Session};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::{
    Result,
    args::{Speed, Waiters},
    idle::{line_is, resident_kib},
    report::{Bound, Claim, Report, Waiting},
    stand,
    stats::Sample,
};

const LOCK: &str = "/locks/crowded";
const TTL: Duration = Duration::from_secs(60);
const COUNT: usize = 1000;
/// How long all may take to get into the line.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that the waiters may add, in megabytes.
const MOST_MB: f64 = 50.0;

/// What the process of the waiters tells.
#[derive(Debug, Deserialize, Serialize)]
struct Told {
    before_mb: f64,
    after_mb: f64,
}

pub(crate) async fn run(speed: &Speed, store: &'static str, url: &str, report: &mut Report) -> Result<()> {
    // A thousand sessions on ZooKeeper are a thousand connections: not in a brief run.
    let kinds: &[bool] = if speed.smoke { &[false] } else { &[false, true] };
    for own_sessions in kinds.iter().copied() {
        let mut command = Command::new(env::current_exe()?);
        command.args(["waiters", "--url", url, "--count", &COUNT.to_string()]).kill_on_drop(true);
        if own_sessions {
            command.arg("--own-sessions");
        }
        let output = command.output().await?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            if !own_sessions {
                return Err(message.into());
            }
            report.left_out.push(format!("{store}: {COUNT} waiters with a session each: {message}"));
            continue;
        }
        let told: Told = serde_json::from_slice(&output.stdout)?;
        let growth_mb = told.after_mb - told.before_mb;
        if !own_sessions {
            let what = format!("{store}: MB for {COUNT} idle waiters in one process");
            report.claims.push(Claim::new(what, Bound::AtMost(MOST_MB), Sample::new(vec![growth_mb]), false));
        }
        let before_mb = told.before_mb;
        report.waiters.push(Waiting { store, waiters: COUNT, own_sessions, before_mb, growth_mb });
    }
    Ok(())
}

/// The process of the waiters: prints its memory before and after they came.
pub(crate) async fn child(args: &Waiters) -> Result<String> {
    let coord = stand::open(&args.url).await?;
    let session = coord.session(TTL).await?;
    let guard = Lock::new(&session, LOCK)?.acquire().await?;
    let before_mb = resident_kib()? * 1024.0 / 1e6;

    let sessions: Vec<Session> = if args.own_sessions {
        let mut sessions = Vec::with_capacity(args.count);
        // A few at a time: a server takes only so many new connections at once.
        while sessions.len() < args.count {
            let few = (args.count - sessions.len()).min(16);
            sessions.extend(try_join_all((0..few).map(|_| coord.session(TTL))).await?);
        }
        sessions
    } else {
        vec![session.clone(); args.count]
    };
    let waiting: Vec<_> = sessions
        .into_iter()
        .map(|session| tokio::spawn(async move { Lock::new(&session, LOCK)?.acquire().await }))
        .collect();
    line_is(&coord, LOCK, args.count + 1, PATIENCE).await?;
    // What joining took is given back by now, or counts.
    tokio::time::sleep(Duration::from_secs(1)).await;
    if waiting.iter().any(tokio::task::JoinHandle::is_finished) {
        return Err("a waiter did not wait".into());
    }
    let after_mb = resident_kib()? * 1024.0 / 1e6;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    drop(guard);
    Ok(serde_json::to_string(&Told { before_mb, after_mb })?)
}
