//! From events that name paths to changes with values, in order: pure, so that every race can be tested.
//!
//! An event says that a path changed and (from 3.9 on) at which revision; the value must be read, and by then it may
//! be newer than other changes that were not read yet. Changes are told by revision and only up to the first
//! revision whose effect is not known, so that revisions never go back (promise G7).

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use coord_api::{Dir, Entry, Key, Revision, kit::Change};

use crate::{driver::Node, handle::is_directory, paths::Paths, scan::Scan};

/// The state of one tree as far as it was told and read.
#[derive(Debug)]
pub(crate) struct Replica {
    paths: Paths,
    dir: Dir,
    /// The revision up to which each path was read.
    read_at: HashMap<String, Revision>,
    /// Paths that changed since they were read, with the first such revision.
    unread: BTreeMap<String, Option<Revision>>,
    /// What is known and was not told yet, by path.
    ready: HashMap<String, (Revision, Change)>,
    /// Keys that the mirror shows.
    shown: HashSet<String>,
    /// Entries of the scan, until the snapshot.
    scanned: HashMap<String, Entry>,
    revision: Revision,
    has_revisions: bool,
}

impl Replica {
    pub(crate) fn new(paths: Paths, dir: Dir) -> Self {
        Self {
            paths,
            dir,
            read_at: HashMap::new(),
            unread: BTreeMap::new(),
            ready: HashMap::new(),
            shown: HashSet::new(),
            scanned: HashMap::new(),
            revision: Revision::ZERO,
            has_revisions: false,
        }
    }

    /// What a scan found. The events since the watch was set come next.
    pub(crate) fn load(&mut self, scan: Scan) {
        self.revision = scan.revision;
        for (path, value, node) in scan.nodes {
            let Some(key) = self.key(&path) else { continue };
            self.read_at.insert(path.clone(), node.modified);
            if !is_directory(&value, &node) {
                self.scanned.insert(path, Entry::new(key, value, node.meta()));
            }
        }
    }

    /// A node came or its value changed.
    pub(crate) fn changed(&mut self, path: String, at: Option<Revision>) {
        if self.key(&path).is_none() || self.is_known(&path, at) {
            return;
        }
        self.saw(at);
        self.unread.entry(path).or_insert(at);
    }

    /// A node went.
    pub(crate) fn deleted(&mut self, path: &str, at: Option<Revision>) {
        let Some(key) = self.key(path) else { return };
        if self.is_known(path, at) {
            return;
        }
        self.saw(at);
        self.unread.remove(path);
        // Not remembered as read at `at`: the node may come back at the same revision, in the same transaction.
        self.read_at.remove(path);
        self.ready.remove(path);
        if self.shown.contains(path) || self.scanned.contains_key(path) {
            self.ready.insert(path.to_owned(), (at.unwrap_or_default(), Change::Delete(key)));
        }
    }

    /// Paths that must be read.
    pub(crate) fn unread(&self) -> Vec<String> {
        self.unread.keys().cloned().collect()
    }

    /// The answer for one of them.
    pub(crate) fn read(&mut self, path: &str, found: Option<(Bytes, Node)>) {
        let Some(key) = self.key(path) else { return };
        let Some(first) = self.unread.remove(path) else { return };
        match found {
            // Its deletion is on its way, or we may no longer see it.
            None => self.gone(path, key, first),
            Some((value, node)) => {
                self.read_at.insert(path.to_owned(), node.modified);
                if is_directory(&value, &node) {
                    self.gone(path, key, first);
                } else {
                    let change = Change::Put(Entry::new(key, value, node.meta()));
                    self.ready.insert(path.to_owned(), (node.modified, change));
                }
            }
        }
    }

    fn gone(&mut self, path: &str, key: Key, at: Option<Revision>) {
        self.ready.remove(path);
        if self.shown.contains(path) || self.scanned.contains_key(path) {
            self.ready.insert(path.to_owned(), (at.unwrap_or_default(), Change::Delete(key)));
        }
    }

    /// Whether the server tells the revisions of events; not known to before the first event.
    pub(crate) fn has_revisions(&self) -> bool {
        self.has_revisions
    }

    /// Everything, at a revision before which nothing is missing.
    pub(crate) fn snapshot(&mut self) -> (Revision, Vec<Entry>) {
        let known = self.ready.values().map(|(revision, _)| *revision).fold(self.revision, Revision::max);
        for (path, (_, change)) in std::mem::take(&mut self.ready) {
            match change {
                Change::Put(entry) => drop(self.scanned.insert(path, entry)),
                Change::Delete(_) => drop(self.scanned.remove(&path)),
            }
        }
        let revision = match self.first_unread() {
            Some(first) => known.min(Revision::new(first.get().saturating_sub(1))),
            None => known,
        };
        self.shown = self.scanned.keys().cloned().collect();
        (revision, std::mem::take(&mut self.scanned).into_values().collect())
    }

    /// What can be told now: in order, and only up to the first revision whose effect is not known.
    pub(crate) fn take_complete(&mut self) -> Vec<(Revision, Change)> {
        if !self.has_revisions && !self.unread.is_empty() {
            return Vec::new();
        }
        let first = self.first_unread();
        let is_complete = |revision: Revision| first.is_none_or(|first| revision < first);
        let mut complete: Vec<_> = self.ready.extract_if(|_, (revision, _)| is_complete(*revision)).collect();
        complete.sort_by(|(a, (x, _)), (b, (y, _))| x.cmp(y).then_with(|| a.cmp(b)));
        for (path, (_, change)) in &complete {
            match change {
                Change::Put(_) => drop(self.shown.insert(path.clone())),
                Change::Delete(_) => drop(self.shown.remove(path)),
            }
        }
        complete.into_iter().map(|(_, change)| change).collect()
    }

    fn first_unread(&self) -> Option<Revision> {
        self.unread.values().filter_map(|at| *at).min()
    }

    fn is_known(&self, path: &str, at: Option<Revision>) -> bool {
        at.is_some_and(|at| self.read_at.get(path).is_some_and(|read| *read >= at))
    }

    fn saw(&mut self, at: Option<Revision>) {
        self.has_revisions |= at.is_some();
        self.revision = self.revision.max(at.unwrap_or_default());
    }

    fn key(&self, path: &str) -> Option<Key> {
        self.paths.to_key(path).filter(|key| self.dir.contains(key))
    }
}

#[cfg(test)]
#[path = "replica_tests.rs"]
mod tests;
