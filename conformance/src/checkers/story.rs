//! Histories written by hand, for the tests of the checkers.

use std::time::Duration;

use super::{History, Verdict, What};

/// A history with one event a millisecond.
pub(super) fn story<const N: usize>(facts: [What; N]) -> History {
    let mut history = History::new();
    for (at, fact) in (0..).zip(facts) {
        history.record(Duration::from_millis(at), 0, fact);
    }
    history
}

/// Asserts that exactly this rule is broken.
#[track_caller]
pub(super) fn breaks(verdict: Verdict, rule: &str) {
    match verdict {
        Ok(stats) => panic!("{rule} was not found broken: {stats:?}"),
        Err(violation) => assert_eq!(violation.rule, rule, "{violation}"),
    }
}
