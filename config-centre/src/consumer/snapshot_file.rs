//! The last good configuration on disk, for a start without the store.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use coord_api::{Error, ErrorKind, Result, kit::replace_file};
use serde::{Serialize, de::DeserializeOwned};

use crate::Digest;

/// The first line, before the checksum: what this is, and in which version.
const MARK: &str = "coord-config-snapshot 1 sha256=";
/// The longest file that is read: what is larger is not ours.
const LIMIT: u64 = 64 << 20;

/// A file that holds one value, whole or not at all: one line that says what it is, with a checksum of the rest, then
/// JSON. Only its owner may read it. It is replaced in one step, so that a crash leaves the old file or the new one.
#[derive(Clone, Debug)]
pub(super) struct SnapshotFile {
    path: PathBuf,
}

impl SnapshotFile {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What the file holds; `None` if there is none.
    ///
    /// # Errors
    /// All name the file. [`Malformed`](ErrorKind::Malformed) if it is not whole, or not ours;
    /// [`Config`](ErrorKind::Config) if it cannot be read.
    pub(super) async fn load<T: DeserializeOwned + Send + 'static>(&self) -> Result<Option<T>> {
        self.off_the_runtime(load).await
    }

    /// Replaces what the file holds.
    ///
    /// # Errors
    /// All name the file. [`Config`](ErrorKind::Config) if it cannot be written; the old one is there then.
    pub(super) async fn save(&self, value: &(impl Serialize + Sync)) -> Result<()> {
        let body = serde_json::to_vec(value).map_err(|error| {
            Error::new(ErrorKind::Unexpected, "a configuration cannot be written as JSON").with_source(error)
        })?;
        self.off_the_runtime(move |path| save(path, &body)).await
    }

    /// Disks block.
    async fn off_the_runtime<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let path = self.path.clone();
        let done = tokio::task::spawn_blocking(move || {
            work(&path).map_err(|error| error.with_context("file", path.display()))
        });
        done.await.unwrap_or_else(|error| {
            Err(Error::new(ErrorKind::Unexpected, "the work on a file ended early").with_source(error))
        })
    }
}

fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::config("the snapshot cannot be read").with_source(error)),
    };
    let mut bytes = Vec::new();
    let read = file.take(LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::config("the snapshot cannot be read").with_source(error))?;
    if bytes.len() as u64 > LIMIT {
        return Err(malformed("the snapshot is too large to be ours"));
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| malformed("no snapshot of ours"))?;
    let (line, body) = (&bytes[..end], &bytes[end + 1..]);
    let sum = line.strip_prefix(MARK.as_bytes()).ok_or_else(|| malformed("no snapshot of this version"))?;
    if sum != checksum(body).as_bytes() {
        return Err(malformed("the snapshot is damaged: its checksum differs"));
    }
    let value = serde_json::from_slice(body);
    value.map(Some).map_err(|error| malformed("the snapshot holds something else").with_source(error))
}

fn save(path: &Path, body: &[u8]) -> Result<()> {
    let line = format!("{MARK}{}\n", checksum(body));
    replace_file(path, &[line.as_bytes(), body].concat())
        .map_err(|error| Error::config("the snapshot cannot be written").with_source(error))
}

fn checksum(body: &[u8]) -> String {
    Digest::of(body).to_string()
}

fn malformed(message: &'static str) -> Error {
    Error::new(ErrorKind::Malformed, message)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file() -> (tempfile::TempDir, SnapshotFile) {
        let dir = tempfile::tempdir().unwrap();
        let file = SnapshotFile::new(dir.path().join("config.snapshot"));
        (dir, file)
    }

    #[tokio::test]
    async fn what_is_saved_is_loaded_and_nobody_else_may_read_it() {
        let (dir, file) = file();
        assert_eq!(file.load::<Vec<String>>().await.unwrap(), None);
        for value in [vec!["a".to_owned()], vec![], vec!["b\n\0".to_owned(), String::new()]] {
            file.save(&value).await.unwrap();
            assert_eq!(file.load::<Vec<String>>().await.unwrap(), Some(value));
        }
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["config.snapshot"], "nothing else is left");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&file.path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn every_damage_is_seen() {
        let (_dir, file) = file();
        file.save(&"hello").await.unwrap();
        let whole = fs::read(&file.path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&file.path, damaged).unwrap();
            assert_eq!(file.load::<String>().await.unwrap_err().kind(), ErrorKind::Malformed, "byte {at}");
            fs::write(&file.path, &whole[..at]).unwrap();
            assert_eq!(file.load::<String>().await.unwrap_err().kind(), ErrorKind::Malformed, "cut at {at}");
        }
        fs::write(&file.path, &whole).unwrap();
        let error = file.load::<u64>().await.unwrap_err();
        assert!(error.to_string().contains("config.snapshot"), "{error}");
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_told_and_the_old_file_stays() {
        let (dir, file) = file();
        file.save(&1).await.unwrap();
        let nowhere = SnapshotFile::new(dir.path().join("no/such/dir/x"));
        assert_eq!(nowhere.save(&2).await.unwrap_err().kind(), ErrorKind::Config);
        let taken = SnapshotFile::new(dir.path().to_owned());
        assert_eq!(taken.save(&2).await.unwrap_err().kind(), ErrorKind::Config, "a directory is no file");
        assert_eq!(file.load::<u64>().await.unwrap(), Some(1));
    }
}
