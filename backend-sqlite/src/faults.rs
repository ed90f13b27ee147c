//! Failing on purpose, as a disk and a kernel do: for tests, by the feature `faults`.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use coord_api::{Error, Result};

use crate::{
    SqliteBackend,
    call::{Claim, ReadJob},
    store::Store,
};

/// Controls the faults of one handle.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Store>);

/// Answers that will be lost, by the number of the call.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    lost: Mutex<Vec<u64>>,
    calls: AtomicU64,
}

impl SqliteBackend {
    /// The controls of this handle's faults; they work also while it is behind layers.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults(Arc::clone(&self.store))
    }
}

impl Faults {
    /// Nothing reaches the file any more, as when the disk hangs: calls wait for their deadline, waits and watches stand
    /// still, sessions are not renewed, and nobody's session is ended from here.
    pub fn cut_off(&self) {
        self.0.writes.hold(true);
        self.0.reads.hold(true);
    }

    /// Everything goes on after [`Faults::cut_off`].
    pub fn reconnect(&self) {
        self.0.writes.hold(false);
        self.0.reads.hold(false);
    }

    /// Every watch of this handle goes on with a new snapshot, as after a gap.
    pub fn cut_watches(&self) {
        let reload = ReadJob { claim: Claim::default(), work: Box::new(|reader| reader.reload(|_| true)) };
        self.0.reads.push(reload);
    }

    /// The nth call from now on (1 is the next) is carried out, and its answer is lost. Upkeep of sessions is no call.
    pub fn lose_reply(&self, nth: u64) {
        let at = self.0.plan.calls.load(Ordering::SeqCst) + nth.max(1);
        self.0.plan.lost.lock().unwrap_or_else(PoisonError::into_inner).push(at);
    }
}

impl Plan {
    /// The answer of one call, unless it is to be lost.
    pub(crate) fn answer<T>(&self, writes: bool, result: Result<T>) -> Result<T> {
        let nth = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = lost.iter().position(|at| *at == nth) else { return result };
        lost.swap_remove(at);
        // What failed anyway says so.
        result.and_then(|_| match writes {
            true => Err(Error::ambiguous("the answer was lost")),
            false => Err(Error::unavailable("the answer was lost")),
        })
    }
}
