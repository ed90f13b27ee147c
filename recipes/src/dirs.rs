//! The directories of a recipe: its own, and one beside it for what must not stand in its line.

use std::fmt::Display;

use coord_api::{Dir, Error, IntoDir, Result};

/// The directory `name`, all of which is the recipe's; refuses the root with `refusal`.
pub(crate) fn own(name: impl IntoDir, refusal: &'static str) -> Result<Dir> {
    let dir = name.into_dir()?;
    if dir.is_root() {
        return Err(Error::invalid(refusal));
    }
    Ok(dir)
}

/// The reserved directory `<path>.meta`. On etcd every key in the directory of a line is a place in it, so what else a
/// recipe keeps is here.
pub(crate) fn beside(path: impl Display) -> Result<Dir> {
    Dir::parse(&format!("{path}.meta"))
}
