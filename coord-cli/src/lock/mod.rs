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
mod terminal;

use std::{ffi::OsString, time::Duration};

use coord::{Coord, Durability, Lock, LockGuard, Session};
use tokio::time::Instant;

use crate::{Failure, args::LockArgs, code, exit::say, store::Source};
use signals::Signals;

/// How long giving back may take before coord ends without a confirmation. The lock goes with the session then.
const GOODBYE: Duration = Duration::from_secs(5);

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
    let session = tokio::select! {
        biased;
        signal = signals.next() => return Ok(code::of_signal(signal.number)),
        session = coord.session(args.ttl) => session?,
    };
    if coord.info().guarantees.durability == Durability::Process {
        say("this store lives in this process alone: the lock excludes nobody");
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
            say(&format!("did not get {} in time", lock.name()));
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
