//! Releases of a configuration, as publishers and consumers see them.

use std::collections::BTreeMap;

use super::{History, Stats, Verdict, Violation, What, facts::Config};

/// All see one release a generation, whole; a consumer never goes back; and when all is calm, each runs what is in force.
///
/// # Errors
/// `config-mixed`: a release whose items are of several; `config-twice`: a generation with two releases; `config-back`: a
/// consumer that ran a later generation before; `config-final`: settled, and a consumer runs something else.
pub fn config(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let mut releases: BTreeMap<(&str, u64), (u64, usize)> = BTreeMap::new();
    let mut running: BTreeMap<(&str, u64), (u64, usize)> = BTreeMap::new();
    let mut heads: BTreeMap<&str, u64> = BTreeMap::new();
    for (at, what) in history.facts() {
        let What::Config(fact) = what else { continue };
        stats.judged += 1;
        let mut one_release = |name, generation, value| {
            let (known, before) = *releases.entry((name, generation)).or_insert((value, at));
            let message = || format!("{name}: generation {generation} is {known} and {value}");
            if known == value { Ok(()) } else { Err(Violation::new("config-twice", message(), [before, at])) }
        };
        match fact {
            Config::Published { name, generation, value } => one_release(name.as_str(), *generation, *value)?,
            Config::Ran { consumer, name, generation, items } => {
                let value = items.first().copied().unwrap_or(0);
                if items.iter().any(|item| *item != value) {
                    let message = format!("{name}: generation {generation} has {items:?}");
                    return Err(Violation::new("config-mixed", message, [at]));
                }
                one_release(name.as_str(), *generation, value)?;
                let before = running.insert((name, *consumer), (*generation, at));
                if let Some((later, when)) = before.filter(|(before, _)| before > generation) {
                    let message = format!("{name}: {consumer} ran generation {later} and then {generation}");
                    return Err(Violation::new("config-back", message, [when, at]));
                }
                stats.contended += usize::from(before.is_some_and(|(before, _)| before < *generation));
            }
            Config::Head { name, generation } => drop(heads.insert(name, *generation)),
            Config::Settled { consumer, name } => {
                let runs = running.get(&(name.as_str(), *consumer)).map(|(generation, _)| *generation);
                let head = heads.get(name.as_str()).copied();
                if runs != head {
                    let message = format!("{name}: {consumer} runs {runs:?}, and {head:?} is in force");
                    return Err(Violation::new("config-final", message, [at]));
                }
            }
        }
    }
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::{
        super::story::{breaks, story},
        *,
    };

    fn name() -> String {
        "n".into()
    }

    fn published(generation: u64, value: u64) -> What {
        Config::Published { name: name(), generation, value }.into()
    }

    fn ran(generation: u64, items: &[u64]) -> What {
        Config::Ran { consumer: 1, name: name(), generation, items: items.to_vec() }.into()
    }

    fn head(generation: u64) -> What {
        Config::Head { name: name(), generation }.into()
    }

    fn settled() -> What {
        Config::Settled { consumer: 1, name: name() }.into()
    }

    #[test]
    fn consumers_run_whole_releases_in_order() {
        config(&story([published(1, 7), ran(1, &[7, 7]), ran(3, &[9, 9]), head(3), settled()])).unwrap();
        config(&story([settled()])).unwrap();
        breaks(config(&story([ran(1, &[7, 8])])), "config-mixed");
        breaks(config(&story([ran(2, &[7]), ran(1, &[6])])), "config-back");
    }

    #[test]
    fn a_generation_is_one_release() {
        breaks(config(&story([published(1, 7), ran(1, &[8, 8])])), "config-twice");
        breaks(config(&story([published(1, 7), published(1, 8)])), "config-twice");
    }

    #[test]
    fn all_run_what_is_in_force_in_the_end() {
        breaks(config(&story([ran(1, &[7]), head(2), settled()])), "config-final");
        breaks(config(&story([head(2), settled()])), "config-final");
    }
}
