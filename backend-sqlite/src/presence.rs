//! Who has the file open: a lock on a small file beside it, which goes with its process.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use coord_api::Result;
use rustix::fs::{FlockOperation, flock};

use crate::error;

/// The small file: locked by everybody who has the store open, and read to wake the others (see `bell`).
///
/// Not the store's own file: whoever closes a second descriptor of that takes SQLite's locks away from its process.
#[derive(Debug)]
pub(crate) struct Presence {
    file: File,
    path: PathBuf,
}

impl Presence {
    /// Opens the file beside the store's, or makes it.
    pub(crate) fn open(store: &Path) -> Result<Self> {
        let mut name = store.file_name().unwrap_or_default().to_owned();
        name.push("-wake");
        let path = store.with_file_name(name);
        let mut options = OpenOptions::new();
        // A byte to read must be there: reading nothing wakes nobody.
        let opened = options.read(true).write(true).create(true).mode(0o600).open(&path);
        let file = opened.and_then(|file| file.write_all_at(b"\n", 0).map(|()| file));
        let file = file.map_err(|cause| error::system(&cause, "cannot write beside the store's file"))?;
        Ok(Self { file, path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Wakes whoever listens: see `bell`.
    pub(crate) fn ring(&self) {
        // A process that cannot read it looks from time to time.
        let _ = self.file.read_at(&mut [0], 0);
    }

    /// Whether nobody else has the store open; nobody can open it while this is held. Who was among others before and
    /// fails here is no longer.
    pub(crate) fn alone(&self) -> bool {
        flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Says that the store is open here; `false` while somebody holds it alone.
    pub(crate) fn among_others(&self) -> bool {
        flock(&self.file, FlockOperation::NonBlockingLockShared).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_alone_until_another_comes_and_again_when_it_went() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("x.db");
        let (a, b) = (Presence::open(&store).unwrap(), Presence::open(&store).unwrap());
        assert!(a.alone() && !b.alone() && !b.among_others());
        assert!(a.among_others() && b.among_others());
        assert!(!a.alone());
        assert!(a.among_others(), "who tried and failed gave its own up, and takes it again");
        drop(b);
        assert!(a.alone());
    }
}
