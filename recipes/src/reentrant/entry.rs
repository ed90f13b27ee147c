//! Owners and their entries in the line.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use coord_api::Result;

use crate::{
    Hold,
    line::{Line, Seat},
};

/// Who owns a [`ReentrantLock`](crate::ReentrantLock): a value, not a task or thread.
///
/// Two owners are the same if they are clones of one another or have the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Identity);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Identity {
    Unique(u64),
    Named(Arc<str>),
}

impl Owner {
    /// An owner that no other is the same as, but its clones.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Identity::Unique(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The owner of this name, such as the id of a request. The name is not sent to the store.
    #[must_use]
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self(Identity::Named(name.into()))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Identity::Unique(number) => write!(f, "owner {number}"),
            Identity::Named(name) => write!(f, "owner {name:?}"),
        }
    }
}

/// The entries of all owners that one lock object knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries(Arc<Mutex<BTreeMap<Owner, Weak<Entry>>>>);

impl Entries {
    /// The entry of an owner; a new one if it has none that waits or holds.
    pub(super) fn of(&self, owner: &Owner) -> Arc<Entry> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(owner).and_then(Weak::upgrade).filter(|entry| !entry.is_over()) {
            return entry;
        }
        entries.retain(|_, entry| entry.strong_count() > 0);
        let entry = Arc::new(Entry::default());
        entries.insert(owner.clone(), Arc::downgrade(&entry));
        entry
    }

    /// The entry with which an owner holds the lock.
    pub(super) fn held_by(&self, owner: &Owner) -> Option<Arc<Entry>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(owner)?.upgrade().filter(|entry| entry.hold().is_some())
    }
}

/// An entry of one owner, from the first acquire to the last release. Leaves the line when the last that knows it is
/// gone: the guards, and the acquires that wait.
#[derive(Debug, Default)]
pub(super) struct Entry {
    seat: tokio::sync::Mutex<Seat>,
    /// Set once, when it is our turn.
    hold: OnceLock<Arc<Hold>>,
    guards: AtomicUsize,
    given_up: AtomicBool,
}

impl Entry {
    /// What the owner holds, if it does.
    pub(super) fn hold(&self) -> Option<Arc<Hold>> {
        self.hold.get().filter(|hold| hold.is_valid()).cloned()
    }

    /// Waits for the turn of the owner.
    ///
    /// # Cancel safety
    /// Safe: another acquire of the owner goes on in the same place.
    pub(super) async fn turn(&self, line: &Line) -> Result<Arc<Hold>> {
        let mut seat = self.seat.lock().await;
        match self.hold.get() {
            Some(hold) => Ok(Arc::clone(hold)),
            None => seat.turn(line).await.map(|hold| self.granted(hold)),
        }
    }

    /// Asks once.
    pub(super) async fn try_turn(&self, line: &Line) -> Result<Option<Arc<Hold>>> {
        // Taken: another acquire of the owner waits, so it is not our turn.
        let Ok(mut seat) = self.seat.try_lock() else { return Ok(None) };
        match self.hold.get() {
            Some(hold) => Ok(Some(Arc::clone(hold))),
            None => Ok(seat.try_turn(line).await?.map(|hold| self.granted(hold))),
        }
    }

    fn granted(&self, hold: Arc<Hold>) -> Arc<Hold> {
        Arc::clone(self.hold.get_or_init(|| hold))
    }

    /// Whether it was held and is no more: lost, or given up.
    fn is_over(&self) -> bool {
        self.hold.get().is_some_and(|hold| !hold.is_valid())
    }

    pub(super) fn holds(&self) -> usize {
        self.guards.load(Ordering::Relaxed)
    }

    /// Takes the hold from all guards; `None` if somebody did before.
    pub(super) fn give_up(&self) -> Option<Arc<Hold>> {
        if self.given_up.swap(true, Ordering::AcqRel) { None } else { self.hold() }
    }
}

/// A guard's share in an entry.
#[derive(Debug)]
pub(super) struct Claim(Arc<Entry>);

/// What the end of a claim means.
pub(super) enum End {
    /// All claims of the owner were given up before.
    GivenUpBefore,
    /// It was the last.
    Last,
    /// There are others.
    OthersHold,
}

impl Claim {
    pub(super) fn new(entry: &Arc<Entry>) -> Self {
        entry.guards.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(entry))
    }

    pub(super) fn end(self) -> End {
        let entry = Arc::clone(&self.0);
        drop(self);
        if entry.given_up.load(Ordering::Acquire) {
            return End::GivenUpBefore;
        }
        // Of all that end at once, exactly one is the last, and none while an acquire of the owner is on its way.
        if Arc::into_inner(entry).is_some() { End::Last } else { End::OthersHold }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.guards.fetch_sub(1, Ordering::Relaxed);
    }
}
