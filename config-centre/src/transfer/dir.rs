//! Files in a directory.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::Path,
};

use coord_api::{Error, Result};

use super::files::{Files, refused};

/// How deep a tree may be: ours has one level of directories.
const DEPTH_MAX: usize = 4;

/// Writes the files into `dir`, which must be empty or not there yet. Only their owner may read them.
///
/// # Errors
/// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the directory holds something;
/// [`Config`](coord_api::ErrorKind::Config) with the file that cannot be written.
pub(super) fn write(files: &Files, dir: &Path) -> Result<()> {
    let failed = |path: &Path, error: io::Error| {
        Error::config("the export cannot be written").with_source(error).with_context("file", path.display())
    };
    let holds_something = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed(dir, error)),
    };
    if holds_something {
        return Err(
            Error::invalid("a directory for an export must be empty").with_context("dir", dir.display())
        );
    }
    for (path, bytes) in files.iter() {
        let path = dir.join(path);
        let written = path.parent().map_or(Ok(()), make_dir).and_then(|()| write_file(&path, bytes));
        written.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn make_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // Where names differ in case only, and the disk does not care, the second must not overwrite the first.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

/// Reads the files of `dir` and the directories in it. Links are not followed; names that begin with a dot are others'.
///
/// # Errors
/// [`Config`](coord_api::ErrorKind::Config) with the file that cannot be read; as [`Files::add`] for links and for more
/// than is taken in.
pub(super) fn read(dir: &Path) -> Result<Files> {
    let mut files = Files::default();
    read_into(&mut files, dir, "", 0)?;
    Ok(files)
}

fn read_into(files: &mut Files, dir: &Path, prefix: &str, depth: usize) -> Result<()> {
    let failed = |path: &Path, error: io::Error| {
        Error::config("the import cannot be read").with_source(error).with_context("file", path.display())
    };
    for entry in fs::read_dir(dir).map_err(|error| failed(dir, error))? {
        let entry = entry.map_err(|error| failed(dir, error))?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_str().ok_or_else(|| refused("a path is no text", &path.display().to_string()))?;
        if name.starts_with('.') {
            continue;
        }
        let inside = format!("{prefix}{name}");
        // Of the entry itself, not of what a link leads to.
        let kind = entry.file_type().map_err(|error| failed(&path, error))?;
        if kind.is_dir() && depth < DEPTH_MAX {
            read_into(files, &path, &format!("{inside}/"), depth + 1)?;
        } else if kind.is_file() {
            let size = entry.metadata().map_err(|error| failed(&path, error))?.len();
            files.admit(&inside, size)?;
            let mut bytes = Vec::new();
            let file = fs::File::open(&path).map_err(|error| failed(&path, error))?;
            // It may grow while it is read.
            file.take(size).read_to_end(&mut bytes).map_err(|error| failed(&path, error))?;
            files.add(&inside, bytes)?;
        } else {
            return Err(refused("links, devices and deep directories are not taken", &inside));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use coord_api::ErrorKind;

    use super::*;
    use crate::transfer::files::FILE_MAX;

    #[test]
    fn what_is_written_is_read_and_nobody_else_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("new/export");
        let mut files = Files::default();
        files.add("manifest.json", b"{}".to_vec()).unwrap();
        files.add("ns/document.txt", vec![0, 0xff]).unwrap();
        write(&files, &target).unwrap();
        fs::write(target.join(".gitignore"), "x").unwrap();
        assert!(read(&target).unwrap().iter().eq(files.iter()));
        assert_eq!(write(&files, &target).unwrap_err().kind(), ErrorKind::InvalidArgument, "not empty");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &str| fs::metadata(target.join(path)).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode("ns"), mode("ns/document.txt")), (0o700, 0o600));
        }
    }

    #[test]
    fn what_cannot_be_read_or_written_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&dir.path().join("none")).unwrap_err().kind(), ErrorKind::Config);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let mut files = Files::default();
        files.add("a", Vec::new()).unwrap();
        assert_eq!(write(&files, &file).unwrap_err().kind(), ErrorKind::Config);
        fs::File::create(dir.path().join("large")).unwrap().set_len(FILE_MAX + 1).unwrap();
        assert_eq!(read(dir.path()).unwrap_err().kind(), ErrorKind::LimitExceeded);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("x")).unwrap();
        let error = read(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("file=x"), "{error}");
    }
}
