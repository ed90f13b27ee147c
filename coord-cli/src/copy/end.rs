//! One end of a copy.

use std::{fmt, path::PathBuf};

use coord::{Config, Coord, Dir, Freshness, StoreUrl};

use crate::{Failure, store::Source};

/// Where keys are copied from or to: a store, or a directory of the store that the other arguments name.
#[derive(Clone, Debug)]
pub enum End {
    /// A URL.
    Url(StoreUrl, String),
    /// A configuration file.
    File(PathBuf),
    /// A directory of the usual store.
    Dir(Dir),
}

/// An end that is connected.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) coord: Coord,
    pub(super) dir: Dir,
}

impl End {
    /// Tells the three apart: a file ends with `.toml`, a directory begins with a slash, a URL has a colon.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.ends_with(".toml") {
            Ok(Self::File(text.into()))
        } else if text.starts_with('/') {
            Dir::parse(text).map(Self::Dir).map_err(|error| error.to_string())
        } else {
            let url =
                StoreUrl::parse(text).map_err(|error| format!("{error}; a directory begins with a slash"))?;
            Ok(Self::Url(url, text.to_owned()))
        }
    }

    pub(super) async fn open(&self, usual: &Source) -> Result<Opened, Failure> {
        let config = match self {
            Self::Url(_, text) => Config::from_url(text)?.with_environment(),
            Self::File(file) => Config::from_file(file)?.with_environment(),
            Self::Dir(_) => usual.config()?.0,
        };
        let dir = if let Self::Dir(dir) = self { dir.clone() } else { Dir::root() };
        let coord = coord::connect_with(&config).await?.with_freshness(Freshness::Latest);
        Ok(Opened { coord, dir })
    }
}

impl fmt::Display for End {
    /// Without passwords and values of options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url, _) => url.fmt(f),
            Self::File(file) => file.display().fmt(f),
            Self::Dir(dir) => dir.fmt(f),
        }
    }
}
