//! Instances that fail are left alone for a while.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

/// The longest rest, so that adding it to a time cannot overflow.
const REST_LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// When an instance counts as down, and for how long.
///
/// A registry hears late of a crash: only when the session of the instance has ended. Whoever calls the instance hears
/// at once. So each consumer decides by what it sees, for itself: after so many failures within a window an instance is
/// *down* and is not chosen. After a rest it gets one request, or is [probed](crate::Probing) where there are probes:
/// with a success it is back, else it rests twice as long. Of requests that began before it went down, and end late,
/// neither failures nor successes count.
///
/// If all instances are down, the network of the consumer may be what is broken: [`AllDown`] says what happens then.
///
/// ```
/// use std::time::Duration;
/// use coord_registry::{AllDown, DownPolicy};
///
/// let policy = DownPolicy::new(2, Duration::from_secs(30))
///     .with_rest(Duration::from_secs(1), Duration::from_secs(30))
///     .with_all_down(AllDown::Refuse);
/// # let _ = policy;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownPolicy {
    /// `None` for never.
    failures: Option<u32>,
    within: Duration,
    rest: Duration,
    rest_max: Duration,
    all_down: AllDown,
}

/// What happens while all instances that take requests are down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllDown {
    /// Choose among all of them, as if none were down: one request too many to a dead instance does less harm than none
    /// to a healthy one. A success brings an instance back at once.
    #[default]
    TryAnyway,
    /// Fail with [`Unavailable`](coord_api::ErrorKind::Unavailable), until one has rested or was probed.
    Refuse,
}

impl DownPolicy {
    /// Down after this many failures within the window; 0 counts as 1.
    #[must_use]
    pub const fn new(failures: u32, within: Duration) -> Self {
        Self {
            failures: Some(if failures == 0 { 1 } else { failures }),
            within,
            rest: Duration::from_secs(5),
            rest_max: Duration::from_secs(60),
            all_down: AllDown::TryAnyway,
        }
    }

    /// Down after the first failure: for requests that hardly ever fail while the instance lives.
    #[must_use]
    pub const fn first_failure() -> Self {
        Self::new(1, Duration::ZERO)
    }

    /// Never down, whatever requests fail; [probes](crate::Probing) still take an instance out.
    #[must_use]
    pub const fn never() -> Self {
        let mut never = Self::first_failure();
        never.failures = None;
        never
    }

    /// Sets how long an instance rests, and the longest rest of one that goes down again and again. Usually 5 and 60
    /// seconds.
    #[must_use]
    pub const fn with_rest(mut self, rest: Duration, at_most: Duration) -> Self {
        self.rest = rest;
        self.rest_max = at_most;
        self
    }

    /// Sets what happens while all are down.
    #[must_use]
    pub const fn with_all_down(mut self, all_down: AllDown) -> Self {
        self.all_down = all_down;
        self
    }

    pub(crate) const fn all_down(&self) -> AllDown {
        self.all_down
    }
}

impl Default for DownPolicy {
    /// Three failures within ten seconds.
    fn default() -> Self {
        Self::new(3, Duration::from_secs(10))
    }
}

/// Which instances are down, by id.
#[derive(Debug)]
pub(crate) struct Downs {
    policy: DownPolicy,
    /// Whether those that have rested get a request, or wait for a probe.
    trials: bool,
    /// Grows whenever an instance goes down or comes back.
    turn: u64,
    /// Of those that failed once.
    known: BTreeMap<String, Health>,
}

#[derive(Debug, Default)]
struct Health {
    /// The failures within the window, while it is not down.
    failures: VecDeque<Instant>,
    /// Until when it rests, if it is down.
    down: Option<Instant>,
    /// The last rest.
    rest: Duration,
    /// When it was last let in.
    back: Option<Instant>,
    /// The turn in which it went down or came back.
    turn: u64,
}

/// A request on its way: what its end is to be reported with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// When it began.
    turn: u64,
    /// Whether it decides if the instance is let in.
    trial: bool,
}

/// What a report changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is down now, for this long.
    WentDown(Duration),
    /// It is no longer down.
    CameBack,
}

impl Downs {
    pub(crate) const fn new(policy: DownPolicy, trials: bool) -> Self {
        Self { policy, trials, turn: 0, known: BTreeMap::new() }
    }

    pub(crate) const fn policy(&self) -> &DownPolicy {
        &self.policy
    }

