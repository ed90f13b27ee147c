//! Where the facade's numbers are kept.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock},
};

use metrics::{Counter, Gauge, Key, KeyName, Metadata, SharedString, Unit, atomics::AtomicU64};

use super::histogram::Histogram;

/// The numbers of this process. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder(Arc<Numbers>);

#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) counters: Table<Key, AtomicU64>,
    /// The bits of floating point numbers.
    pub(super) gauges: Table<Key, AtomicU64>,
    pub(super) histograms: Table<Key, Histogram>,
    pub(super) helps: Table<String, SharedString>,
}

/// What was asked for once stays, so that most look-ups share the lock.
#[derive(Debug)]
pub(super) struct Table<K, V>(RwLock<HashMap<K, Arc<V>>>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Clone + Eq + Hash, V> Table<K, V> {
    fn get(&self, key: &K, new: impl FnOnce() -> V) -> Arc<V> {
        if let Some(value) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Arc::clone(value);
        }
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(table.entry(key.clone()).or_insert_with(|| Arc::new(new())))
    }

    /// All there is, in no order.
    pub(super) fn all(&self) -> Vec<(K, Arc<V>)> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.iter().map(|(key, value)| (key.clone(), Arc::clone(value))).collect()
    }
}

impl Recorder {
    pub(super) fn numbers(&self) -> &Numbers {
        &self.0
    }

    fn describe(&self, name: &KeyName, help: SharedString) {
        self.0.helps.get(&name.as_str().to_owned(), || help);
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&name, help);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&name, help);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&name, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.0.counters.get(key, || AtomicU64::new(0)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.0.gauges.get(key, || AtomicU64::new(0)))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::from_arc(self.0.histograms.get(key, Histogram::default))
    }
}
