//! Who would fall under which rule.

use crate::model::{Head, Identity};

/// Who falls under which rule of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// One for each instance, in the order in which they were given.
    pub instances: Vec<Matched>,
}

/// Under which rule an instance falls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Matched {
    /// The instance.
    pub instance: String,
    /// The id of the rule; `None` if it sees the main release.
    pub rule: Option<String>,
}

impl Preview {
    /// Asks the rules of `head` for each of the instances.
    pub fn of<'a>(head: &Head, instances: impl IntoIterator<Item = &'a Identity>) -> Self {
        let matched = |instance: &Identity| Matched {
            instance: instance.id.clone(),
            rule: head.rule_for(instance).map(|gray| gray.rule.id.clone()),
        };
        Self { instances: instances.into_iter().map(matched).collect() }
    }

    /// How many instances fall under the rule with this id.
    #[must_use]
    pub fn count(&self, rule: &str) -> usize {
        self.instances.iter().filter(|matched| matched.rule.as_deref() == Some(rule)).count()
    }
}
