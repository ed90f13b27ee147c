//! `elect`: runs a command while leading, term after term.

use coord::{Candidate, CandidateOptions, Coord, Leadership, SessionKeeper};

use super::{
    args::ElectArgs,
    end,
    environment::{LEADERSHIP, refuse_nested},
    held::{self, Ended, Job},
    own_id,
    signals::Signals,
    standing,
};
use crate::{Failure, exit::say, store::Source};

pub(crate) async fn run(source: &Source, args: &ElectArgs, verbose: bool) -> Result<u8, Failure> {
    let mut signals = Signals::install()?;
    let coord = signals.unless_ending(source.connect()).await??;
    signals.unless_ending(refuse_nested(&LEADERSHIP, &coord, &args.name)).await??;
    let keeper = standing(&coord, &args.hold);
    let code = stand(&coord, &keeper, args, &mut signals, verbose).await;
    end(keeper.close(), &coord, &mut signals).await;
    code
}

/// Stands until the command ends by itself, or a signal asks to end.
async fn stand(
    coord: &Coord,
    keeper: &SessionKeeper,
    args: &ElectArgs,
    signals: &mut Signals,
    verbose: bool,
) -> Result<u8, Failure> {
    let session = signals.unless_ending(keeper.session()).await??;
    super::tell_first(&LEADERSHIP, coord, &args.hold, session.ttl());
    let id = args.id.clone().unwrap_or_else(own_id);
    let options = CandidateOptions::default().with_priority(args.priority);
    let candidate = Candidate::with_options(keeper, args.name.as_str(), id, options)?;
    loop {
        let leadership = signals.unless_ending(candidate.leadership()).await??;
        let epoch = leadership.epoch().to_string();
        if verbose {
            say(&format!("{} leads {} in epoch {epoch}", candidate.id(), args.name));
        }
        let job = Job {
            kind: &LEADERSHIP,
            name: &args.name,
            command: &args.command,
            variables: vec![("COORD_EPOCH", epoch), ("COORD_CANDIDATE", candidate.id().to_owned())],
            hold: &args.hold,
        };
        match held::run_and_give_back(leadership, &job, signals, Leadership::resign).await? {
            Ended::Lost if !signals.asked_to_end() => say(&format!("standing again for {}", args.name)),
            ended => return Ok(ended.code()),
        }
    }
}
