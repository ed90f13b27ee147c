//! What will go wrong in a run, drawn from its seed.

use std::time::Duration;

use coord_api::Revision;

use super::{
    faults::{Faults, Kind},
    rng::Rng,
};

/// For how long things go wrong.
pub(crate) const WINDOW: Duration = Duration::from_secs(12);
/// Streams of random numbers: one for each use, so that a run with one fault less is otherwise the same.
const CHOICE: u64 = 1;
const FIRST: u64 = 2;
const STRIKES: u64 = 100;

/// Something that strikes at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strike {
    pub(crate) at: Duration,
    pub(crate) kind: Kind,
    /// The client that it strikes.
    pub(crate) client: u32,
    /// For how long.
    pub(crate) lasts: Duration,
    /// For choices that depend on the moment.
    pub(crate) dice: u64,
}

/// Which of `possible` a run of this seed has: about a third, and sometimes none.
pub(crate) fn choose(seed: u64, possible: Faults) -> Faults {
    let mut rng = Rng::new(seed, CHOICE);
    if rng.chance(30) {
        return Faults::NONE;
    }
    let share = rng.range(150, 600);
    let mut chosen = Faults::NONE;
    for &kind in Kind::ALL {
        if rng.chance(share) {
            chosen = chosen.with(kind);
        }
    }
    chosen.and(possible)
}

/// The strikes of a run, in order.
pub(crate) fn strikes(seed: u64, faults: Faults, clients: u32) -> Vec<Strike> {
    let mut strikes = Vec::new();
    for kind in faults.kinds() {
        let (most, longest) = match kind {
            Kind::Partition | Kind::OneWay | Kind::Pause => (2 * u64::from(clients), 6000),
            Kind::Crash => (2, 1),
            Kind::WatchCut => (3 * u64::from(clients), 1),
            Kind::Expiry | Kind::EntryDeleted => (3, 1),
            Kind::WatchGap => (8, 1),
            Kind::DirectoryDeleted => (2, 1),
            _ => continue,
        };
        let mut rng = Rng::new(seed, STRIKES + kind as u64);
        for _ in 0..rng.range(1, most + 1) {
            strikes.push(Strike {
                at: Duration::from_millis(rng.range(20, 10_000)),
                kind,
                client: u32::try_from(rng.range(1, u64::from(clients) + 1)).unwrap_or(1),
                lasts: Duration::from_millis(rng.range(100, longest.max(101))),
                dice: rng.next(),
            });
        }
    }
    strikes.sort_by_key(|strike| (strike.at, strike.kind, strike.client));
    strikes
}

/// Where the store begins to count.
pub(crate) fn first_revision(seed: u64, faults: Faults) -> Revision {
    let mut rng = Rng::new(seed, FIRST);
    let below = rng.range(0, 40);
    let small = rng.range(1, 1 << 20);
    let edge = [1 << 31, 1 << 32, 1 << 53][usize::try_from(rng.range(0, 3)).unwrap_or(0)];
    Revision::new(if faults.has(Kind::LargeNumbers) { edge - below } else { small })
}
