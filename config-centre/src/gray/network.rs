//! Networks of addresses.

use std::{fmt, net::IpAddr, str::FromStr};

use coord_api::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A network in the notation of CIDR: `10.1.0.0/16`, `2001:db8::/32`. An address alone is the network of that one.
///
/// ```
/// # use coord_config_centre::Network;
/// let rack: Network = "10.1.0.0/16".parse()?;
/// assert!(rack.contains([10, 1, 2, 3].into()) && !rack.contains([10, 2, 0, 1].into()));
/// assert!("10.1.0.0/33".parse::<Network>().is_err());
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// With zeros after the prefix.
    base: IpAddr,
    prefix: u32,
}

impl Network {
    /// Whether this address is in it. An IPv4 address in IPv6 notation is the IPv4 address.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        masked(ip.to_canonical(), self.prefix) == Some(self.base)
    }

    /// Whether every address of `other` is in it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.base)
    }
}

/// The address with zeros after the prefix; `None` if it has fewer bits.
fn masked(ip: IpAddr, prefix: u32) -> Option<IpAddr> {
    let zeros = |width: u32| width.checked_sub(prefix);
    Some(match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(zeros(u32::BITS)?).unwrap_or(0);
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(zeros(u128::BITS)?).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    })
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid("not an address, nor a network such as 10.1.0.0/16").with_context("network", text)
        };
        let (ip, prefix) = match text.split_once('/') {
            Some((ip, prefix)) => (ip, Some(prefix.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| bad())?;
        let prefix = prefix.unwrap_or(if ip.is_ipv4() { u32::BITS } else { u128::BITS });
        let base = masked(ip, prefix).ok_or_else(bad)?;
        Ok(Self { base, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        for (net, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3/16", "10.1.0.0", "10.0.255.255"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "ffff::", "10.0.0.1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("10.0.0.0/31", "::ffff:10.0.0.1", "::ffff:10.0.0.2"),
        ] {
            assert!(network(net).contains(inside.parse().unwrap()), "{net} {inside}");
            assert!(!network(net).contains(outside.parse().unwrap()), "{net} {outside}");
            assert_eq!(network(&network(net).to_string()), network(net));
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for bad in
            ["", "/", "10.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "::/129", "zone-a", "10.0.0.0/8/8"]
        {
            assert!(bad.parse::<Network>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn wider_networks_cover_narrower_ones() {
        assert!(network("10.0.0.0/8").covers(&network("10.1.0.0/16")));
        assert!(network("10.0.0.0/8").covers(&network("10.0.0.0/8")));
        assert!(!network("10.1.0.0/16").covers(&network("10.0.0.0/8")));
        assert!(!network("0.0.0.0/0").covers(&network("::/0")));
    }
}
