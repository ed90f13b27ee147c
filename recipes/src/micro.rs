//! What the micro benchmarks measure of the inside. Public for them alone, with the feature `micro`.

use std::{collections::BTreeMap, sync::Arc};

use coord_api::{Entry, Key, Listing, WatchEvent};

use crate::{
    cache::{Effect, State},
    line::{Verdict, first_in_line},
};

/// The verdict of a lock on a line, for the entry `own` in it: whether it is its turn; `None` if it is not there.
#[must_use]
pub fn verdict(line: &Listing, own: &Key) -> Option<bool> {
    line.position(own).map(|at| matches!(first_in_line(&line.children, at), Verdict::Granted))
}

/// What keeps a cache true, without its watch and its listeners.
#[derive(Debug, Default)]
pub struct Reducer(State);

impl Reducer {
    /// Takes an event; whether listeners would be told of it.
    pub fn apply(&mut self, event: WatchEvent) -> bool {
        self.0.apply(event) != Effect::None
    }

    /// What readers get. While somebody keeps it, the next change copies the map.
    #[must_use]
    pub fn snapshot(&self) -> Arc<BTreeMap<Key, Entry>> {
        Arc::clone(&self.0.entries)
    }
}
