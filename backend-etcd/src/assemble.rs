//! Putting the fragments of a watch back together.
//!
//! etcd splits large answers, also inside of one revision: 100 of a transaction's 120 events in one message and 20 in
//! the next were seen. Only whole revisions may be applied, or a reconnect in between would lose the rest.

use coord_api::kit::Change;

/// Changes of the revisions that are not whole yet.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    revision: i64,
    changes: Vec<Change>,
}

impl Assembler {
    /// Takes the changes of one message, and gives the revisions that are whole by now, in order.
    ///
    /// `continued` says that the message is a fragment and the next one goes on where it ends.
    pub(crate) fn take(
        &mut self,
        events: impl IntoIterator<Item = (i64, Option<Change>)>,
        continued: bool,
    ) -> Vec<(i64, Vec<Change>)> {
        let mut whole = Vec::new();
        for (revision, change) in events {
            if revision != self.revision {
                self.flush(&mut whole);
                self.revision = revision;
            }
            self.changes.extend(change);
        }
        if !continued {
            self.flush(&mut whole);
        }
        whole
    }

    /// Whether nothing is waiting for its rest.
    pub(crate) fn is_whole(&self) -> bool {
        self.revision == 0
    }

    fn flush(&mut self, whole: &mut Vec<(i64, Vec<Change>)>) {
        if self.revision != 0 {
            whole.push((self.revision, std::mem::take(&mut self.changes)));
            self.revision = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use coord_api::Key;

    use super::*;

    fn event(revision: i64, name: &str) -> (i64, Option<Change>) {
        (revision, Some(Change::Delete(Key::parse(name).unwrap())))
    }

    fn shape(whole: &[(i64, Vec<Change>)]) -> Vec<(i64, usize)> {
        whole.iter().map(|(revision, changes)| (*revision, changes.len())).collect()
    }

    #[test]
    fn a_message_that_is_no_fragment_is_whole() {
        let mut assembler = Assembler::default();
        let whole = assembler.take([event(5, "a"), event(5, "b"), event(7, "c")], false);
        assert_eq!(shape(&whole), [(5, 2), (7, 1)]);
        assert!(assembler.is_whole() && assembler.take([], false).is_empty());
    }

    #[test]
    fn the_last_revision_of_a_fragment_waits_for_its_rest() {
        let mut assembler = Assembler::default();
        assert_eq!(shape(&assembler.take([event(5, "a"), event(6, "b")], true)), [(5, 1)]);
        assert!(!assembler.is_whole());
        assert!(assembler.take([event(6, "c")], true).is_empty());
        assert_eq!(shape(&assembler.take([event(6, "d"), event(8, "e")], false)), [(6, 3), (8, 1)]);
        assert!(assembler.is_whole());
    }

    #[test]
    fn a_revision_of_nothing_readable_still_counts() {
        let mut assembler = Assembler::default();
        assert_eq!(shape(&assembler.take([(9, None)], false)), [(9, 0)]);
    }
}
