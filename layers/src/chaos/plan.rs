//! Which fault happens to which call.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::gate::{Gate, Held, gate};

/// A method of [`Backend`](coord_api::Backend).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// [`get`](coord_api::Backend::get)
    Get,
    /// [`list`](coord_api::Backend::list)
    List,
    /// [`commit`](coord_api::Backend::commit)
    Commit,
    /// [`create_ordered`](coord_api::Backend::create_ordered)
    CreateOrdered,
    /// [`wait`](coord_api::Backend::wait)
    Wait,
    /// [`watch`](coord_api::Backend::watch)
    Watch,
    /// [`open_session`](coord_api::Backend::open_session)
    OpenSession,
    /// [`close`](coord_api::Backend::close)
    Close,
}

impl Method {
    const COUNT: usize = 8;

    /// Whether a lost reply leaves open what the store holds.
    pub(super) const fn writes(self) -> bool {
        matches!(self, Self::Commit | Self::CreateOrdered | Self::OpenSession | Self::Close)
    }

    /// Whether odds apply: not to calls that heal by contract, nor to the end.
    const fn by_odds(self) -> bool {
        !matches!(self, Self::Wait | Self::Watch | Self::Close)
    }
}

/// How likely faults are, each from 0 to 1 a call. They do not apply to `wait`, `watch` and `close`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Odds {
    /// The request is not sent.
    pub fail_before: f64,
    /// The call is applied and its reply lost.
    pub lose_reply: f64,
    /// The request is sent late.
    pub delay: f64,
    /// At most this late.
    pub max_delay: Duration,
}

/// Which fault happens to which call; clones share it.
///
/// The nth call is counted from now and per method; 1 is the next. A planned fault goes before the odds.
#[derive(Clone, Debug, Default)]
pub struct ChaosPlan(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    calls: [u64; Method::COUNT],
    planned: Vec<(Method, u64, Fault)>,
    odds: Option<(Odds, StdRng)>,
}

/// What happens to a call.
#[derive(Debug)]
pub(super) enum Fault {
    FailBefore,
    LoseReply,
    HoldReply(Held),
    Delay(Duration),
}

impl ChaosPlan {
    /// No faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Faults by `odds`: the same seed and the same calls give the same faults.
    #[must_use]
    pub fn seeded(seed: u64, odds: Odds) -> Self {
        let plan = Self::new();
        plan.state().odds = Some((odds, StdRng::seed_from_u64(seed)));
        plan
    }

    /// The nth call of `method` fails before it is sent.
    pub fn fail_before(&self, method: Method, nth: u64) {
        self.plan(method, nth, Fault::FailBefore);
    }

    /// The nth call of `method` is applied and its reply lost. A session whose reply is lost ends at once.
    pub fn lose_reply(&self, method: Method, nth: u64) {
        self.plan(method, nth, Fault::LoseReply);
    }

    /// The nth call of `method` is applied and its reply waits at the gate.
    #[must_use = "dropping the gate opens it"]
    pub fn hold_reply(&self, method: Method, nth: u64) -> Gate {
        let (gate, held) = gate();
        self.plan(method, nth, Fault::HoldReply(held));
        gate
    }

    /// The nth call of `method` is sent after `span`.
    pub fn delay(&self, method: Method, nth: u64, span: Duration) {
        self.plan(method, nth, Fault::Delay(span));
    }

    /// How many calls of `method` there were, failed ones too.
    #[must_use]
    pub fn calls(&self, method: Method) -> u64 {
        self.state().calls[method as usize]
    }

    /// How many calls there were in all.
    #[must_use]
    pub fn total_calls(&self) -> u64 {
        self.state().calls.iter().sum()
    }

    fn plan(&self, method: Method, nth: u64, fault: Fault) {
        let mut state = self.state();
        let at = state.calls[method as usize].saturating_add(nth.max(1));
        state.planned.push((method, at, fault));
    }

    /// Counts a call and tells what happens to it.
    pub(super) fn next(&self, method: Method) -> Option<Fault> {
        let mut state = self.state();
        state.calls[method as usize] += 1;
        let nth = state.calls[method as usize];
        if let Some(i) = state.planned.iter().position(|(m, at, _)| (*m, *at) == (method, nth)) {
            return Some(state.planned.swap_remove(i).2);
        }
        let (odds, rng) = state.odds.as_mut().filter(|_| method.by_odds())?;
        // One draw a call, so that a fault does not shift the draws of later calls.
        let (draw, late): (f64, f64) = (rng.random(), rng.random());
        if draw < odds.fail_before {
            Some(Fault::FailBefore)
        } else if draw < odds.fail_before + odds.lose_reply {
            Some(Fault::LoseReply)
        } else if draw < odds.fail_before + odds.lose_reply + odds.delay {
            Some(Fault::Delay(odds.max_delay.mul_f64(late)))
        } else {
            None
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
