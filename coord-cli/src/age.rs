//! Since when somebody stands in a line.
//!
//! No store keeps the time of a key. An entry tells itself when its owner asked for it, by the owner's clock; entries of
//! other programs do not.

use std::time::Duration;

use coord::{Child, config_centre::WallTime};

/// When it joined the line; `None` if it is no place or does not tell.
pub(crate) fn joined(child: &Child) -> Option<WallTime> {
    child.nonce?.drawn_at().map(WallTime::from_millis)
}

/// What has passed since, in whole seconds; zero where the owner's clock is ahead.
pub(crate) fn seconds(joined: Option<WallTime>, now: WallTime) -> Option<u64> {
    joined.map(|at| at.age(now).as_secs())
}

/// How long ago, for people: the two largest units.
pub(crate) fn for_people(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{}s", seconds % 60),
        (0, _, _) => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_units_are_enough_for_people() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m0s"), (3_599, "59m59s"), (7_500, "2h5m"), (356_400, "4d3h")]
        {
            assert_eq!(for_people(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_clock_that_is_ahead_makes_no_negative_age() {
        let [early, late] = [1_000, 9_000].map(WallTime::from_millis);
        assert_eq!([seconds(Some(early), late), seconds(Some(late), early)], [Some(8), Some(0)]);
        assert_eq!(seconds(None, late), None);
    }
}
