//! Where servers come from, and how that is chosen.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{Kind, Result, TestbedError};

/// Where servers of a kind come from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Provider {
    /// Containers of the local Docker engine. Needs the cargo feature `docker`.
    Docker,
    /// Processes of this machine; the folder holds the programs (see [`Kind::binary`]).
    Local(PathBuf),
    /// A server that somebody else runs, by its URL. It cannot be killed or paused.
    Url(String),
    /// No server: tests that need one are left out, and must say so.
    Off,
}

impl Provider {
    /// Chooses by the variable of the kind, see [`Kind::variable`].
    ///
    /// | value | provider |
    /// |---|---|
    /// | `docker` | containers |
    /// | `local` | programs in `$COORD_SERVERS/bin`, `.servers/bin` of the workspace, or on `PATH` |
    /// | `local:DIR` | programs in `DIR` or `DIR/bin` |
    /// | `url:zk://host:2181` | that server |
    /// | `off` | none |
    ///
    /// Unset or empty, it is Docker if an engine answers and has or can get the image, else local
    /// programs if they are there. A missing server is never a reason to skip silently: leaving
    /// tests out must be spelled `off`.
    ///
    /// # Errors
    /// [`UnknownProvider`](TestbedError::UnknownProvider) for any other value,
    /// [`MissingBinary`](TestbedError::MissingBinary) if a local program was asked for and is not
    /// there, [`NoProvider`](TestbedError::NoProvider) if nothing was asked for and nothing found.
    pub async fn choose(kind: Kind) -> Result<Provider> {
        let value = env::var(kind.variable()).unwrap_or_default();
        match Wish::parse(&value) {
            Some(Wish::Docker) => Ok(Provider::Docker),
            Some(Wish::Off) => Ok(Provider::Off),
            Some(Wish::Url(url)) => Ok(Provider::Url(url.to_owned())),
            Some(Wish::Local(dir)) => {
                let places = dir.map_or_else(usual_places, |dir| vec![dir.join("bin"), dir.to_owned()]);
                match find(kind, &places) {
                    Some(dir) => Ok(Provider::Local(dir)),
                    None => Err(TestbedError::MissingBinary { kind, searched: places }),
                }
            }
            Some(Wish::Any) => {
                let docker = match docker_offers(kind).await {
                    Ok(()) => return Ok(Provider::Docker),
                    Err(reason) => reason,
                };
                let places = usual_places();
                match find(kind, &places) {
                    Some(dir) => Ok(Provider::Local(dir)),
                    None => Err(TestbedError::NoProvider { kind, docker, searched: places }),
                }
            }
            None => Err(TestbedError::UnknownProvider { variable: kind.variable(), value }),
        }
    }

    /// One word for reports: `docker`, `local`, `url` or `off`.
    pub fn name(&self) -> &'static str {
        match self {
            Provider::Docker => "docker",
            Provider::Local(_) => "local",
            Provider::Url(_) => "url",
            Provider::Off => "off",
        }
    }
}

/// What the variable asks for, before looking at what there is.
#[derive(Debug, PartialEq, Eq)]
enum Wish<'a> {
    Any,
    Docker,
    Local(Option<&'a Path>),
    Url(&'a str),
    Off,
}

impl Wish<'_> {
    fn parse(value: &str) -> Option<Wish<'_>> {
        let (word, rest) = value.split_once(':').map_or((value, None), |(word, rest)| (word, Some(rest)));
        match (word, rest) {
            ("", None) => Some(Wish::Any),
            ("docker", None) => Some(Wish::Docker),
            ("local", None) => Some(Wish::Local(None)),
            ("local", Some(dir)) if !dir.is_empty() => Some(Wish::Local(Some(Path::new(dir)))),
            ("url", Some(url)) if url.contains("://") => Some(Wish::Url(url)),
            ("off", None) => Some(Wish::Off),
            _ => None,
        }
    }
}

#[cfg(feature = "docker")]
async fn docker_offers(kind: Kind) -> Result<(), String> {
    crate::docker::offers(kind).await
}

#[cfg(not(feature = "docker"))]
#[expect(clippy::unused_async, reason = "the same signature as with the feature")]
async fn docker_offers(_: Kind) -> Result<(), String> {
    Err("the tests were built without the feature `docker`".to_owned())
}

/// The places that `local` means, the most deliberate first.
fn usual_places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(dir) = env::var_os("COORD_SERVERS") {
        places.push(Path::new(&dir).join("bin"));
    }
    if let Some(root) = Path::new(env!("CARGO_MANIFEST_DIR")).parent() {
        places.push(root.join(".servers/bin"));
    }
    // A test binary may have been built elsewhere and moved here, with the checkout around it.
    if let Ok(here) = env::current_dir() {
        places.extend(here.ancestors().map(|dir| dir.join(".servers/bin")).filter(|dir| dir.is_dir()));
    }
    places.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    places
}

fn find(kind: Kind, places: &[PathBuf]) -> Option<PathBuf> {
    let dir = places.iter().find(|dir| dir.join(kind.binary()).is_file())?;
    // Absolute, because servers start in a folder of their own.
    std::path::absolute(dir).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_value_is_known() {
        for (value, wish) in [
            ("", Wish::Any),
            ("docker", Wish::Docker),
            ("local", Wish::Local(None)),
            ("local:/opt/servers", Wish::Local(Some(Path::new("/opt/servers")))),
            ("url:zk://10.0.0.1:2181", Wish::Url("zk://10.0.0.1:2181")),
            ("off", Wish::Off),
        ] {
            assert_eq!(Wish::parse(value), Some(wish), "{value}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for value in ["Docker", "none", "skip", "local:", "url:", "url:host:1", "off:", "docker:x", "0"] {
            assert_eq!(Wish::parse(value), None, "{value}");
        }
    }

    #[test]
    fn a_refusal_lists_what_is_known() {
        let error = TestbedError::UnknownProvider { variable: "COORD_TEST_ZK", value: "skip".to_owned() };
        let text = error.to_string();
        for word in ["COORD_TEST_ZK", "docker", "local:DIR", "url:", "off"] {
            assert!(text.contains(word), "{text}");
        }
    }
}
