//! A run that exercised nothing proves nothing.

use std::collections::BTreeMap;

use super::{History, Stats, Violation, What, facts::Fault};

/// What a run must at least have exercised.
#[derive(Clone, Debug, Default)]
pub struct Minimum {
    /// Facts that checkers judged.
    pub judged: usize,
    /// Of those, how many in the presence of others.
    pub contended: usize,
    /// Faults that must have struck, and how often.
    pub faults: BTreeMap<String, usize>,
}

/// Whether a run exercised something.
///
/// # Errors
/// `vacuous`: what was exercised too seldom.
pub fn exercised(history: &History, stats: &Stats, minimum: &Minimum) -> Result<(), Violation> {
    let mut struck: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, what) in history.facts() {
        if let What::Fault(Fault { kind }) = what {
            *struck.entry(kind).or_default() += 1;
        }
    }
    let faults = minimum
        .faults
        .iter()
        .map(|(kind, least)| (kind.as_str(), struck.get(kind.as_str()).copied(), *least));
    let counts = [
        ("judged", Some(stats.judged), minimum.judged),
        ("contended", Some(stats.contended), minimum.contended),
    ];
    for (what, got, least) in counts.into_iter().chain(faults) {
        let got = got.unwrap_or(0);
        if got < least {
            return Err(Violation::new(
                "vacuous",
                format!("{what}: {got}, and at least {least} are asked for"),
                [],
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::story::{breaks, story},
        *,
    };

    #[test]
    fn each_minimum_counts() {
        let history = story([Fault { kind: "partition".into() }.into()]);
        let stats = Stats { judged: 10, contended: 5, unknown: 0 };
        let verdict = |judged, contended, faults: &[(&str, usize)]| {
            let faults = faults.iter().map(|(kind, least)| ((*kind).to_owned(), *least)).collect();
            exercised(&history, &stats, &Minimum { judged, contended, faults }).map(|()| stats)
        };
        verdict(10, 5, &[("partition", 1)]).unwrap();
        breaks(verdict(11, 5, &[]), "vacuous");
        breaks(verdict(10, 6, &[]), "vacuous");
        breaks(verdict(10, 5, &[("partition", 2)]), "vacuous");
        breaks(verdict(10, 5, &[("pause", 1)]), "vacuous");
    }
}
