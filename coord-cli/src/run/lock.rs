//! `lock`: runs a command while holding a lock.

use coord::{Lock, LockGuard, Session};
use tokio::time::Instant;

use super::{
    args::{LockArgs, WaitArgs},
    environment::{LOCK, refuse_nested},
    held::{self, Job},
    in_session,
    signals::Signals,
};
use crate::{Failure, exit::say, store::Source};

pub(crate) async fn run(source: &Source, args: &LockArgs, verbose: bool) -> Result<u8, Failure> {
    let mut signals = Signals::install()?;
    let coord = signals.during(source.connect()).await??;
    signals.during(refuse_nested(&LOCK, &coord, &args.name)).await??;
    let work =
        async |session: &Session, signals: &mut Signals| wait_and_hold(session, args, signals, verbose).await;
    in_session(&LOCK, &coord, &args.hold, &mut signals, work).await
}

async fn wait_and_hold(
    session: &Session,
    args: &LockArgs,
    signals: &mut Signals,
    verbose: bool,
) -> Result<u8, Failure> {
    let lock = Lock::new(session, args.name.as_str())?;
    let began = Instant::now();
    // A signal drops the acquire, which leaves the line.
    let Some(guard) = signals.during(wait(&lock, &args.wait)).await?? else {
        let why = if args.wait.no_wait { "is taken" } else { "was not acquired in time" };
        say(&format!("{} {why}", lock.name()));
        return Ok(args.wait.not_acquired());
    };
    if verbose {
        let (after, token) = (began.elapsed().as_secs_f32(), guard.token());
        say(&format!("acquired {} after {after:.2}s with fencing token {token}", lock.name()));
    }
    let job = Job {
        kind: &LOCK,
        name: &args.name,
        command: &args.command,
        variables: Vec::new(),
        hold: &args.hold,
    };
    Ok(held::run_and_give_back(guard, &job, signals, LockGuard::release).await?.code())
}

async fn wait(lock: &Lock, args: &WaitArgs) -> coord::Result<Option<LockGuard>> {
    match args.timeout {
        _ if args.no_wait => lock.try_acquire().await,
        Some(timeout) => lock.acquire_timeout(timeout).await,
        None => lock.acquire().await.map(Some),
    }
}
