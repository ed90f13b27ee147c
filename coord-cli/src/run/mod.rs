//! Commands that run while something is held: a lock, a permit, leadership, a place.
//!
//! The parts: `policy` decides when a command must stop, `child` starts it in a process group of its own and reaps it,
//! `deadman` kills the group when coord itself is killed or frozen, `terminal` lends it the terminal, `signals` passes
//! signals on, `environment` tells it what is held, and `held` brings them together.

pub(crate) mod args;
mod barrier;
mod child;
mod deadman;
mod elect;
mod environment;
mod held;
mod lock;
mod once;
mod policy;
mod semaphore;
mod signals;
pub(crate) mod terminal;

use std::{ffi::OsString, time::Duration};

use coord::{Coord, Session, SessionKeeper, SessionOptions};

use crate::{Failure, exit::say, store::is_of_this_process};
use args::HoldArgs;
use environment::Kind;

pub(crate) use barrier::run as barrier;
pub(crate) use child::{Change, Child, exit_code};
pub(crate) use elect::run as elect;
pub(crate) use environment::hidden;
pub(crate) use held::pause_with;
pub(crate) use lock::run as lock;
pub(crate) use once::run as once;
pub(crate) use semaphore::run as semaphore;
pub(crate) use signals::{Signals, ends};

/// How long giving back may take before coord ends without a confirmation. What is held goes with the session then.
pub(crate) const GOODBYE: Duration = Duration::from_secs(5);

/// What a helper process runs: its arguments to its exit code.
type Helper = fn(&[OsString]) -> u8;

/// The helper that these arguments of the process ask for, if they do.
pub(crate) fn helper(args: &[OsString]) -> Option<Helper> {
    match args.get(1)?.to_str()? {
        child::HELPER => Some(child::become_command),
        deadman::HELPER => Some(deadman::watch_over),
        _ => None,
    }
}

/// Opens a session, lets `work` use it, and ends it, with which everything of ours leaves the store.
async fn in_session(
    kind: &Kind,
    coord: &Coord,
    args: &HoldArgs,
    signals: &mut Signals,
    work: impl AsyncFnOnce(&Session, &mut Signals) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let session = signals.during(coord.session(args.ttl)).await??;
    tell_first(kind, coord, args, session.ttl());
    let code = work(&session, signals).await;
    end(session.close(), coord, signals).await;
    code
}

/// Sessions that follow one another, for those who stand again.
fn standing(coord: &Coord, args: &HoldArgs) -> SessionKeeper {
    SessionKeeper::new(coord, SessionOptions::new(args.ttl))
}

/// Says what the user should know before anything is held.
fn tell_first(kind: &Kind, coord: &Coord, args: &HoldArgs, granted: Duration) {
    if is_of_this_process(coord) {
        say(&format!("this store lives in this process alone: {}", kind.alone));
    }
    for line in other_times(args.ttl, args.grace, granted) {
        say(&line);
    }
}

/// What is said of times that are not as they were asked for.
fn other_times(ttl: Duration, grace: Option<Duration>, granted: Duration) -> Vec<String> {
    let mut lines = Vec::new();
    if granted != ttl {
        lines.push(format!("the store granted a ttl of {granted:?}, {ttl:?} were asked for"));
    }
    if let Some(grace) = grace
        && let capped = policy::capped(grace, granted)
        && capped < grace
    {
        lines.push(format!("the grace is {capped:.1?}, a third of the ttl, {grace:?} were asked for"));
    }
    lines
}

/// Ends the sessions by `close`, with which everything of ours leaves the store. A signal ends the waiting for it.
async fn end(close: impl Future<Output = coord::Result<()>>, coord: &Coord, signals: &mut Signals) {
    let goodbye = async {
        if let Err(error) = close.await {
            tracing::debug!(%error, "the session ends with its ttl");
        }
        if let Err(error) = coord.close().await {
            tracing::debug!(%error, "closing");
        }
    };
    tokio::select! {
        biased;
        ended = tokio::time::timeout(GOODBYE, goodbye) => if ended.is_err() {
            tracing::debug!("the store does not answer; the session ends with its ttl");
        },
        // Once more: the user is in a hurry.
        _ = signals.next() => {}
    }
}

/// Who we are, for others to see, if the user does not say.
fn own_id() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{}-{}", host.unwrap_or_else(|| "unknown".to_owned()), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_differ_are_told() {
        let [five, ten, sixty] = [5, 10, 60].map(Duration::from_secs);
        assert!(other_times(sixty, None, sixty).is_empty());
        assert!(other_times(sixty, Some(five), sixty).is_empty());
        let asked = "the store granted a ttl of 10s, 60s were asked for";
        assert_eq!(other_times(sixty, None, ten), [asked]);
        let capped = "the grace is 3.3s, a third of the ttl, 5s were asked for";
        assert_eq!(other_times(sixty, Some(five), ten), [asked, capped]);
    }
}
