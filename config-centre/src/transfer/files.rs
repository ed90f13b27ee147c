//! A tree of files in memory: what a directory and an archive have in common.

use std::collections::BTreeMap;

use coord_api::{Error, ErrorKind, Result};

/// The most files that are taken in.
pub(super) const COUNT_MAX: usize = 10_000;
/// The most bytes that one file may have.
pub(super) const FILE_MAX: u64 = 16 << 20;
/// The most bytes that all files may have together.
pub(super) const TOTAL_MAX: u64 = 256 << 20;

/// Files by their paths: segments separated by `/`, none of them `.` or `..`, or empty.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<String, Vec<u8>>,
    total: u64,
}

impl Files {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    pub(super) fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Takes a file in.
    ///
    /// # Errors
    /// All name the file. [`InvalidArgument`](ErrorKind::InvalidArgument) for a path that leads elsewhere, and for one
    /// that is there already; [`LimitExceeded`](ErrorKind::LimitExceeded) for more than is taken in.
    pub(super) fn add(&mut self, path: &str, bytes: Vec<u8>) -> Result<()> {
        check_path(path)?;
        self.admit(path, bytes.len() as u64)?;
        self.total += bytes.len() as u64;
        if self.files.insert(path.to_owned(), bytes).is_some() {
            return Err(refused("a file is there twice", path));
        }
        Ok(())
    }

    /// Whether a file of this size may be taken in: asked before it is read.
    pub(super) fn admit(&self, path: &str, size: u64) -> Result<()> {
        let total = self.total.saturating_add(size);
        for (what, is, limit) in [
            ("too many files", self.files.len() as u64 + 1, COUNT_MAX as u64),
            ("a file is too large", size, FILE_MAX),
            ("the files are too large together", total, TOTAL_MAX),
        ] {
            if is > limit {
                return Err(Error::new(ErrorKind::LimitExceeded, what)
                    .with_context("file", path)
                    .with_context("is", is)
                    .with_context("limit", limit));
            }
        }
        Ok(())
    }
}

/// Refuses what is no path inside the tree.
fn check_path(path: &str) -> Result<()> {
    let odd = |segment: &str| matches!(segment, "" | "." | "..");
    if path.split('/').any(odd) || path.contains(['\\', '\0']) {
        return Err(refused("a path leads out of its directory", path));
    }
    Ok(())
}

/// Nothing of a tree with such a file is taken.
pub(super) fn refused(message: &'static str, path: &str) -> Error {
    Error::invalid(message).with_context("file", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_paths_are_refused() {
        for path in ["", "/", "/etc/passwd", "a//b", "..", "a/../b", "./a", "a/.", "a\\b", "a\0b", "a/"] {
            let error = Files::default().add(path, Vec::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path:?}");
        }
        let mut files = Files::default();
        files.add("a/..b/c.json", Vec::new()).unwrap();
        assert!(files.add("a/..b/c.json", Vec::new()).is_err(), "twice");
    }

    #[test]
    fn more_than_is_taken_in_is_refused_with_the_limit() {
        let mut files = Files::default();
        let error = files.admit("a", FILE_MAX + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(error.to_string().contains(&FILE_MAX.to_string()), "{error}");
        for i in 0..COUNT_MAX {
            files.add(&i.to_string(), Vec::new()).unwrap();
        }
        assert_eq!(files.add("one more", Vec::new()).unwrap_err().kind(), ErrorKind::LimitExceeded);
        files = Files { total: TOTAL_MAX, ..Files::default() };
        assert_eq!(files.add("a", vec![0]).unwrap_err().kind(), ErrorKind::LimitExceeded);
    }
}
