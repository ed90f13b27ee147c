//! `semaphore`: runs a command while holding permits.

use coord::{Permit, Semaphore, Session};
use tokio::time::Instant;

use super::{
    args::SemaphoreArgs,
    environment::{PERMIT, refuse_nested},
    held::{self, Job},
    in_session,
    signals::Signals,
};
use crate::{Failure, exit::say, store::Source};

pub(crate) async fn run(source: &Source, args: &SemaphoreArgs, verbose: bool) -> Result<u8, Failure> {
    let mut signals = Signals::install()?;
    let coord = signals.during(source.connect()).await??;
    // The outer one has a permit at least: who wants them all would wait for it.
    if args.take >= args.permits {
        signals.during(refuse_nested(&PERMIT, &coord, &args.name)).await??;
    }
    let work =
        async |session: &Session, signals: &mut Signals| wait_and_hold(session, args, signals, verbose).await;
    in_session(&PERMIT, &coord, &args.hold, &mut signals, work).await
}

async fn wait_and_hold(
    session: &Session,
    args: &SemaphoreArgs,
    signals: &mut Signals,
    verbose: bool,
) -> Result<u8, Failure> {
    let opened = Semaphore::open(session, args.name.as_str(), args.permits);
    let semaphore = signals.during(opened).await??;
    let began = Instant::now();
    // A signal drops the acquire, which leaves the line.
    let Some(permit) = signals.during(wait(&semaphore, args)).await?? else {
        let why = if args.wait.no_wait { "has no permit free" } else { "gave no permit in time" };
        say(&format!("{} {why}", semaphore.name()));
        return Ok(args.wait.not_acquired());
    };
    if verbose {
        let (after, token) = (began.elapsed().as_secs_f32(), permit.token());
        say(&format!("a permit of {} after {after:.2}s with fencing token {token}", semaphore.name()));
    }
    let job = Job {
        kind: &PERMIT,
        name: &args.name,
        command: &args.command,
        variables: Vec::new(),
        hold: &args.hold,
    };
    Ok(held::run_and_give_back(permit, &job, signals, Permit::release).await?.code())
}

async fn wait(semaphore: &Semaphore, args: &SemaphoreArgs) -> coord::Result<Option<Permit>> {
    match args.wait.timeout {
        _ if args.wait.no_wait => semaphore.try_acquire_many(args.take).await,
        Some(timeout) => semaphore.acquire_many_timeout(args.take, timeout).await,
        None => semaphore.acquire_many(args.take).await.map(Some),
    }
}
