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
