//! The workloads, one recipe a file.

mod barrier;
mod cache;
mod config;
mod counter;
mod discovery;
mod election;
mod group;
mod guarded;
mod holding;
mod jobs;
mod lock;
mod members;
mod multi;
mod partition;
mod queue;
mod reentrant;
mod register;
mod rendezvous;
mod resize;
mod rwlock;
mod semaphore;
mod shared;
mod value;

use std::{collections::BTreeMap, time::Duration};

use futures::future::BoxFuture;

use super::{
    client::Client,
    faults::{Faults, Kind},
    recorder::Ledger,
    run::{Rule, Scenario, all_but, keeps_nothing, no_last_look},
};
use crate::checkers::{History, Verdict, exclusion, fifo, leaks, one_grant_a_release, tokens, well_formed};

/// All scenarios.
pub static ALL: &[&Scenario] = &[
    &lock::SCENARIO,
    &rwlock::SCENARIO,
    &semaphore::SCENARIO,
    &resize::SCENARIO,
    &reentrant::SCENARIO,
    &shared::SCENARIO,
    &multi::SCENARIO,
    &guarded::SCENARIO,
    &election::SCENARIO,
    &jobs::SCENARIO,
    &members::SCENARIO,
    &group::SCENARIO,
    &partition::SCENARIO,
    &discovery::SCENARIO,
    &cache::SCENARIO,
    &value::SCENARIO,
    &config::SCENARIO,
    &counter::SCENARIO,
    &barrier::SCENARIO,
    &rendezvous::SCENARIO,
    &queue::SCENARIO,
    &register::SCENARIO,
];

/// A moment long behind the last fault, at which those who are alive look.
const SETTLED: Duration = Duration::from_secs(60);

/// The rules of every recipe.
const BASE: [(&str, Rule); 2] = [("well formed", well_formed), ("nothing left over", nothing_left)];
/// The rules of every recipe with guards.
const HOLD_RULES: [(&str, Rule); 6] = [
    BASE[0],
    BASE[1],
    ("exclusion", exclusion),
    ("tokens", tokens),
    ("first come, first served", fifo),
    ("one grant a release", one_grant_a_release),
];

/// The same, and one that is the recipe's own.
const fn hold_rules_and(own: (&'static str, Rule)) -> [(&'static str, Rule); 7] {
    let [well_formed, nothing_left, exclusion, tokens, fifo, one_grant] = HOLD_RULES;
    [well_formed, nothing_left, exclusion, tokens, fifo, one_grant, own]
}

/// Rules that look at the whole history and count nothing.
pub(super) const QUIET: &[&str] = &["well formed", "nothing left over"];

fn nothing_left(history: &History) -> Verdict {
    leaks(history, &BTreeMap::new())
}

/// A recipe with guards: what all of them have in common.
const fn of_holds(
    name: &'static str,
    about: &'static str,
    dirs: &'static [&'static str],
    ledger: Ledger,
    client: fn(Client) -> BoxFuture<'static, ()>,
) -> Scenario {
    Scenario {
        name,
        about,
        clients: 5,
        steps: 5,
        faults: waits_only(),
        dirs,
        ledger,
        client,
        last_look: no_last_look,
        keeps: keeps_nothing,
        rules: &HOLD_RULES,
        quiet: &[],
    }
}

/// A recipe without guards: what all of them have in common.
const fn of_data(
    name: &'static str,
    about: &'static str,
    rules: &'static [(&'static str, Rule)],
    client: fn(Client) -> BoxFuture<'static, ()>,
) -> Scenario {
    let dirs = &[];
    Scenario { rules, ledger: Ledger::changes(), ..of_holds(name, about, dirs, Ledger::changes(), client) }
}

/// One call, without faults: it ends, and nothing is left over.
pub(super) const fn plain(
    name: &'static str,
    about: &'static str,
    client: fn(Client) -> BoxFuture<'static, ()>,
) -> Scenario {
    Scenario { quiet: QUIET, ledger: Ledger::line(|_| None), ..of_data(name, about, &BASE, client) }
}

/// For recipes that only wait.
const fn waits_only() -> Faults {
    all_but(&[Kind::WatchCut, Kind::WatchGap, Kind::EmptyEvent, Kind::RepeatedEvent])
}

/// For recipes whose keys nobody deletes by hand.
const fn without_operator() -> Faults {
    all_but(&[Kind::EntryDeleted, Kind::DirectoryDeleted])
}