    /// All that are down, whether or not they have rested.
    pub(crate) fn down(&self) -> BTreeSet<String> {
        self.ids(|health| health.down.is_some())
    }

    /// Those that may not be chosen now.
    pub(crate) fn out(&self, now: Instant) -> BTreeSet<String> {
        self.ids(|health| health.down.is_some_and(|until| !self.trials || now < until))
    }

    fn ids(&self, of: impl Fn(&Health) -> bool) -> BTreeSet<String> {
        self.known.iter().filter(|(_, health)| of(health)).map(|(id, _)| id.clone()).collect()
    }

    /// A request to `id` begins; with `anyway` also if it is down. `None` if it may not be chosen after all.
    pub(crate) fn begin(&mut self, id: &str, now: Instant, anyway: bool) -> Option<Ticket> {
        let health = self.known.get_mut(id).filter(|health| health.down.is_some());
        let Some(health) = health else { return Some(Ticket { turn: self.turn, trial: false }) };
        let trial = self.trials && health.down.is_some_and(|until| now >= until);
        if trial {
            // One at a time, and the next one after another rest if this one is never heard of again.
            health.down = Some(now + health.rest);
        }
        (trial || anyway).then_some(Ticket { turn: self.turn, trial })
    }

    /// The request was answered.
    pub(crate) fn succeeded(&mut self, id: &str, ticket: Ticket, now: Instant) -> Option<Turn> {
        let health = self.known.get_mut(id)?;
        if ticket.turn < health.turn || health.down.is_none() {
            return None;
        }
        self.turn += 1;
        health.come_back(now, self.turn);
        Some(Turn::CameBack)
    }

    /// The instance failed to answer.
    pub(crate) fn failed(&mut self, id: &str, ticket: Ticket, now: Instant) -> Option<Turn> {
        let most = usize::try_from(self.policy.failures?).unwrap_or(usize::MAX);
        let health = self.known.entry(id.to_owned()).or_default();
        if ticket.turn < health.turn {
            return None;
        }
        if health.down.is_some() {
            // Others of its kind were sent although it is down: they say nothing new.
            return ticket.trial.then(|| health.rest_again(&self.policy, now));
        }
        let window = self.policy.within;
        health.failures.push_back(now);
        while health.failures.front().is_some_and(|first| now.duration_since(*first) > window) {
            health.failures.pop_front();
        }
        (health.failures.len() >= most).then(|| {
            self.turn += 1;
            health.go_down(&self.policy, now, self.turn)
        })
    }

    /// The probes of `id` say that it lives.
    pub(crate) fn probe_passed(&mut self, id: &str, now: Instant) -> Option<Turn> {
        let health = self.known.get_mut(id)?;
        if health.down.is_none_or(|until| now < until) {
            return None;
        }
        self.turn += 1;
        health.come_back(now, self.turn);
        Some(Turn::CameBack)
    }

    /// The probes of `id` say that it is dead.
    pub(crate) fn probes_failed(&mut self, id: &str, now: Instant) -> Option<Turn> {
        let health = self.known.entry(id.to_owned()).or_default();
        if let Some(until) = health.down {
            if now >= until {
                health.down = Some(now);
            }
            return None;
        }
        self.turn += 1;
        Some(health.go_down(&self.policy, now, self.turn))
    }

    /// Forgets what is known of those that left or were started again.
    pub(crate) fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        self.known.retain(|id, _| stays(id));
    }
}

impl Health {
    fn go_down(&mut self, policy: &DownPolicy, now: Instant, turn: u64) -> Turn {
        self.failures.clear();
        self.turn = turn;
        // One that goes down soon after it came back has not recovered.
        let again = self.back.is_some_and(|back| now.duration_since(back) <= policy.rest_max);
        self.rest = if again { self.rest } else { Duration::ZERO };
        self.rest_again(policy, now)
    }

    fn rest_again(&mut self, policy: &DownPolicy, now: Instant) -> Turn {
        self.rest = self.rest.saturating_mul(2).max(policy.rest).min(policy.rest_max).min(REST_LIMIT);
        self.down = Some(now + self.rest);
        Turn::WentDown(self.rest)
    }

    fn come_back(&mut self, now: Instant, turn: u64) {
        self.down = None;
        self.back = Some(now);
        self.turn = turn;
    }
}

#[cfg(test)]
#[path = "down_tests.rs"]
mod tests;
