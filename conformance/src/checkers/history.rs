//! What happened in one run, in the order in which it was recorded.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::facts::What;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, since the run began. Never smaller than that of the event before.
    pub at: Duration,
    /// To which client, or to which client's session; 0 where that says nothing.
    pub client: u32,
    /// What.
    pub what: What,
}

/// A recorded run.
///
/// The order of the events is the order of the moments: recorders share one clock and one list. A call is recorded
/// right before it is made, its answer right after the caller has it, and what the store did when the store does it.
/// A run ends healed and settled: whoever can still finish has finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// Nothing happened yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { events: Vec::new() }
    }

    /// Records that `what` happened to `client` at `at`.
    pub fn record(&mut self, at: Duration, client: u32, what: impl Into<What>) {
        self.events.push(Event { at, client, what: what.into() });
    }

    /// What happened, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Facts with the index of their event.
    pub(crate) fn facts(&self) -> impl Iterator<Item = (usize, &What)> {
        self.events.iter().enumerate().map(|(at, event)| (at, &event.what))
    }

    /// How long the run took.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.events.last().map_or(Duration::ZERO, |event| event.at)
    }

    /// One line of JSON an event.
    ///
    /// # Errors
    /// If an event cannot be written as JSON; none of ours.
    pub fn to_json_lines(&self) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        for event in &self.events {
            text += &serde_json::to_string(event)?;
            text.push('\n');
        }
        Ok(text)
    }

    /// Reads what [`History::to_json_lines`] wrote.
    ///
    /// # Errors
    /// If a line is not an event.
    pub fn from_json_lines(text: &str) -> Result<Self, serde_json::Error> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        Ok(Self { events: lines.map(serde_json::from_str).collect::<Result<_, _>>()? })
    }
}

impl FromIterator<Event> for History {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        Self { events: events.into_iter().collect() }
    }
}

/// A rule that the history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule, as one word: `exclusion`, `fifo`.
    pub rule: &'static str,
    /// What is wrong, in one line.
    pub message: String,
    /// The events that show it, as indices into the history, in order.
    pub events: Vec<usize>,
}

impl Violation {
    pub(crate) fn new(
        rule: &'static str,
        message: impl Into<String>,
        events: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut events: Vec<usize> = events.into_iter().collect();
        events.sort_unstable();
        events.dedup();
        Self { rule, message: message.into(), events }
    }

    /// The violation with the events that show it, for a trace.
    #[must_use]
    pub fn explain(&self, history: &History) -> String {
        let mut text = format!("{self}\n");
        for event in self.events.iter().filter_map(|&at| history.events().get(at)) {
            text += &format!("  {:>10.3?} client {}: {:?}\n", event.at, event.client, event.what);
        }
        text
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (events {:?})", self.rule, self.message, self.events)
    }
}

impl std::error::Error for Violation {}

/// What a checker looked at; the anti-vacuity rule asks that it was not nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Facts that the rule judged: grants, reads, passes.
    pub judged: usize,
    /// Of those, how many could have gone wrong by the doing of others: somebody else was there at the time.
    pub contended: usize,
    /// Calls whose outcome nobody knows.
    pub unknown: usize,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.judged += other.judged;
        self.contended += other.contended;
        self.unknown += other.unknown;
    }
}

/// What a checker says.
pub type Verdict = Result<Stats, Violation>;
