//! The command runs while something is held.

use std::{ffi::OsString, ops::Deref, process::ExitStatus, time::Duration};

use coord::Hold;
use nix::sys::signal::{Signal, raise};
use tokio::time::Instant;

use super::{
    GOODBYE,
    args::{HoldArgs, OnLost},
    child::{Change, Child, exit_code},
    deadman::Deadman,
    environment::{self, Kind},
    policy::{Policy, Step},
    signals::Signals,
    terminal,
};
use crate::{Failure, code, exit::say};

/// The grace if none was asked for.
const GRACE: Duration = Duration::from_secs(5);

/// How the command is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    No,
    /// SIGTERM was sent; SIGKILL follows at this moment.
    Term(Instant),
    /// All was sent that is to be sent.
    Final,
}

/// What is run while something is held.
pub(super) struct Job<'a> {
    pub(super) kind: &'static Kind,
    /// The name of what is held.
    pub(super) name: &'a str,
    pub(super) command: &'a [OsString],
    /// What the command finds in its environment beside what is held.
    pub(super) variables: Vec<(&'static str, String)>,
    pub(super) hold: &'a HoldArgs,
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    /// As it chose, or by a signal that was meant for it.
    Itself(ExitStatus),
    /// It was stopped because what was held was being lost, or that was lost before it ended.
    Lost,
}

impl Ended {
    /// The exit code that tells of it.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Itself(status) => exit_code(status),
            Self::Lost => code::LOST,
        }
    }
}

/// Runs the command of `job` while `hold` holds; it was reaped when this returns. Does not give back.
pub(super) async fn run(hold: &Hold, job: &Job<'_>, signals: &mut Signals) -> Result<Ended, Failure> {
    let foreground = terminal::is_ours();
    let mut deadman = Deadman::start()?;
    let mut variables = environment::about(job.kind, hold, job.name);
    variables.extend_from_slice(&job.variables);
    let mut child = match Child::start(job.command, &variables, &environment::hidden(), foreground) {
        Ok(child) => child,
        Err(error) => {
            deadman.goodbye();
            return Err(error.into());
        }
    };
    deadman.watch_over(child.group());

    let on_lost = job.hold.on_lost;
    let policy = Policy::new(on_lost, job.hold.grace.unwrap_or(GRACE), hold.session().ttl());
    let mut run = Run { what: job.kind.what, hold, policy, stopping: Stopping::No, lost: false };
    run.until_ended(&mut child, &mut deadman, signals, foreground).await;
    let stopped = run.stopping != Stopping::No && on_lost != OnLost::Ignore;

    if stopped && on_lost == OnLost::Kill {
        // The command ended, but others of its group may not have. Before it is reaped: its number is ours until then.
        child.signal(Signal::SIGKILL);
    }
    // Before anything is given back: somebody else may hold it after that.
    let status = child.reap()?;
    deadman.goodbye();
    if foreground {
        terminal::take_back();
    }

    if stopped {
        return Ok(Ended::Lost);
    }
    if !hold.is_valid() && on_lost != OnLost::Ignore {
        say(&format!("the {} was lost before the command ended", job.kind.what));
        return Ok(Ended::Lost);
    }
    Ok(Ended::Itself(status))
}

/// Runs the command of `job` while `held` holds, and then gives that back by `release`, unless it is lost.
pub(super) async fn run_and_give_back<H, R>(
    held: H,
    job: &Job<'_>,
    signals: &mut Signals,
    release: impl FnOnce(H) -> R,
) -> Result<Ended, Failure>
where
    H: Deref<Target = Hold>,
    R: Future<Output = coord::Result<()>>,
{
    let ended = run(&held, job, signals).await?;
    if held.is_valid() {
        give_back(job.kind, release(held)).await;
    }
    Ok(ended)
}

/// Waits for `release` to give back what is held, but not for long.
pub(super) async fn give_back(kind: &Kind, release: impl Future<Output = coord::Result<()>>) {
    let what = kind.what;
    match tokio::time::timeout(GOODBYE, release).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => say(&format!("the {what} goes with its session, the release failed: {error}")),
        Err(_) => say(&format!("the {what} goes with its session, the store does not answer")),
    }
}

