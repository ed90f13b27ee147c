//! When the command must stop.
//!
//! Nobody else can be granted what is held before `valid_until`, unless the session is renewed first. So the command must be
//! gone by then: SIGKILL goes out a margin before, SIGTERM a grace before that. While renewals arrive `valid_until` moves
//! ahead and none of this comes near. What is lost without warning (its session was ended or its entry deleted by
//! somebody, or coord itself was frozen) may be with another already: then nothing is left to wait for.

use std::time::Duration;

use tokio::time::Instant;

use super::args::OnLost;

/// The times of one hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    on_lost: OnLost,
    grace: Duration,
    margin: Duration,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing before this moment.
    Run(Instant),
    /// SIGTERM, and SIGKILL at this moment.
    Term(Instant),
    /// SIGKILL, now.
    Kill,
}

/// The grace that a session of `ttl` has room for: at most a third of it.
///
/// The session's own deadline is nine tenths of the ttl after the last renewal, and the next renewal must have a chance to
/// arrive before the command is told to stop.
pub(super) fn capped(grace: Duration, ttl: Duration) -> Duration {
    grace.min(ttl / 3)
}

impl Policy {
    /// The times for a session of `ttl`.
    pub(super) fn new(on_lost: OnLost, grace: Duration, ttl: Duration) -> Self {
        let margin = (ttl / 20).clamp(Duration::from_millis(20), Duration::from_millis(500));
        Self { on_lost, grace: capped(grace, ttl), margin }
    }

    pub(super) const fn on_lost(&self) -> OnLost {
        self.on_lost
    }

    /// How long the command has to stop.
    pub(super) const fn grace(&self) -> Duration {
        self.grace
    }

    /// When the command must be killed at the latest, if nothing renews the session.
    pub(super) fn kill_at(&self, valid_until: Instant) -> Instant {
        valid_until.checked_sub(self.margin).unwrap_or(valid_until)
    }

    /// What is to be done at `now`, before SIGTERM was sent.
    pub(super) fn step(&self, now: Instant, valid_until: Instant, lost: bool) -> Step {
        let kill_at = self.kill_at(valid_until);
        let term_at = kill_at.checked_sub(self.grace).unwrap_or(kill_at);
        if lost || now >= kill_at {
            Step::Kill
        } else if now >= term_at {
            Step::Term(kill_at)
        } else {
            Step::Run(term_at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn term_leaves_the_grace_and_kill_leaves_the_margin() {
        let policy = Policy::new(OnLost::Kill, 2 * SECOND, 15 * SECOND);
        let now = Instant::now();
        let until = now + 10 * SECOND;
        let kill_at = until - SECOND / 2;
        assert_eq!(policy.step(now, until, false), Step::Run(kill_at - 2 * SECOND));
        assert_eq!(policy.step(kill_at - 2 * SECOND, until, false), Step::Term(kill_at));
        assert_eq!(policy.step(kill_at, until, false), Step::Kill);
        assert_eq!(policy.step(until + SECOND, until, false), Step::Kill);
    }

    #[test]
    fn what_is_lost_without_warning_has_no_grace() {
        let policy = Policy::new(OnLost::Kill, 5 * SECOND, 15 * SECOND);
        let now = Instant::now();
        assert_eq!(policy.step(now, now + 10 * SECOND, true), Step::Kill);
    }

    /// With renewals every third of the ttl, `valid_until` is never nearer than this in good times.
    #[test]
    fn a_session_that_is_renewed_in_time_is_left_alone() {
        for ttl in [Duration::from_millis(500), SECOND, 15 * SECOND, 600 * SECOND] {
            let policy = Policy::new(OnLost::Kill, 3600 * SECOND, ttl);
            let now = Instant::now();
            let until = now + ttl.mul_f64(0.9) - ttl / 3;
            assert!(matches!(policy.step(now, until, false), Step::Run(_)), "{ttl:?}");
        }
    }
}
