//! When a read must sync first, so that a handle sees its own writes whichever connection made them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Counts the acknowledged writes of a handle by connection.
///
/// Each session is connected to a server of its own choice, and followers lag: a read on one connection sees what
/// was written on another only after a sync, or after a later write on the reading connection itself.
#[derive(Debug, Default)]
pub(crate) struct Tide(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    total: u64,
    conns: HashMap<u64, Marks>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// Writes acknowledged on this connection.
    own: u64,
    /// How many writes of others it has surely seen.
    seen: u64,
}

/// How many writes of others there were when a request was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

impl Tide {
    /// Before a request on `conn` is sent: the mark to hand back, and whether a read must sync.
    pub(crate) fn before(&self, conn: u64) -> (Mark, bool) {
        let state = self.lock();
        let marks = state.conns.get(&conn).copied().unwrap_or_default();
        let others = state.total - marks.own;
        (Mark(others), others > marks.seen)
    }

    /// A write was acknowledged: the connection has seen everything that was acknowledged before it was sent.
    pub(crate) fn wrote(&self, conn: u64, sent: Mark) {
        let mut state = self.lock();
        state.total += 1;
        let marks = state.conns.entry(conn).or_default();
        marks.own += 1;
        marks.seen = marks.seen.max(sent.0);
    }

    /// A sync and read was acknowledged.
    pub(crate) fn synced(&self, conn: u64, sent: Mark) {
        let mut state = self.lock();
        let marks = state.conns.entry(conn).or_default();
        marks.seen = marks.seen.max(sent.0);
    }

    /// The connection is gone; its writes stay writes of others for the rest.
    pub(crate) fn forget(&self, conn: u64) {
        self.lock().conns.remove(&conn);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn must_sync(tide: &Tide, conn: u64) -> bool {
        tide.before(conn).1
    }

    fn write(tide: &Tide, conn: u64) {
        let (mark, _) = tide.before(conn);
        tide.wrote(conn, mark);
    }

    #[test]
    fn own_writes_are_seen_and_those_of_another_connection_need_a_sync() {
        let tide = Tide::default();
        write(&tide, 1);
        assert!(!must_sync(&tide, 1) && must_sync(&tide, 2));
        let (mark, _) = tide.before(2);
        write(&tide, 1); // while the sync is under way
        tide.synced(2, mark);
        assert!(must_sync(&tide, 2));
        write(&tide, 2);
        assert!(!must_sync(&tide, 2), "a write is as good as a sync");
        assert!(must_sync(&tide, 1));
    }

    #[test]
    fn writes_under_way_at_once_on_one_connection_are_its_own() {
        let tide = Tide::default();
        let (a, b) = (tide.before(1).0, tide.before(1).0);
        tide.wrote(1, b);
        tide.wrote(1, a);
        assert!(!must_sync(&tide, 1));
    }

    #[test]
    fn a_connection_that_is_gone_still_has_written() {
        let tide = Tide::default();
        write(&tide, 1);
        tide.forget(1);
        assert!(must_sync(&tide, 2));
    }
}
