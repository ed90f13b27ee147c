//! The way between a client and the store: what happens to one call, and for how long the way is closed.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    faults::{Faults, Kind},
    rng::Rng,
};

/// How long a client waits for a reply.
pub(crate) const PATIENCE: Duration = Duration::from_millis(800);

/// The longest time that a request may be on its way.
pub(crate) const LATEST: Duration = Duration::from_secs(9);

/// What happens to one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    /// How long the request travels.
    pub(crate) there: Duration,
    /// How long the reply travels.
    pub(crate) back: Duration,
    /// What else goes wrong, if anything.
    pub(crate) fault: Option<Kind>,
    /// For a request that arrives twice: how much later.
    pub(crate) again: Duration,
}

/// A client's way to the store.
#[derive(Debug)]
pub(crate) struct Link {
    faults: Faults,
    rng: Rng,
    /// For renewals alone, so that a run without their fault is otherwise the same.
    renewals: Rng,
    cut_until: Option<Instant>,
    mute_until: Option<Instant>,
    healed: bool,
    /// How many messages were delayed.
    pub(crate) delayed: u64,
}

impl Link {
    pub(crate) const fn new(faults: Faults, rng: Rng, renewals: Rng) -> Self {
        Self { faults, rng, renewals, cut_until: None, mute_until: None, healed: false, delayed: 0 }
    }

    /// Draws what happens to a call. `twice` says whether it may arrive twice.
    pub(crate) fn fate(&mut self, twice: bool) -> Fate {
        // Always the same number of draws, so that a run with one fault less is otherwise the same.
        let (there, back) = (self.travel(), self.travel());
        let (lot, delay, again) =
            (self.rng.range(0, 1000), self.rng.range(900, 9000), self.rng.range(1, 4000));
        let mut fate = Fate { there, back, fault: None, again: Duration::from_millis(again) };
        let fault = match lot {
            0..30 => Kind::RequestLost,
            30..70 => Kind::ReplyLost,
            70..85 => Kind::Refused,
            85..105 => Kind::Late,
            105..135 if twice => Kind::Twice,
            _ => return fate,
        };
        if self.faults.has(fault) && !self.healed {
            fate.fault = Some(fault);
            if fault == Kind::Late {
                fate.there = Duration::from_millis(delay);
            }
        }
        fate
    }

    /// How long a message travels: a millisecond or two, and sometimes much longer.
    pub(crate) fn travel(&mut self) -> Duration {
        let (lot, quick, slow) = (self.rng.range(0, 1000), self.rng.range(1, 4), self.rng.range(10, 780));
        let delayed = lot < 60 && self.faults.has(Kind::Delayed) && !self.healed;
        self.delayed += u64::from(delayed);
        Duration::from_millis(if delayed { slow } else { quick })
    }

    /// Whether a fault of this kind strikes now, with this probability in thousandths.
    pub(crate) fn strikes(&mut self, kind: Kind, thousandths: u64) -> bool {
        self.rng.chance(thousandths) && self.faults.has(kind) && !self.healed
    }

    /// Draws whether the reply to a renewal is the last for a while: how long it takes, and how long nothing follows.
    pub(crate) fn last_reply(&mut self) -> Option<(Duration, Duration)> {
        let (struck, slow, cut) =
            (self.renewals.chance(60), self.renewals.range(400, 780), self.renewals.range(3500, 6500));
        let strikes = struck && self.faults.has(Kind::LastReply) && !self.healed;
        strikes.then(|| (Duration::from_millis(slow), Duration::from_millis(cut)))
    }

    pub(crate) const fn range(&mut self, from: u64, to: u64) -> u64 {
        self.rng.range(from, to)
    }

    /// Closes the way in both directions.
    pub(crate) fn cut(&mut self, until: Instant) {
        if !self.healed {
            self.cut_until = self.cut_until.max(Some(until));
        }
    }

    /// Closes the way from the store to the client.
    pub(crate) fn mute(&mut self, until: Instant) {
        self.mute_until = self.mute_until.max(Some(until));
    }

    /// Until when requests do not arrive.
    pub(crate) fn closed_to_requests(&self) -> Option<Instant> {
        self.cut_until.filter(|until| *until > Instant::now())
    }

    /// Until when replies and events do not arrive.
    pub(crate) fn closed_to_replies(&self) -> Option<Instant> {
        self.cut_until.max(self.mute_until).filter(|until| *until > Instant::now())
    }

    /// From now on nothing goes wrong.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.cut_until = None;
        self.mute_until = None;
    }
}
