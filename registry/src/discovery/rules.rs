//! What operators say about the instances of a service.

use std::{mem, sync::Arc};

use coord_api::Key;

use crate::{Instance, Rule};

/// The rules of a service.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// As they are applied: by rank, and those of one rank by key.
    in_order: Vec<(Key, Arc<dyn Rule>)>,
    changed: bool,
}

impl Rules {
    pub(super) fn insert(&mut self, key: Key, rule: Arc<dyn Rule>) {
        self.remove(&key);
        let earlier = |(of, other): &(Key, Arc<dyn Rule>)| (other.rank(), of) < (rule.rank(), &key);
        self.in_order.insert(self.in_order.partition_point(earlier), (key, rule));
        self.changed = true;
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let before = self.in_order.len();
        self.in_order.retain(|(of, _)| of != key);
        self.changed |= self.in_order.len() < before;
    }

    /// The instance as the rules leave it.
    pub(super) fn apply(&self, instance: Instance) -> Instance {
        self.in_order.iter().fold(instance, |instance, (_, rule)| rule.apply(instance))
    }

    /// Whether there was a change since this was asked last.
    pub(super) fn changed(&mut self) -> bool {
        mem::take(&mut self.changed)
    }
}
