//! What the store did, to compare with what it told.

use std::collections::BTreeMap;

use super::{History, What, facts::Stored};

/// All changes of a history, by revision.
pub(super) struct Ledger<'h> {
    changes: Vec<(usize, &'h Stored)>,
}

/// Keys with the revision that wrote them and their value.
pub(super) type State = BTreeMap<String, (u64, u64)>;

const fn parts(change: &Stored) -> (&String, u64) {
    let (Stored::Put { key, revision, .. } | Stored::Gone { key, revision, .. }) = change;
    (key, *revision)
}

impl<'h> Ledger<'h> {
    pub(super) fn of(history: &'h History) -> Self {
        let mut changes: Vec<_> = history
            .facts()
            .filter_map(|(at, what)| match what {
                What::Stored(change) => Some((at, change)),
                _ => None,
            })
            .collect();
        // Stable: changes of one revision stay as they were recorded.
        changes.sort_by_key(|(_, change)| parts(change).1);
        Self { changes }
    }

    /// The changes below a directory, in order.
    pub(super) fn below(&self, dir: &str) -> Vec<usize> {
        (0..self.changes.len()).filter(|&change| is_below(self.key(change), dir)).collect()
    }

    pub(super) fn key(&self, change: usize) -> &'h str {
        parts(self.changes[change].1).0
    }

    pub(super) fn revision(&self, change: usize) -> u64 {
        parts(self.changes[change].1).1
    }

    /// The event that recorded it.
    pub(super) fn event(&self, change: usize) -> usize {
        self.changes[change].0
    }

    pub(super) fn is_put(&self, change: usize, of: &str, by: u64, to: u64) -> bool {
        matches!(self.changes[change].1, Stored::Put { key, revision, value, .. }
            if key == of && *revision == by && *value == to)
    }

    pub(super) fn is_gone(&self, change: usize, of: &str) -> bool {
        matches!(self.changes[change].1, Stored::Gone { key, .. } if key == of)
    }

    /// Whether anybody ever put this.
    pub(super) fn was_put(&self, of: &str, by: u64, to: u64) -> bool {
        (0..self.changes.len()).any(|change| self.is_put(change, of, by, to))
    }

    /// What was below a directory at this revision.
    pub(super) fn state(&self, dir: &str, revision: u64) -> State {
        let mut state = State::new();
        for (_, change) in self.changes.iter().take_while(|(_, change)| parts(change).1 <= revision) {
            match change {
                Stored::Put { key, revision, value, .. } if is_below(key, dir) => {
                    state.insert(key.clone(), (*revision, *value));
                }
                Stored::Put { .. } => {}
                Stored::Gone { key, .. } => {
                    state.remove(key);
                }
            }
        }
        state
    }
}

fn is_below(key: &str, dir: &str) -> bool {
    key.starts_with(dir)
}
