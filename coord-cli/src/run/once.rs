//! `once`: runs a command once for each period, on whichever host comes first.

use std::io::{IsTerminal, stderr};

use coord::{
    Candidate, Coord, Dir, Leadership, Marker, MarkerState, RunOnce, RunOutcome, SessionKeeper, Unfinished,
};
use tokio::{sync::oneshot, time::timeout};

use super::{
    args::OnceArgs,
    end,
    environment::{ONCE, refuse_nested},
    held::{self, Ended, Job, give_back},
    own_id,
    signals::Signals,
    standing, tell_first,
};
use crate::{Failure, code, exit::say, output::printable_text, store::Source};

/// Where the markers of the runs are, below the job's directory.
const RUNS: &str = "runs";
/// Where those stand who would run it.
const ELECTION: &str = "election";

pub(crate) async fn run(source: &Source, args: &OnceArgs, verbose: bool) -> Result<u8, Failure> {
    let mut signals = Signals::install()?;
    let coord = signals.during(source.connect()).await??;
    let once = Once {
        args,
        runs: RunOnce::new(args.name.as_str())?.with_unfinished(match args.retry {
            true => Unfinished::RunAgain,
            false => Unfinished::Skip,
        }),
        talks: verbose || stderr().is_terminal(),
    };
    // Most who come find it done, and need no session for that.
    let marker = signals.during(once.runs.marker(&coord, RUNS, &args.period)).await??;
    if let Some(marker) = marker.filter(|marker| marker.state() == MarkerState::Finished) {
        return Ok(once.done(&marker));
    }
    signals.during(refuse_nested(&ONCE, &coord, &args.name)).await??;
    let keeper = standing(&coord, &args.hold);
    let code = once.stand(&coord, &keeper, &mut signals).await;
    end(keeper.close(), &coord, &mut signals).await;
    code
}

struct Once<'a> {
    args: &'a OnceArgs,
    runs: RunOnce,
    /// Whether what is as it should be is told, too.
    talks: bool,
}

impl Once<'_> {
    /// Waits for the others who run it, and runs it if it is still to be run.
    async fn stand(
        &self,
        coord: &Coord,
        keeper: &SessionKeeper,
        signals: &mut Signals,
    ) -> Result<u8, Failure> {
        let session = signals.during(keeper.session()).await??;
        tell_first(&ONCE, coord, &self.args.hold, session.ttl());
        let election = Dir::parse(&self.args.name)?.dir(ELECTION)?;
        let candidate = Candidate::new(keeper, election, self.args.id.clone().unwrap_or_else(own_id))?;
        let turn = candidate.leadership();
        let leadership = match self.args.timeout {
            None => signals.during(turn).await??,
            Some(within) => match signals.during(timeout(within, turn)).await? {
                Ok(leadership) => leadership?,
                Err(_) => {
                    say(&format!("{} is being run by another", self.args.name));
                    return Ok(code::NOT_ACQUIRED);
                }
            },
        };
        let code = self.run(&leadership, signals).await;
        if leadership.is_valid() {
            give_back(&ONCE, leadership.resign()).await;
        }
        code
    }

    /// Runs it, if no marker says that it ran.
    async fn run(&self, leadership: &Leadership, signals: &mut Signals) -> Result<u8, Failure> {
        let (begin, begun) = oneshot::channel();
        let (tell, told) = oneshot::channel();
        // The guard drops its body when the leadership is lost. So the command runs beside it, to be stopped and reaped.
        let guarded = self.runs.run(leadership, RUNS, &self.args.period, async move || {
            let _ = begin.send(());
            told.await.unwrap_or(Err(()))
        });
        let work = async {
            if begun.await.is_err() {
                return Ok(None);
            }
            let ended = held::run(leadership, &self.job(leadership), signals).await;
            let well = matches!(ended, Ok(Ended::Itself(status)) if status.success());
            // Nobody listens if the leadership is lost.
            let _ = tell.send(if well { Ok(()) } else { Err(()) });
            ended.map(Some)
        };
        let (ran, ended) = tokio::join!(guarded, work);
        let ended = ended?;
        match (ran, ended) {
            (Err(error), Some(Ended::Itself(status))) if status.success() => {
                say(&format!("the command ended well, but that could not be marked: {error}"));
                Ok(code::LOST)
            }
            (_, Some(ended)) => Ok(ended.code()),
            (Ok(RunOutcome::Unfinished(marker)), None) => {
                let (by, name) = (printable_text(marker.by()), &self.args.name);
                say(&format!("{by} began {name} for this period and did not finish; --retry runs it again"));
                Ok(code::NO)
            }
            (Ok(RunOutcome::Finished(marker)), None) => Ok(self.done(&marker)),
            // Neither is without a command that ran.
            (Ok(RunOutcome::Ran(()) | RunOutcome::Failed(())), None) => Ok(code::FAILED),
            (Err(error), None) => Err(error.into()),
        }
    }

    fn job(&self, leadership: &Leadership) -> Job<'_> {
        Job {
            kind: &ONCE,
            name: &self.args.name,
            command: &self.args.command,
            variables: vec![
                ("COORD_ONCE_PERIOD", self.args.period.clone()),
                ("COORD_EPOCH", leadership.epoch().to_string()),
            ],
            hold: &self.args.hold,
        }
    }

    /// Somebody has run it.
    fn done(&self, marker: &Marker) -> u8 {
        if self.talks {
            say(&format!("{} has run {} for this period", printable_text(marker.by()), self.args.name));
        }
        self.args.done_exit_code
    }
}
