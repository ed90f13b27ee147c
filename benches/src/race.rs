//! What contenders for one lock tell while they race for it.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::stats::Latency;

#[derive(Debug)]
pub(crate) struct Race {
    clock: Instant,
    recording: AtomicBool,
    inside: AtomicU64,
    overlaps: AtomicU64,
    tries: AtomicU64,
    /// When the last holder began to give back, in nanoseconds; 0 once it was taken into account.
    released: AtomicU64,
    counts: Vec<AtomicU64>,
    hand_offs: Mutex<Latency>,
    cycles: Mutex<Latency>,
}

impl Race {
    pub(crate) fn of(contenders: usize) -> Race {
        Race {
            clock: Instant::now(),
            recording: AtomicBool::new(false),
            inside: AtomicU64::new(0),
            overlaps: AtomicU64::new(0),
            tries: AtomicU64::new(0),
            released: AtomicU64::new(0),
            counts: (0..contenders).map(|_| AtomicU64::new(0)).collect(),
            hand_offs: Mutex::default(),
            cycles: Mutex::default(),
        }
    }

    /// Somebody tries to get in.
    pub(crate) fn tried(&self) {
        self.tries.fetch_add(1, Ordering::SeqCst);
    }

    /// This contender holds the lock now.
    pub(crate) fn entered(&self, me: usize) {
        let now = self.now();
        if self.inside.fetch_add(1, Ordering::SeqCst) != 0 {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let released = self.released.swap(0, Ordering::SeqCst);
        if self.recording.load(Ordering::SeqCst) {
            self.counts[me].fetch_add(1, Ordering::SeqCst);
            if released != 0 {
                let mut taken = self.hand_offs.lock().unwrap_or_else(PoisonError::into_inner);
                taken.record(Duration::from_nanos(now.saturating_sub(released)));
            }
        }
    }

    /// The holder is about to give it back.
    pub(crate) fn leaves(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.released.store(self.now(), Ordering::SeqCst);
    }

    /// Somebody has taken it and given it back, in this time.
    pub(crate) fn cycled(&self, taken: Duration) {
        if self.recording.load(Ordering::SeqCst) {
            self.cycles.lock().unwrap_or_else(PoisonError::into_inner).record(taken);
        }
    }

    /// From now on, or no longer, acquisitions and hand-offs are counted.
    pub(crate) fn record(&self, recording: bool) {
        self.recording.store(recording, Ordering::SeqCst);
    }

    /// Attempts since the beginning.
    pub(crate) fn tries(&self) -> u64 {
        self.tries.load(Ordering::SeqCst)
    }

    /// How often each contender was counted.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    /// How often two held the lock at once, since the beginning.
    pub(crate) fn overlaps(&self) -> u64 {
        self.overlaps.load(Ordering::SeqCst)
    }

    /// From the call that gives back to the return of the next acquire.
    pub(crate) fn hand_offs(&self) -> Latency {
        self.hand_offs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From the call that acquires to the return of the one that gives back.
    pub(crate) fn cycles(&self) -> Latency {
        self.cycles.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether no hand-off or no cycle was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.hand_offs().count() == 0 || self.cycles().count() == 0
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}
