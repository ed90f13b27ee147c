//! `barrier`: a gate for all, or a group that begins and ends together.

use coord::{Barrier, DoubleBarrier, Entered, Session};

use super::{
    args::{BarrierAction, BarrierArgs, WaitArgs},
    environment::PLACE,
    held::{self, Job},
    in_session,
    signals::Signals,
};
use crate::{Failure, code, exit::say, store::Source};

pub(crate) async fn run(source: &Source, args: &BarrierArgs, verbose: bool) -> Result<u8, Failure> {
    let Some(parties) = args.parties else { return gate(source, args).await };
    let mut signals = Signals::install()?;
    let coord = signals.during(source.connect()).await??;
    let work = async |session: &Session, signals: &mut Signals| {
        let barrier = DoubleBarrier::new(session, args.name.as_str(), parties.into())?;
        meet(&barrier, args, signals, verbose).await
    };
    in_session(&PLACE, &coord, &args.hold, &mut signals, work).await
}

/// The gate, which is one key and needs no session.
async fn gate(source: &Source, args: &BarrierArgs) -> Result<u8, Failure> {
    if args.action != BarrierAction::Wait
        && let Some(option) = args.wait.given()
    {
        say(&format!("{option} is for waiting, and who sets or removes a barrier does not wait"));
        return Ok(code::USAGE);
    }
    let barrier = Barrier::new(&source.connect().await?, args.name.as_str())?;
    let name = barrier.name();
    match args.action {
        BarrierAction::Wait => {
            let open = Signals::install()?.during(open(&barrier, &args.wait)).await??;
            if !open {
                let why = if args.wait.no_wait { "is set" } else { "was not removed in time" };
                say(&format!("{name} {why}"));
                return Ok(args.wait.not_acquired());
            }
        }
        BarrierAction::Set => {
            if !barrier.set().await? {
                say(&format!("{name} is set already"));
                return Ok(code::CONFLICT);
            }
        }
        BarrierAction::Remove => {
            if !barrier.remove().await? {
                say(&format!("{name} is not set"));
                return Ok(code::NO);
            }
        }
    }
    Ok(code::YES)
}

async fn open(barrier: &Barrier, args: &WaitArgs) -> coord::Result<bool> {
    match args.timeout {
        _ if args.no_wait => barrier.is_set().await.map(|set| !set),
        Some(timeout) => barrier.wait_timeout(timeout).await,
        None => barrier.wait().await.map(|()| true),
    }
}

/// Enters with the others, runs the command if there is one, and leaves with them.
async fn meet(
    barrier: &DoubleBarrier,
    args: &BarrierArgs,
    signals: &mut Signals,
    verbose: bool,
) -> Result<u8, Failure> {
    let Some(inside) = signals.during(enter(barrier, &args.wait)).await?? else {
        let when = if args.wait.no_wait { "now" } else { "in time" };
        say(&format!("not all came to {} {when}", barrier.name()));
        return Ok(args.wait.not_acquired());
    };
    if verbose {
        say(&format!("at {} with {} in all", barrier.name(), inside.members()));
    }
    let code = if args.command.is_empty() { code::YES } else { work(&inside, args, signals).await? };
    if !inside.is_valid() {
        return Ok(if code == code::YES { code::LOST } else { code });
    }
    // We have left at once, whatever ends the waiting for the others.
    match signals.during(inside.leave()).await? {
        Ok(()) => Ok(code),
        Err(error) => {
            say(&format!("whether the others are done is not known: {error}"));
            Ok(code::LOST)
        }
    }
}

async fn work(inside: &Entered, args: &BarrierArgs, signals: &mut Signals) -> Result<u8, Failure> {
    let job = Job {
        kind: &PLACE,
        name: &args.name,
        command: &args.command,
        variables: vec![("COORD_BARRIER_MEMBERS", inside.members().to_string())],
        hold: &args.hold,
    };
    Ok(held::run(inside, &job, signals).await?.code())
}

async fn enter(barrier: &DoubleBarrier, args: &WaitArgs) -> coord::Result<Option<Entered>> {
    match args.timeout {
        _ if args.no_wait => barrier.enter_timeout(std::time::Duration::ZERO).await,
        Some(timeout) => barrier.enter_timeout(timeout).await,
        None => barrier.enter().await.map(Some),
    }
}
