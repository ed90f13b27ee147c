//! Releases that were read: they never change, so each is read once.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use coord_api::{Coord, Error, ErrorKind, Key, Result};
use tokio::sync::OnceCell;

use crate::model::{Release, ReleaseRef};

/// How many are remembered.
const REMEMBERED: usize = 16;

type Cell = Arc<OnceCell<Arc<Release>>>;

/// The releases that were read last, of every namespace of a centre.
#[derive(Debug, Default)]
pub(crate) struct Releases(Mutex<VecDeque<(Key, ReleaseRef, Cell)>>);

impl Releases {
    /// The release at `key` that a head names so. However many ask at once, the store is asked once.
    pub(crate) async fn get(&self, coord: &Coord, key: &Key, expected: &ReleaseRef) -> Result<Arc<Release>> {
        let cell = self.cell(key, expected);
        let read = cell.get_or_try_init(|| async {
            let entry = coord.get(key).await?.ok_or_else(|| gone(key))?;
            Release::decode(&entry, expected).map(Arc::new)
        });
        read.await.map(Arc::clone)
    }

    /// Remembers a release that was just made or read.
    pub(crate) fn insert(&self, key: &Key, named: &ReleaseRef, release: Arc<Release>) {
        // Whoever was faster holds the same.
        let _ = self.cell(key, named).set(release);
    }

    fn cell(&self, key: &Key, named: &ReleaseRef) -> Cell {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., cell)) = cells.iter().find(|(known, release, _)| known == key && release == named) {
            return Arc::clone(cell);
        }
        let cell = Cell::default();
        cells.push_front((key.clone(), *named, Arc::clone(&cell)));
        cells.truncate(REMEMBERED);
        cell
    }
}

/// A release that is not there.
pub(crate) fn gone(key: &Key) -> Error {
    Error::new(ErrorKind::NotFound, "the release was never made, or was collected").with_context("key", key)
}
