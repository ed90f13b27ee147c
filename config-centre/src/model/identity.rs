//! Who consumes.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

/// An instance that consumes a namespace, as gray rules see it.
///
/// ```
/// # use coord_config_centre::Identity;
/// let me = Identity::new("billing-7").with_ip([10, 0, 0, 7].into()).with_label("zone", "a");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Identity {
    /// Its name, unique among the instances of the namespace, and stable: the sticky percentage goes by it.
    pub id: String,
    /// Its address, if it has one to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Identity {
    /// An instance with this name, without address and labels.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ip: None, labels: BTreeMap::new() }
    }

    /// The same with this address.
    #[must_use]
    pub const fn with_ip(mut self, ip: IpAddr) -> Self {
        self.ip = Some(ip);
        self
    }

    /// The same with one more label.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }
}
