//! `lock`: runs a command while holding a lock.
//!
//! The parts: `policy` decides when a command must stop, `child` starts it in a process group of its own and reaps it,
//! `deadman` kills the group when coord itself is killed or frozen, `terminal` lends it the terminal, `signals` passes
//! signals on, and `held` brings them together.

mod child;
mod deadman;
mod environment;
mod held;
mod policy;
mod signals;
pub(crate) mod terminal;

use std::{ffi::OsString, time::Duration};

use coord::{Coord, Dir, Durability, Lock, LockGuard, Session};
use tokio::time::Instant;

use crate::{Failure, args::LockArgs, code, exit::say, store::Source};

pub(crate) use child::{Change, Child, exit_code};
pub(crate) use environment::hidden;
pub(crate) use held::pause_with;
pub(crate) use signals::Signals;

/// How long giving back may take before coord ends without a confirmation. The lock goes with the session then.
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

/// How waiting for the lock ended.
enum Waited {
    Acquired(LockGuard),
    NotInTime,
    Signal(i32),
}

pub(crate) async fn run(source: &Source, args: LockArgs, verbose: bool) -> Result<u8, Failure> {
    // First, so that no signal finds the default action: it would leave our entry in the line until the ttl is over.
    let mut signals = Signals::install()?;
    let coord = tokio::select! {
        biased;
        signal = signals.next() => return Ok(code::of_signal(signal.number)),
        coord = source.connect() => coord?,
    };
    tokio::select! {
        biased;
        signal = signals.next() => return Ok(code::of_signal(signal.number)),
        nested = refuse_nested(&coord, &args.name) => nested?,
    }
    let session = tokio::select! {
        biased;
        signal = signals.next() => return Ok(code::of_signal(signal.number)),
        session = coord.session(args.ttl) => session?,
    };
    if coord.info().guarantees.durability == Durability::Process {
        say("this store lives in this process alone: the lock excludes nobody");
    }
    for line in other_times(args.ttl, args.grace, session.ttl()) {
        say(&line);
    }
    let code = wait_and_hold(&session, &args, &mut signals, verbose).await;
    tokio::select! {
        biased;
        () = leave(&session, &coord) => {}
        // Once more: the user is in a hurry.
        _ = signals.next() => {}
    }
    code
}

/// Refuses a lock under which we run ourselves: it would wait for its own end.
///
/// Whether it is that lock, the store knows: the entry that we were told of is there only in the same store and namespace.
async fn refuse_nested(coord: &Coord, name: &str) -> Result<(), Failure> {
    let Some(outer) = environment::outer() else { return Ok(()) };
    let name = Dir::parse(name)?;
    if outer.name != name {
        return Ok(());
    }
    match coord.get(outer.key).await {
        Ok(Some(entry)) if entry.meta.owner.as_ref().is_some_and(|owner| owner.as_str() == outer.session) => {
            Err(Failure::Setup(format!(
                "this command already runs under {name}, and would wait for its own end"
            )))
        }
        // Another store's lock of that name, or one that is lost.
        Ok(_) => Ok(()),
        Err(error) => {
            say(&format!("this command may already run under {name} and wait for its own end: {error}"));
            Ok(())
        }
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

async fn wait_and_hold(
    session: &Session,
    args: &LockArgs,
    signals: &mut Signals,
    verbose: bool,
) -> Result<u8, Failure> {
    let lock = Lock::new(session, args.name.as_str())?;
    let began = Instant::now();
    let waited = tokio::select! {
        biased;
        // The acquire is dropped, which leaves the line.
        signal = signals.next() => Waited::Signal(signal.number),
        acquired = wait(&lock, args) => match acquired? {
            Some(guard) => Waited::Acquired(guard),
            None => Waited::NotInTime,
        },
    };
    match waited {
        Waited::Acquired(guard) => {
            if verbose {
                let (after, token) = (began.elapsed().as_secs_f32(), guard.token());
                say(&format!("acquired {} after {after:.2}s with fencing token {token}", lock.name()));
            }
            held::run(guard, args, signals).await
        }
        Waited::NotInTime => {
            let why = if args.no_wait { "is taken" } else { "was not acquired in time" };
            say(&format!("{} {why}", lock.name()));
            Ok(args.conflict_exit_code)
        }
        Waited::Signal(number) => Ok(code::of_signal(number)),
    }
}

async fn wait(lock: &Lock, args: &LockArgs) -> coord::Result<Option<LockGuard>> {
    match args.timeout {
        _ if args.no_wait => lock.try_acquire().await,
        Some(timeout) => lock.acquire_timeout(timeout).await,
        None => lock.acquire().await.map(Some),
    }
}

/// Ends the session, with which everything of ours leaves the store.
async fn leave(session: &Session, coord: &Coord) {
    let goodbye = async {
        if let Err(error) = session.close().await {
            tracing::debug!(%error, "the session ends with its ttl");
        }
        if let Err(error) = coord.close().await {
            tracing::debug!(%error, "closing");
        }
    };
    if tokio::time::timeout(GOODBYE, goodbye).await.is_err() {
        tracing::debug!("the store does not answer; the session ends with its ttl");
    }
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
