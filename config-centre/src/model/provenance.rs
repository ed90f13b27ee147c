//! Who did it, when and why.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

/// Who changed something, when by their clock, and the note they left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Provenance {
    /// The author, as they named themselves. Not proven: access is the store's business.
    pub by: String,
    /// When, by the author's clock.
    pub at: WallTime,
    /// Why. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Provenance {
    /// By this author, now.
    pub(crate) fn now(by: &str, note: &str) -> Self {
        Self { by: by.to_owned(), at: WallTime::now(), note: note.to_owned() }
    }
}

/// A time on somebody's wall clock, for people to read. Nothing is decided by it but what is old enough to be
/// collected.
///
/// ```
/// # use coord_config_centre::WallTime;
/// assert_eq!(WallTime::from_millis(1_700_000_000_123).to_string(), "2023-11-14T22:13:20.123Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallTime(u64);

impl WallTime {
    /// This many milliseconds after the beginning of 1970, UTC.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the beginning of 1970, UTC.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// By the clock of this machine.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "for people to read; no deadline comes from it")]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// How long before `now` it was; zero if it is later.
    #[must_use]
    pub const fn age(self, now: Self) -> Duration {
        Duration::from_millis(now.0.saturating_sub(self.0))
    }
}

impl fmt::Display for WallTime {
    /// RFC 3339 in UTC, with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, in_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = date(days);
        let (seconds, millis) = (in_day / 1000, in_day % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

/// Year, month and day of the day with this number after the first of January 1970.
///
/// Counts from the first of March of the year 0, so that a leap day is the last day of its year.
const fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const IN_400_YEARS: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (cycle, day) = (days / IN_400_YEARS, days % IN_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // March has 31 days, April 30, and so on: five months are 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * cycle + year + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (1_735_689_600, "2025-01-01T00:00:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(WallTime::from_millis(seconds * 1000).to_string(), text);
        }
        assert!(!WallTime::from_millis(u64::MAX).to_string().is_empty());
    }

    #[test]
    fn a_time_in_the_future_is_of_no_age() {
        let (early, late) = (WallTime::from_millis(5), WallTime::from_millis(9));
        assert_eq!((early.age(late), late.age(early)), (Duration::from_millis(4), Duration::ZERO));
    }
}
