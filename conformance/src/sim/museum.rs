//! The museum: bugs that are switched on, one at a time, and must be found.

use coord_api::Result;
use coord_recipes::planted::{Bug, plant};
use serde::Serialize;

use super::{
    batch::batch,
    run::{Scenario, Setup, run},
    scenarios,
};

/// By so many seeds of one scenario every bug must be found.
pub const SEEDS: u64 = 1000;

/// How a bug was found.
#[derive(Clone, Debug, Serialize)]
pub struct Exhibit {
    /// The bug.
    pub bug: String,
    /// What is wrong.
    pub about: &'static str,
    /// The first scenario and seed that found it, and the rule that it broke.
    pub caught: Option<Catch>,
}

/// What found a bug.
#[derive(Clone, Debug, Serialize)]
pub struct Catch {
    /// The scenario.
    pub scenario: &'static str,
    /// The seed.
    pub seed: u64,
    /// The rule.
    pub rule: &'static str,
}

/// Switches each bug on and looks for a seed that finds it, scenario by scenario.
///
/// # Errors
/// As [`run`].
pub fn tour(threads: usize, mut seen: impl FnMut(&Exhibit)) -> Result<Vec<Exhibit>> {
    let mut exhibits = Vec::new();
    for &bug in Bug::ALL {
        let exhibit =
            Exhibit { bug: format!("{bug:?}"), about: bug.about().trim(), caught: catch(bug, threads)? };
        seen(&exhibit);
        exhibits.push(exhibit);
    }
    Ok(exhibits)
}

fn catch(bug: Bug, threads: usize) -> Result<Option<Catch>> {
    // Few seeds of all first: most bugs are found at once by the scenario of their recipe.
    for seeds in [0..40, 40..SEEDS] {
        for scenario in of(bug) {
            let prepare = || plant(Some(bug));
            let totals = batch(scenario, seeds.clone(), threads, 4, &prepare)?;
            for (seed, violation) in &totals.failures {
                // What fails without the bug does not find it.
                if run(&Setup::of(scenario, *seed))?.violations.is_empty() {
                    return Ok(Some(Catch { scenario: scenario.name, seed: *seed, rule: violation.rule }));
                }
            }
        }
    }
    Ok(None)
}

/// The scenarios that could find it, the likeliest first.
fn of(bug: Bug) -> Vec<&'static Scenario> {
    let first: &[&str] = match bug {
        Bug::ReaderPassesWriters | Bug::WriterPassesReaders | Bug::DowngradeReleases => &["rwlock"],
        Bug::SemaphoreOneTooMany => &["semaphore"],
        Bug::ResizeUnmarked => &["resize"],
        Bug::CommitUnguarded => &["guarded"],
        Bug::LateUpdateUndoes => &["group", "discovery"],
        Bug::MembersMerged | Bug::StrangersAreMembers => &["group"],
        Bug::ShareOutlivesSession | Bug::RingForgetsNobody => &["partition"],
        Bug::DiscoveryKeepsGone => &["discovery"],
        Bug::ConfigTakesOlder => &["config"],
        Bug::SwapsBlindly | Bug::ListenerTellsBefore => &["value"],
        Bug::FirstReleaseFrees => &["reentrant"],
        Bug::MultiInAnyOrder | Bug::MultiKeepsPart => &["multi"],
        Bug::LeaderForEver | Bug::ObserverTellsLast => &["election"],
        Bug::DataForgotten | Bug::NotRegisteredAgain | Bug::DeletionUnseen => &["members"],
        Bug::GapMerged | Bug::RepeatsTold => &["cache"],
        Bug::CountsTwice | Bug::CounterStuck | Bug::BlockOnHope => &["counter"],
        Bug::BarrierTrustsWake | Bug::LatchTrustsWake => &["barrier"],
        Bug::LeaveTrustsWake | Bug::EnterOneShort | Bug::CountsWhoIsNotThere => &["rendezvous"],
        Bug::AckOnHope => &["queue"],
        Bug::SaysNotApplied | Bug::GapSilent => &["register"],
        _ => &["lock", "rwlock"],
    };
    scenarios::ALL.iter().copied().filter(|scenario| first.contains(&scenario.name)).collect()
}
