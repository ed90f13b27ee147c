//! Files in one tar archive.

use std::io::Read;

use coord_api::{Error, ErrorKind, Result};
use tar::{Archive, Builder, EntryType, Header};

use super::files::{Files, refused};

/// The files as a tar archive: always the same bytes for the same files. Who unpacks it gets files that only they may
/// read.
pub(super) fn pack(files: &Files) -> Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    let broken = |error| Error::new(ErrorKind::Unexpected, "an archive cannot be made").with_source(error);
    for (path, bytes) in files.iter() {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(0);
        tar.append_data(&mut header, path, bytes)
            .map_err(|error| broken(error).with_context("file", path))?;
    }
    tar.into_inner().map_err(broken)
}

/// Reads a tar archive. Nothing is unpacked to disk.
///
/// # Errors
/// [`Malformed`](ErrorKind::Malformed) for what is no archive; for one with paths that lead out of it, with links or
/// devices, or that is too large, as [`Files::add`].
pub(super) fn unpack(archive: impl Read) -> Result<Files> {
    let malformed =
        |error| Error::new(ErrorKind::Malformed, "this is no whole tar archive").with_source(error);
    let mut files = Files::default();
    let mut archive = Archive::new(archive);
    for entry in archive.entries().map_err(malformed)? {
        let mut entry = entry.map_err(malformed)?;
        let path = entry.path_bytes().into_owned();
        let path = String::from_utf8(path)
            .map_err(|error| refused("a path is no text", &String::from_utf8_lossy(error.as_bytes())))?;
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Directory => continue,
            _ => return Err(refused("an archive with links or devices is not taken", &path)),
        }
        // What the header promises is checked before anything is read; no more than that is read.
        files.admit(&path, entry.size())?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(malformed)?;
        files.add(&path, bytes)?;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::files::{COUNT_MAX, FILE_MAX};

    fn sample() -> Files {
        let mut files = Files::default();
        files.add("coord-config.json", b"{}".to_vec()).unwrap();
        files.add("a%2Fb/document.yaml", vec![0, 0xff, b'\n']).unwrap();
        // Longer than the field that old archives have for names.
        files.add(&format!("{}/items.json", "n".repeat(200)), Vec::new()).unwrap();
        files
    }

    /// An archive with one entry whose header is as an attacker wants it.
    fn hostile(path: &str, kind: EntryType, size: u64) -> Vec<u8> {
        let mut header = Header::new_gnu();
        let name = &mut header.as_old_mut().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        if kind != EntryType::Regular {
            header.as_old_mut().linkname[..4].copy_from_slice(b"/etc");
        }
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(4 * 512, 0);
        bytes
    }

    #[test]
    fn what_is_packed_is_unpacked_and_is_always_the_same() {
        let packed = pack(&sample()).unwrap();
        assert_eq!(packed, pack(&sample()).unwrap());
        let files = unpack(&packed[..]).unwrap();
        assert!(files.iter().eq(sample().iter()));
    }

    #[test]
    fn hostile_archives_are_refused() {
        for path in ["../x", "/etc/passwd", "a/../../x", "./x"] {
            let error = unpack(&hostile(path, EntryType::Regular, 0)[..]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}: {error}");
            assert!(error.to_string().contains(path), "{error}");
        }
        for kind in [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Block, EntryType::Fifo]
        {
            let error = unpack(&hostile("x", kind, 0)[..]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{kind:?}: {error}");
        }
        let error = unpack(&hostile("x", EntryType::Regular, FILE_MAX + 1)[..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        let many: Vec<u8> = (0..=COUNT_MAX)
            .flat_map(|i| hostile(&i.to_string(), EntryType::Regular, 0)[..512].to_vec())
            .collect();
        assert_eq!(unpack(&many[..]).unwrap_err().kind(), ErrorKind::LimitExceeded);
    }

    #[test]
    fn damaged_archives_are_errors() {
        let whole = pack(&sample()).unwrap();
        assert_eq!(
            unpack(&b"no archive at all, but long enough to be asked about"[..]).unwrap_err().kind(),
            ErrorKind::Malformed
        );
        for at in [1, 511, 513, 700, 1100] {
            assert!(unpack(&whole[..at]).is_err(), "cut at {at}");
        }
        let mut damaged = whole;
        damaged[3] ^= 1;
        assert_eq!(unpack(&damaged[..]).unwrap_err().kind(), ErrorKind::Malformed);
    }
}