struct Run<'h> {
    what: &'static str,
    hold: &'h Hold,
    policy: Policy,
    stopping: Stopping,
    /// Whether the hold said so, as against a deadline that comes near.
    lost: bool,
}

impl Run<'_> {
    /// Follows the command to its end.
    async fn until_ended(
        &mut self,
        child: &mut Child,
        deadman: &mut Deadman,
        signals: &mut Signals,
        foreground: bool,
    ) {
        // `valid_until` moves without telling.
        let tick = (self.hold.session().ttl() / 20).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let hold = self.hold;
        let lost = hold.lost();
        tokio::pin!(lost);
        loop {
            let now = Instant::now();
            let wake = self.act(now, child).unwrap_or(now + tick).min(now + tick);
            self.arm(deadman);
            tokio::select! {
                biased;
                change = child.change() => match change {
                    Change::Ended => return,
                    Change::Stopped if foreground => pause_with(child),
                    // Somebody stopped it on purpose. What is held stays so.
                    Change::Stopped => {}
                },
                () = &mut lost, if !self.lost => self.lost = true,
                signal = signals.next() => child.signal(signal),
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Tells the deadman when to act in our place.
    fn arm(&self, deadman: &mut Deadman) {
        if self.policy.on_lost() == OnLost::Kill && self.stopping != Stopping::Final {
            let at = self.policy.kill_at(self.hold.valid_until());
            deadman.kill_at(match self.stopping {
                Stopping::Term(kill_at) => kill_at.min(at),
                _ => at,
            });
        }
    }

    /// Does what is due, and tells when to look again.
    fn act(&mut self, now: Instant, child: &Child) -> Option<Instant> {
        if self.stopping == Stopping::Final {
            return None;
        }
        // The clock is asked too: after a freeze no timer may have run yet.
        let lost = self.lost || !self.hold.is_valid();
        let step = self.policy.step(now, self.hold.valid_until(), lost);
        let told = match self.stopping {
            Stopping::Term(kill_at) => Some(kill_at),
            _ => None,
        };
        let kill_at = match (step, told) {
            (Step::Run(at), None) => return Some(at),
            (Step::Term(kill_at), None) => kill_at,
            (Step::Kill, _) => now,
            // Told to stop is told to stop, also if the session has recovered meanwhile.
            (Step::Run(_) | Step::Term(_), Some(kill_at)) if now < kill_at => return Some(kill_at),
            (Step::Run(_) | Step::Term(_), Some(_)) => now,
        };
        let what = self.what;
        let why = if lost {
            format!("the {what} is lost")
        } else {
            format!("the {what} is about to be lost, the store does not answer")
        };
        match self.policy.on_lost() {
            OnLost::Ignore => {
                say(&format!("{why}; the command goes on, as you asked"));
                self.stopping = Stopping::Final;
                return None;
            }
            OnLost::Term => {
                say(&format!("{why}; the command is told to stop"));
                tell(child);
                self.stopping = Stopping::Final;
                return None;
            }
            OnLost::Kill => {}
        }
        if told.is_none() {
            tell(child);
        }
        if now >= kill_at {
            say(&format!("{why}; the command is killed"));
            child.signal(Signal::SIGKILL);
            self.stopping = Stopping::Final;
            return None;
        }
        say(&format!("{why}; the command has {:.1}s to stop", self.policy.grace().as_secs_f32()));
        self.stopping = Stopping::Term(kill_at);
        Some(kill_at)
    }
}

/// SIGTERM, and SIGCONT so that it arrives also at a command that is stopped.
fn tell(child: &Child) {
    child.signal(Signal::SIGTERM);
    child.signal(Signal::SIGCONT);
}

/// Ctrl-Z stopped the command: stop too, so that the shell gets its terminal, and go on together.
///
/// Nobody renews the session meanwhile. If that lasts too long, the deadman kills the command.
pub(crate) fn pause_with(child: &Child) {
    terminal::take_back();
    if let Err(error) = raise(Signal::SIGSTOP) {
        tracing::warn!(%error, "cannot stop");
    }
    // Continued, in the foreground or, by `bg`, in the background.
    if terminal::is_ours() {
        terminal::give_to(child.group());
    }
    child.signal(Signal::SIGCONT);
}
