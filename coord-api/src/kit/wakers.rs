//! Waking exactly those who wait for one name.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Notify, futures::Notified};

/// Waiters by name: a change of one name wakes those who wait for it and nobody else (promise G5).
#[derive(Debug)]
pub struct Wakers<K: Eq + Hash>(Mutex<HashMap<K, Slot>>);

#[derive(Debug, Default)]
struct Slot {
    waiting: usize,
    notify: Arc<Notify>,
}

impl<K: Eq + Hash> Default for Wakers<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Hash + Clone> Wakers<K> {
    /// Begins to wait for `name`. Look at the state only after [`WakerRef::armed`], so that no wake-up is lost.
    pub fn register(&self, name: K) -> WakerRef<'_, K> {
        let mut slots = self.lock();
        let slot = slots.entry(name.clone()).or_default();
        slot.waiting += 1;
        let notify = Arc::clone(&slot.notify);
        WakerRef { wakers: self, name, notify }
    }

    /// Wakes those who wait for `name`.
    pub fn wake(&self, name: &K) {
        if let Some(slot) = self.lock().get(name) {
            slot.notify.notify_waiters();
        }
    }

    /// Wakes everybody, in the order of the names: a run of a simulation must repeat from its seed.
    pub fn wake_all(&self) {
        let slots = self.lock();
        let mut by_name: Vec<_> = slots.iter().collect();
        by_name.sort_unstable_by_key(|(name, _)| *name);
        for (_, slot) in by_name {
            slot.notify.notify_waiters();
        }
    }

    /// How many wait, for tests of leaks.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().values().map(|slot| slot.waiting).sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<K, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits for a name; dropping it ends the waiting.
#[derive(Debug)]
pub struct WakerRef<'w, K: Eq + Hash> {
    wakers: &'w Wakers<K>,
    name: K,
    notify: Arc<Notify>,
}

impl<K: Eq + Hash> WakerRef<'_, K> {
    /// Resolves at the next wake-up after this call, awaited or not.
    pub fn armed(&self) -> Notified<'_> {
        // `notified()` counts from its creation for `notify_waiters`, so no poll is needed to arm it.
        self.notify.notified()
    }
}

impl<K: Eq + Hash> Drop for WakerRef<'_, K> {
    fn drop(&mut self) {
        let mut slots = self.wakers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get_mut(&self.name) {
            slot.waiting -= 1;
            if slot.waiting == 0 {
                slots.remove(&self.name);
            }
        }
    }
}
