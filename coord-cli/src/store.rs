//! Which store.

use std::{env, path::PathBuf};

use coord::{Config, Coord};

use crate::Failure;

/// What the arguments say about the store.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) url: Option<String>,
    pub(crate) file: Option<PathBuf>,
}

impl Source {
    /// The configuration, and where it comes from for people.
    pub(crate) fn config(&self) -> Result<(Config, String), Failure> {
        if let Some(url) = &self.url {
            return Ok((Config::from_url(url)?.with_environment(), "--url".to_owned()));
        }
        if let Some(file) = &self.file {
            return read(file.clone());
        }
        if let Some(url) = variable("COORD_URL") {
            let config = Config::from_url(&url).map_err(|e| e.with_context("from", "COORD_URL"))?;
            return Ok((config.with_environment(), "COORD_URL".to_owned()));
        }
        if let Some(file) = variable("COORD_CONFIG") {
            return read(file.into());
        }
        let places = usual_places();
        match places.iter().find(|place| place.exists()) {
            Some(file) => read(file.clone()),
            None => own(&places),
        }
    }

    pub(crate) async fn connect(&self) -> Result<Coord, Failure> {
        Ok(coord::connect_with(&self.config()?.0).await?)
    }
}

fn read(file: PathBuf) -> Result<(Config, String), Failure> {
    Ok((Config::from_file(&file)?.with_environment(), file.display().to_string()))
}

/// The store of this user on this host, for those who name none.
#[cfg(feature = "sqlite")]
fn own(_: &[PathBuf]) -> Result<(Config, String), Failure> {
    let config = Config::from_url("sqlite:")?.with_environment();
    Ok((config, "nothing else: the file of this user on this host".to_owned()))
}

#[cfg(not(feature = "sqlite"))]
fn own(places: &[PathBuf]) -> Result<(Config, String), Failure> {
    let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    Err(Failure::Setup(format!(
        "which store? Give --url or COORD_URL, such as redis://127.0.0.1:6379/app, or write url = \"…\" into {}",
        places.join(" or ")
    )))
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn usual_places() -> Vec<PathBuf> {
    let home = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
    [Some(PathBuf::from("coord.toml")), home.map(|home| home.join("coord/config.toml"))]
        .into_iter()
        .flatten()
        .collect()
}
