//! The command runs while the lock is held.

use std::time::Duration;

use coord::LockGuard;
use nix::sys::signal::{Signal, raise};
use tokio::time::Instant;

use super::{
    GOODBYE,
    child::{Change, Child, exit_code},
    deadman::Deadman,
    environment,
    policy::{Policy, Step},
    signals::Signals,
    terminal,
};
use crate::{
    Failure,
    args::{LockArgs, OnLost},
    code,
    exit::say,
};

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

/// Runs the command of `args` while `guard` holds, gives the lock back, and returns the exit code.
pub(super) async fn run(guard: LockGuard, args: &LockArgs, signals: &mut Signals) -> Result<u8, Failure> {
    let foreground = terminal::is_ours();
    let mut deadman = Deadman::start()?;
    let variables = environment::about(&guard, &args.name);
    let mut child = match Child::start(&args.command, &variables, &environment::hidden(), foreground) {
        Ok(child) => child,
        Err(error) => {
            deadman.goodbye();
            return Err(error.into());
        }
    };
    deadman.watch_over(child.group());

    let policy = Policy::new(args.on_lost, args.grace.unwrap_or(GRACE), guard.session().ttl());
    let mut run = Run { guard: &guard, policy, stopping: Stopping::No, lost: false };
    run.until_ended(&mut child, &mut deadman, signals, foreground).await;
    let stopped = run.stopping != Stopping::No && policy.on_lost() != OnLost::Ignore;

    if stopped && policy.on_lost() == OnLost::Kill {
        // The command ended, but others of its group may not have. Before it is reaped: its number is ours until then.
        child.signal(Signal::SIGKILL);
    }
    // Before the release: somebody else may hold the lock after it.
    let status = child.reap()?;
    deadman.goodbye();
    if foreground {
        terminal::take_back();
    }

    let held = guard.is_valid();
    if held {
        give_back(guard).await;
    }
    if stopped {
        return Ok(code::LOST);
    }
    if !held && policy.on_lost() != OnLost::Ignore {
        say("the lock was lost before the command ended");
        return Ok(code::LOST);
    }
    Ok(exit_code(status))
}

async fn give_back(guard: LockGuard) {
    match tokio::time::timeout(GOODBYE, guard.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => say(&format!("the lock goes with its session, the release failed: {error}")),
        Err(_) => say("the lock goes with its session, the store does not answer"),
    }
}

struct Run<'g> {
    guard: &'g LockGuard,
    policy: Policy,
    stopping: Stopping,
    /// Whether the guard said so, as against a deadline that comes near.
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
        let tick = (self.guard.session().ttl() / 20).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let guard = self.guard;
        let lost = guard.lost();
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
                    // Somebody stopped it on purpose. It keeps the lock.
                    Change::Stopped => {}
                },
                () = &mut lost, if !self.lost => self.lost = true,
                arrived = signals.next() => child.signal(arrived.signal),
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Tells the deadman when to act in our place.
    fn arm(&self, deadman: &mut Deadman) {
        if self.policy.on_lost() == OnLost::Kill && self.stopping != Stopping::Final {
            let at = self.policy.kill_at(self.guard.valid_until());
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
        let lost = self.lost || !self.guard.is_valid();
        let step = self.policy.step(now, self.guard.valid_until(), lost);
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
        let why =
            if lost { "the lock is lost" } else { "the lock is about to be lost, the store does not answer" };
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
