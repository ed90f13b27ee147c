//! Which store.

use std::{env, path::PathBuf};

use coord::{Config, Coord};

use crate::Failure;

/// What the arguments say about the store.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) url: Option<String>,
    pub(crate) file: Option<PathBuf>,
}

/// A place where the store may be named.
#[derive(Debug)]
pub(crate) struct Place {
    /// How people call it: `--url`, `COORD_CONFIG`, `coord.toml`.
    pub(crate) name: String,
    /// What stands there; `None` if it names no store.
    pub(crate) found: Option<Found>,
}

/// What stands in a place.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Url(String),
    File(PathBuf),
}

impl Source {
    /// All places, in the order in which they count: the first that names a store is used.
    pub(crate) fn places(&self) -> Vec<Place> {
        let place = |name: &str, found: Option<Found>| Place { name: name.to_owned(), found };
        let mut places = vec![
            place("--url", self.url.clone().map(Found::Url)),
            place("--config", self.file.clone().map(Found::File)),
            place("COORD_URL", variable("COORD_URL").map(Found::Url)),
            place("COORD_CONFIG", variable("COORD_CONFIG").map(|file| Found::File(file.into()))),
        ];
        places.extend(usual_files().into_iter().map(|file| Place {
            name: file.display().to_string(),
            found: file.exists().then_some(Found::File(file)),
        }));
        // The store of this user on this host, for those who name none.
        if cfg!(feature = "sqlite") {
            places.push(place("the file of this user on this host", Some(Found::Url("sqlite:".to_owned()))));
        }
        places
    }

    /// The configuration, and where it comes from for people.
    pub(crate) fn config(&self) -> Result<(Config, String), Failure> {
        let Some((found, name)) =
            self.places().into_iter().find_map(|place| Some((place.found?, place.name)))
        else {
            let files: Vec<_> = usual_files().iter().map(|file| file.display().to_string()).collect();
            return Err(Failure::Setup(format!(
                "which store? Give --url or COORD_URL, such as redis://127.0.0.1:6379/app, or write url = \"…\" into {}",
                files.join(" or ")
            )));
        };
        let read = match &found {
            Found::Url(url) if name == "COORD_URL" => {
                Config::from_url(url).map_err(|error| error.with_context("from", &name))
            }
            Found::Url(url) => Config::from_url(url),
            Found::File(file) => Config::from_file(file),
        };
        let from = match found {
            Found::File(file) => file.display().to_string(),
            Found::Url(_) => name,
        };
        Ok((read?.with_environment(), from))
    }

    pub(crate) async fn connect(&self) -> Result<Coord, Failure> {
        Ok(coord::connect_with(&self.config()?.0).await?)
    }
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn usual_files() -> Vec<PathBuf> {
    let home = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
    [Some(PathBuf::from("coord.toml")), home.map(|home| home.join("coord/config.toml"))]
        .into_iter()
        .flatten()
        .collect()
}

/// Whether the store lives and dies with this process, so that nobody else sees what is in it.
pub(crate) fn is_of_this_process(coord: &Coord) -> bool {
    coord.info().name == "memory"
}
