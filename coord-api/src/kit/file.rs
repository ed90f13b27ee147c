//! Replacing a file, whole or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Makes `content` the content of a file, in one step: whoever reads, also after a crash, has the old file or the new
/// one. Of several writers at once one wins. Only the file's owner may read it, where the system knows owners.
///
/// Blocks until it is on the disk, so it is nothing for an async task.
///
/// ```
/// let path = std::env::temp_dir().join(format!("coord-doc-{}", std::process::id()));
/// coord_api::kit::replace_file(&path, b"old")?;
/// coord_api::kit::replace_file(&path, b"new")?;
/// assert_eq!(std::fs::read(&path)?, b"new");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of the file system, such as for a directory that is not there or that cannot be written to; the old file is
/// there then.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = beside(path)?;
    let written =
        write(&beside, content).and_then(|()| fs::rename(&beside, path)).and_then(|()| sync_dir(path));
    written.inspect_err(|_| {
        // What is left of it is of no use to anybody; if it cannot be removed either, so be it.
        let _ = fs::remove_file(&beside);
    })
}

/// A name of our own next to the file: two writers must not write into one file.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name();
    let mut name =
        name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?.to_owned();
    name.push(format!(".{:08x}.new", rand::random::<u32>()));
    Ok(path.with_file_name(name))
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    // On the disk before its name is: a crash must not leave an empty file under the name of the whole one.
    file.sync_all()
}

/// Puts the new name on the disk, too.
fn sync_dir(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}
