//! What operators say about the instances of a service.

use std::{collections::BTreeMap, mem, sync::Arc};

use coord_api::Key;

use crate::{Instance, Rule};

/// The rules of a service, in the order in which they are applied.
#[derive(Debug, Default)]
pub(super) struct Rules {
    by_key: BTreeMap<Key, Arc<dyn Rule>>,
    in_order: Vec<Arc<dyn Rule>>,
    changed: bool,
}

impl Rules {
    pub(super) fn insert(&mut self, key: Key, rule: Arc<dyn Rule>) {
        self.by_key.insert(key, rule);
        self.sort();
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if self.by_key.remove(key).is_some() {
            self.sort();
        }
    }

    /// The instance as the rules leave it.
    pub(super) fn apply(&self, instance: Instance) -> Instance {
        self.in_order.iter().fold(instance, |instance, rule| rule.apply(instance))
    }

    /// Whether there was a change since this was asked last.
    pub(super) fn changed(&mut self) -> bool {
        mem::take(&mut self.changed)
    }

    fn sort(&mut self) {
        self.in_order = self.by_key.values().cloned().collect();
        // Stable: those of one rank stay in the order of their keys.
        self.in_order.sort_by(|a, b| a.rank().cmp(b.rank()));
        self.changed = true;
    }
}
