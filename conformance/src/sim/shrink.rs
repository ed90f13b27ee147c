//! The smallest run that still fails.

use super::run::{Setup, run};

/// Fewer faults, clients and steps, as long as the same rule is broken.
#[must_use]
pub fn shrink(setup: Setup, rule: &str) -> Setup {
    let mut smallest = setup;
    loop {
        let smaller = candidates(&smallest).find(|candidate| breaks(candidate, rule));
        match smaller {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}

fn candidates(setup: &Setup) -> impl Iterator<Item = Setup> + use<'_> {
    let setup = *setup;
    let clients = (1..setup.clients).map(move |clients| Setup { clients, ..setup });
    let steps = (1..setup.steps).map(move |steps| Setup { steps, ..setup });
    let faults = setup.faults.kinds().map(move |kind| Setup { faults: setup.faults.without(kind), ..setup });
    faults.chain(clients).chain(steps)
}

fn breaks(setup: &Setup, rule: &str) -> bool {
    run(setup).is_ok_and(|run| run.violations.iter().any(|violation| violation.rule == rule))
}
