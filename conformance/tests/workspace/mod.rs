//! The files of the workspace, for tests that read them.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace")
}

/// All files with these extensions; what is built, fetched or hidden is left out.
pub(crate) fn files(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, extensions));
        } else if extensions.iter().any(|wanted| path.extension().is_some_and(|own| own == *wanted)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The path as people write it, from the root of the repository.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
