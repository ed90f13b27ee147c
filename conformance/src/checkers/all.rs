//! All checkers at once.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Detail, History, Stats, Verdict, Violation, barrier, cache, config, counter, election, ephemeral,
    exclusion, facts::LeftoverKind, fifo, found, group, guarded, leaks, linearizable, multi,
    one_grant_a_release, queue, re_entry, rendezvous, resize, run_once, shares, tokens, told, unique_ids,
    watch, well_formed,
};

/// What the run that was recorded promised.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How much a watch tells.
    pub detail: Detail,
    /// How much later than a session's end the store may take its keys away.
    pub late: Duration,
    /// What may be left over.
    pub allowed: BTreeMap<LeftoverKind, u64>,
    /// How many steps to search for an order of the calls on one key.
    pub budget: usize,
}

impl Default for Terms {
    /// Every change, at once, nothing left over, and 100,000 steps.
    fn default() -> Self {
        Self { detail: Detail::EveryChange, late: Duration::ZERO, allowed: BTreeMap::new(), budget: 100_000 }
    }
}

/// What all checkers say of a run: what each judged, and the first violation that each found.
///
/// A checker that finds no facts of its subject judges nothing.
#[must_use]
pub fn check_all(history: &History, terms: &Terms) -> (BTreeMap<&'static str, Stats>, Vec<Violation>) {
    let verdicts: [(&'static str, Verdict); 26] = [
        ("well_formed", well_formed(history)),
        ("linearizable", linearizable(history, terms.budget)),
        ("exclusion", exclusion(history)),
        ("one_grant_a_release", one_grant_a_release(history)),
        ("tokens", tokens(history)),
        ("fifo", fifo(history)),
        ("re_entry", re_entry(history)),
        ("multi", multi(history)),
        ("resize", resize(history)),
        ("guarded", guarded(history)),
        ("election", election(history)),
        ("barrier", barrier(history)),
        ("rendezvous", rendezvous(history)),
        ("queue", queue(history)),
        ("counter", counter(history)),
        ("unique_ids", unique_ids(history)),
        ("run_once", run_once(history)),
        ("told", told(history)),
        ("group", group(history)),
        ("shares", shares(history)),
        ("found", found(history)),
        ("config", config(history)),
        ("watch", watch(history, terms.detail)),
        ("cache", cache(history)),
        ("ephemeral", ephemeral(history, terms.late)),
        ("leaks", leaks(history, &terms.allowed)),
    ];
    let (mut stats, mut violations) = (BTreeMap::new(), Vec::new());
    for (checker, verdict) in verdicts {
        match verdict {
            Ok(judged) => {
                stats.insert(checker, judged);
            }
            Err(violation) => violations.push(violation),
        }
    }
    (stats, violations)
}
