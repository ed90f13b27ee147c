//! What happened, as far back as it is kept.

use std::collections::VecDeque;

use coord_api::{Revision, kit::Change};

/// How many revisions are kept. The log is the whole store's: writes elsewhere push out what a watcher has not read.
const KEPT: usize = 16_384;

/// The changes of the last revisions.
#[derive(Debug)]
pub(crate) struct Log {
    revisions: VecDeque<(Revision, Vec<Change>)>,
    /// Every change after this revision is here.
    floor: Revision,
}

impl Log {
    pub(crate) fn new(floor: Revision) -> Self {
        Self { revisions: VecDeque::new(), floor }
    }

    pub(crate) fn push(&mut self, revision: Revision, changes: Vec<Change>) {
        self.revisions.push_back((revision, changes));
        if self.revisions.len() > KEPT
            && let Some((dropped, _)) = self.revisions.pop_front()
        {
            self.floor = dropped;
        }
    }

    /// Forgets everything up to `revision`.
    pub(crate) fn compact(&mut self, revision: Revision) {
        self.revisions.clear();
        self.floor = revision;
    }

    /// The changes after `revision`, or `None` if some of them are forgotten.
    pub(crate) fn after(&self, revision: Revision) -> Option<impl Iterator<Item = (Revision, &Change)>> {
        (revision >= self.floor).then(|| {
            let first = self.revisions.partition_point(|(at, _)| *at <= revision);
            self.revisions.range(first..).flat_map(|(at, changes)| changes.iter().map(|change| (*at, change)))
        })
    }
}
