//! The workloads, one recipe a file.

mod holding;
mod lock;

use super::run::{Rule, Scenario};
use crate::checkers::{exclusion, fifo, one_grant_a_release, tokens};

/// All scenarios.
pub static ALL: &[&Scenario] = &[&lock::SCENARIO];

/// The rules of every recipe with guards.
const HOLD_RULES: &[(&str, Rule)] = &[
    ("exclusion", exclusion),
    ("tokens", tokens),
    ("fifo", fifo),
    ("one grant a release", one_grant_a_release),
];
