//! Whom a rule gives to.

use std::collections::{BTreeMap, BTreeSet};

use coord_api::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Alternative, Network, Percent};
use crate::model::{Content, Identity};

/// Most rules of one namespace.
const RULES_MAX: usize = 64;

/// A rule of a head, with what it gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Gray {
    /// Whom it gives to.
    #[serde(flatten)]
    pub rule: Rule,
    /// What it gives.
    pub change: Alternative,
}

impl Gray {
    pub(crate) const fn new(rule: Rule, change: Alternative) -> Self {
        Self { rule, change }
    }

    /// Refuses a rule that gives nothing of its own, or something that cannot stand in for the main release.
    pub(crate) fn check(&self, main: &Content) -> Result<()> {
        let wrong = |message: &'static str| Error::invalid(message).with_context("rule", &self.rule.id);
        match &self.change {
            Alternative::Items { set, remove } if set.is_empty() && remove.is_empty() => {
                Err(wrong("a gray rule changes nothing"))
            }
            Alternative::Items { set, .. } if set.contains_key("") => Err(wrong("an item has an empty key")),
            change if !change.fits(main) => {
                let message =
                    "a gray rule changes items of a release of items, or gives a document for a document";
                Err(wrong(message).with_context("kind", main.kind()))
            }
            _ => Ok(()),
        }
    }
}

/// Whom a gray rule gives to: the instances for which every condition of the rule holds.
///
/// Rules are asked in the order of their priorities, the smallest first, and of their ids where those are equal. An
/// instance falls under the first rule that matches it, and under no other.
///
/// ```
/// # use coord_config_centre::{Identity, Percent, Rule};
/// let rule = Rule::new("canary")
///     .with_labels("zone", ["a", "b"])
///     .with_network("10.0.0.0/8".parse()?)
///     .with_percent(Percent::ALL);
/// let instance = Identity::new("i-1").with_ip([10, 0, 0, 1].into());
/// assert!(!rule.matches(&instance), "it has no zone");
/// assert!(rule.matches(&instance.with_label("zone", "b")));
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rule {
    /// Its name, unique in the namespace. The percentage goes by it: a rule of another name takes in others.
    pub id: String,
    /// The smallest is asked first. 100 if not set.
    pub priority: u32,
    /// For each of these labels the instance has one of the values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, BTreeSet<String>>,
    /// The address of the instance is in one of these networks; all addresses if there is none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub networks: BTreeSet<Network>,
    /// The share of the instances, among those for whom the rest holds; all if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<Percent>,
}

impl Rule {
    /// A rule without conditions yet; at least one is needed.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            priority: 100,
            labels: BTreeMap::new(),
            networks: BTreeSet::new(),
            percent: None,
        }
    }

    /// The same with this priority; the smallest is asked first.
    #[must_use]
    pub const fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// The same, for instances with this value of this label.
    #[must_use]
    pub fn with_label(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with_labels(name, [value])
    }

    /// The same, for instances with one of these values of this label. Asked again for one label, it adds values.
    #[must_use]
    pub fn with_labels<V: Into<String>>(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.labels.entry(name.into()).or_default().extend(values.into_iter().map(Into::into));
        self
    }

    /// The same, for instances in this network, or in another one of the rule.
    #[must_use]
    pub fn with_network(mut self, network: Network) -> Self {
        self.networks.insert(network);
        self
    }

    /// The same, for this share of the instances.
    #[must_use]
    pub const fn with_percent(mut self, percent: Percent) -> Self {
        self.percent = Some(percent);
        self
    }

    /// Whether every condition holds for this instance.
    #[must_use]
    pub fn matches(&self, instance: &Identity) -> bool {
        let labelled = self
            .labels
            .iter()
            .all(|(name, values)| instance.labels.get(name).is_some_and(|value| values.contains(value)));
        let located = self.networks.is_empty()
            || instance.ip.is_some_and(|ip| self.networks.iter().any(|network| network.contains(ip)));
        labelled && located && self.percent.is_none_or(|percent| percent.takes_in(&self.id, &instance.id))
    }

    /// Refuses what can match nothing, and what says nothing.
    fn check(&self) -> Result<()> {
        let wrong = |message: &'static str| Err(Error::invalid(message).with_context("rule", &self.id));
        if self.id.is_empty() {
            return wrong("a gray rule needs an id");
        }
        if let Some((label, _)) = self.labels.iter().find(|(_, values)| values.is_empty()) {
            return wrong("a gray rule can match nothing: a label has no values")
                .map_err(|e| e.with_context("label", label));
        }
        if self.labels.is_empty() && self.networks.is_empty() && self.percent.is_none() {
            return wrong("a gray rule has no condition; if it is for everybody, say 100 percent");
        }
        Ok(())
    }

    /// Whether it surely matches whatever `other` matches.
    fn covers(&self, other: &Self) -> bool {
        let labels = self
            .labels
            .iter()
            .all(|(name, values)| other.labels.get(name).is_some_and(|narrower| narrower.is_subset(values)));
        let networks = self.networks.is_empty()
            || (!other.networks.is_empty()
                && other
                    .networks
                    .iter()
                    .all(|narrower| self.networks.iter().any(|wide| wide.covers(narrower))));
        labels && networks && self.percent.is_none_or(|percent| percent == Percent::ALL)
    }
}

/// Puts rules in the order in which they are asked, and refuses those of which one can match nothing.
pub(crate) fn check_rules(grays: &mut [Gray]) -> Result<()> {
    if grays.len() > RULES_MAX {
        return Err(Error::new(coord_api::ErrorKind::LimitExceeded, "too many gray rules in one namespace")
            .with_context("count", grays.len())
            .with_context("limit", RULES_MAX));
    }
    grays.sort_by(|one, other| (one.rule.priority, &one.rule.id).cmp(&(other.rule.priority, &other.rule.id)));
    for (at, gray) in grays.iter().enumerate() {
        gray.rule.check()?;
        if let Some(earlier) = grays[..at].iter().find(|earlier| earlier.rule.covers(&gray.rule)) {
            let message = "a gray rule can match nothing: an earlier one takes all that it would";
            return Err(Error::invalid(message)
                .with_context("rule", &gray.rule.id)
                .with_context("earlier", &earlier.rule.id));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
