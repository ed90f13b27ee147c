//! When the updates of one key arrive at many watchers.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::{Result, stats::Latency};

/// One update.
#[derive(Debug, Default)]
struct Update {
    /// When the call that writes it began, in nanoseconds.
    wrote: AtomicU64,
    /// When the last of the watchers that have it got it, or a newer one.
    arrived: AtomicU64,
    /// How many watchers saw it.
    seen: AtomicUsize,
}

/// Updates with the numbers 1, 2, 3 to as many watchers as it takes.
#[derive(Debug)]
pub(crate) struct Fan {
    clock: Instant,
    updates: Vec<Update>,
}

impl Fan {
    pub(crate) fn of(updates: usize) -> Fan {
        Fan { clock: Instant::now(), updates: (0..updates).map(|_| Update::default()).collect() }
    }

    /// This update is about to be written.
    pub(crate) fn writes(&self, number: usize) {
        if let Some(update) = self.updates.get(number.wrapping_sub(1)) {
            update.wrote.store(self.now(), Ordering::SeqCst);
        }
    }

    /// A watcher that had the update `last` has this one now; whether that was the last of all. With a newer one it has
    /// those that it missed, too.
    pub(crate) fn arrives(&self, last: &mut usize, number: usize) -> bool {
        let now = self.now();
        if number > *last {
            for update in self.updates.iter().take(number).skip(*last) {
                update.arrived.fetch_max(now, Ordering::SeqCst);
            }
            if let Some(update) = self.updates.get(number - 1) {
                update.seen.fetch_add(1, Ordering::SeqCst);
            }
            *last = number;
        }
        *last == self.updates.len()
    }

    /// From the call that writes until the last watcher has it.
    pub(crate) fn latency(&self) -> Latency {
        let mut taken = Latency::default();
        for update in &self.updates {
            let (wrote, arrived) =
                (update.wrote.load(Ordering::SeqCst), update.arrived.load(Ordering::SeqCst));
            taken.record(Duration::from_nanos(arrived.saturating_sub(wrote)));
        }
        taken
    }

    /// The part of the updates that all of `watchers` saw one by one, and that they saw on average.
    pub(crate) fn complete(&self, watchers: usize) -> (f64, f64) {
        let seen = self.updates.iter().map(|update| update.seen.load(Ordering::SeqCst));
        let complete = seen.clone().filter(|seen| *seen == watchers).count() as f64;
        let count = self.updates.len() as f64;
        (complete / count, seen.sum::<usize>() as f64 / count / watchers as f64)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The number that is the value of an update.
pub(crate) fn number(value: &[u8]) -> Result<usize> {
    Ok(std::str::from_utf8(value)?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_newer_update_has_the_older_ones_but_did_not_see_them() {
        let fan = Fan::of(3);
        let (mut one, mut other) = (0, 0);
        (1..=3).for_each(|number| fan.writes(number));
        assert!(!fan.arrives(&mut one, 1));
        assert!(!fan.arrives(&mut one, 2));
        assert!(fan.arrives(&mut one, 3));
        assert!(fan.arrives(&mut other, 3));
        assert_eq!(fan.complete(2), (1.0 / 3.0, 4.0 / 6.0));
        assert_eq!(fan.latency().count(), 3);
        // Told again: nothing new.
        assert!(fan.arrives(&mut one, 2));
        assert_eq!(fan.complete(2), (1.0 / 3.0, 4.0 / 6.0));
    }
}
