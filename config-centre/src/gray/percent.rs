//! The sticky percentage.

use std::fmt;

use coord_api::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Everybody.
const WHOLE: u16 = 10_000;

/// A share of the instances, in hundredths of a percent; more than none.
///
/// Which instances is decided by a hash of the rule's id and the instance's: the same ones every time, on every
/// instance and in every release of this library. A larger percentage of the same rule takes in all that a smaller one
/// did. With few instances the share that falls under a rule differs from the percentage, as with dice.
///
/// ```
/// # use coord_config_centre::Percent;
/// assert_eq!(Percent::new(2.5)?.to_string(), "2.5 %");
/// assert!(Percent::new(0.0).is_err() && Percent::new(100.5).is_err() && Percent::new(f64::NAN).is_err());
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Percent(u16);

impl Percent {
    /// Everybody.
    pub const ALL: Self = Self(WHOLE);

    /// This many percent, to the nearest hundredth.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) unless it is from 0.01 to 100.
    pub fn new(percent: f64) -> Result<Self> {
        let hundredths = (percent * 100.0).round();
        if !(1.0..=f64::from(WHOLE)).contains(&hundredths) {
            return Err(out_of_range(percent));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range and whole")]
        Ok(Self(hundredths as u16))
    }

    /// Whether the instance is among those whom `rule` gives to.
    pub(crate) fn takes_in(self, rule: &str, instance: &str) -> bool {
        bucket(rule, instance) < self.0
    }
}

fn out_of_range(percent: impl fmt::Display) -> Error {
    Error::invalid("a percentage is from 0.01 to 100").with_context("percent", percent)
}

/// Where the instance stands for this rule, from 0 to 9,999.
///
/// Never to be changed: instances would change sides at an update of this library.
fn bucket(rule: &str, instance: &str) -> u16 {
    let mut hash = Sha256::new();
    // With the length, so that no two pairs are hashed alike.
    hash.update((rule.len() as u64).to_be_bytes());
    hash.update(rule);
    hash.update(instance);
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
    let bucket = u64::from_be_bytes([a, b, c, d, e, f, g, h]) % u64::from(WHOLE);
    u16::try_from(bucket).unwrap_or_default() // less than 10,000
}

impl TryFrom<u16> for Percent {
    type Error = Error;

    /// Hundredths of a percent.
    fn try_from(hundredths: u16) -> Result<Self> {
        let good = (1..=WHOLE).contains(&hundredths);
        if good { Ok(Self(hundredths)) } else { Err(out_of_range(f64::from(hundredths) / 100.0)) }
    }
}

impl From<Percent> for u16 {
    /// Hundredths of a percent.
    fn from(percent: Percent) -> Self {
        percent.0
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", f64::from(self.0) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an instance was in one release of this library it is in all.
    #[test]
    fn where_instances_stand_never_changes() {
        for (rule, instance, stands) in [
            ("canary", "i-1", 353),
            ("canary", "i-2", 641),
            ("canary", "", 55),
            ("", "canary", 6666),
            ("c", "anaryi-1", 2646),
            ("rollout-2026", "billing-7d9f-x2x1p", 6419),
            ("ä", "中", 9935),
        ] {
            assert_eq!(bucket(rule, instance), stands, "{rule} {instance}");
        }
    }

    #[test]
    fn a_wider_percentage_takes_in_all_that_a_narrower_one_did() {
        for rule in ["canary", "rollout", "x"] {
            for instance in (0..500).map(|number| format!("i-{number}")) {
                let mut before = false;
                for hundredths in (1..=WHOLE).step_by(499).chain([WHOLE]) {
                    let now = Percent(hundredths).takes_in(rule, &instance);
                    assert!(now || !before, "{rule} drops {instance} at {hundredths}");
                    before = now;
                }
                assert!(before, "100 percent take in everybody");
            }
        }
    }

    #[test]
    fn about_as_many_are_taken_in_as_are_asked_for_and_others_by_another_rule() {
        let instances: Vec<_> = (0..4_000).map(|number| format!("host-{number}")).collect();
        let taken_in = |rule: &str, percent: f64| -> Vec<bool> {
            let percent = Percent::new(percent).unwrap();
            instances.iter().map(|instance| percent.takes_in(rule, instance)).collect()
        };
        let count = |taken: &[bool]| taken.iter().filter(|taken| **taken).count();
        for (percent, fewest, most) in [(1.0, 15, 70), (10.0, 300, 500), (50.0, 1_800, 2_200)] {
            let taken = count(&taken_in("canary", percent));
            assert!((fewest..=most).contains(&taken), "{taken} at {percent} %");
        }
        let (one, other) = (taken_in("one", 10.0), taken_in("other", 10.0));
        let both: Vec<_> = one.iter().zip(&other).map(|(one, other)| *one && *other).collect();
        assert!(count(&both) < 100, "the same instances are always the first");
    }

    #[test]
    fn percentages_out_of_range_are_refused() {
        for bad in [0.0, 0.004, -1.0, 100.01, f64::NAN, f64::INFINITY, -f64::INFINITY] {
            let error = Percent::new(bad).unwrap_err();
            assert_eq!(error.kind(), coord_api::ErrorKind::InvalidArgument, "{bad}");
        }
        assert_eq!(Percent::new(0.01).unwrap(), Percent(1));
        assert_eq!(Percent::new(100.0).unwrap(), Percent::ALL);
        for (json, good) in [("0", false), ("1", true), ("10000", true), ("10001", false), ("-1", false)] {
            assert_eq!(serde_json::from_str::<Percent>(json).is_ok(), good, "{json}");
        }
    }
}
