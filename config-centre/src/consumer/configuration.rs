//! What holds for one instance.

use std::{collections::BTreeMap, sync::Arc};

use coord_api::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::source::{Current, Found};
use crate::{
    Content, Generation, Identity, Keyring, ReleaseVersion,
    layers::{Overlaid, overlay},
};

/// Which release of one namespace an instance runs, and why this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Running {
    /// The namespace.
    pub namespace: String,
    /// Its generation; `None` if it has no release yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// The release that the content comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseVersion>,
    /// The gray rule that the instance falls under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Running {
    /// A namespace of which nothing is in force.
    pub(super) fn nothing(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), generation: None, release: None, rule: None }
    }
}

/// The configuration of one instance at one moment: its gray rule applied, its layers laid over one another.
///
/// It never changes; the next one is another. `Debug` shows no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    layers: Vec<Running>,
    content: Content,
    /// For each item the layer that it comes from.
    origins: BTreeMap<String, usize>,
}

impl Configuration {
    /// What holds for `identity`, out of what was found in each namespace; `None` if none of them has a release.
    pub(super) fn of(identity: &Identity, found: &[(&str, Found)]) -> Result<Option<Self>> {
        let contents = found.iter().map(|(namespace, found)| match found {
            Found::Nothing => (*namespace, None),
            Found::Current(current) => (*namespace, content(identity, current)),
        });
        let Some((content, origins)): Option<Overlaid> = overlay(contents)? else { return Ok(None) };
        let layers = found.iter().map(|(namespace, found)| running(identity, namespace, found)).collect();
        Ok(Some(Self { layers, content, origins }))
    }

    /// The same with its encrypted values opened.
    pub(super) fn opened(&self, keyring: Option<&Keyring>) -> Result<Self> {
        let (Some(keyring), Content::Items(items)) = (keyring, &self.content) else {
            return Ok(self.clone());
        };
        let open = |(key, value): (&String, &String)| {
            let namespace = self.origin(key).unwrap_or_default();
            keyring.open(namespace, key, value).map(|value| (key.clone(), value))
        };
        let items = items.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { content: Content::Items(items), ..self.clone() })
    }

    /// The content.
    #[must_use]
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// The value of one item; `None` if there is no such item, or this is a document.
    #[must_use]
    pub fn item(&self, key: &str) -> Option<&str> {
        self.content.item(key)
    }

    /// Reads it as a type of the program's own, as [`Content::read`] does.
    ///
    /// # Errors
    /// As [`Content::read`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        self.content.read()
    }

    /// The namespace that an item comes from; `None` if there is no such item.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&str> {
        let at = self.origins.get(key)?;
        self.layers.get(*at).map(|layer| layer.namespace.as_str())
    }

    /// The namespace that the document comes from; `None` if this is no document.
    #[must_use]
    pub fn document_origin(&self) -> Option<&str> {
        self.origin("")
    }

    /// What runs of each namespace, the lowest layer first.
    #[must_use]
    pub fn layers(&self) -> &[Running] {
        &self.layers
    }

    /// The generation of the highest layer, which is the only one where there are no layers; `None` if that namespace
    /// has no release yet.
    #[must_use]
    pub fn generation(&self) -> Option<Generation> {
        self.layers.last().and_then(|layer| layer.generation)
    }

    /// The error that names the first layer that is in an older generation than in `saved`, if there is one.
    pub(super) fn behind(&self, saved: &Self) -> Option<Error> {
        let mut layers = self.layers.iter().zip(&saved.layers);
        let (here, there) = layers.find(|(here, there)| here.generation < there.generation)?;
        Some(past(there).with_context("found", here.generation.map_or(0, Generation::get)))
    }

    /// The error that says that nothing of it is in the store any more.
    pub(super) fn missing(&self) -> Error {
        self.layers.last().map_or_else(|| Error::invalid("layers need a namespace"), past)
    }

    /// Whether it is made of the same namespaces.
    pub(super) fn is_of<'n>(&self, namespaces: impl Iterator<Item = &'n str>) -> bool {
        self.layers.iter().map(|layer| layer.namespace.as_str()).eq(namespaces)
            && self.origins.values().all(|at| *at < self.layers.len())
    }
}

/// The store was ahead once: a backup was restored, or the namespace made anew.
fn past(saved: &Running) -> Error {
    Error::new(ErrorKind::StaleToken, "the store is behind the snapshot of the last good configuration")
        .with_context("namespace", &saved.namespace)
        .with_context("seen", saved.generation.map_or(0, Generation::get))
}

/// What holds in one namespace. The follower has read every release that its head names.
fn content(identity: &Identity, current: &Arc<Current>) -> Option<Content> {
    let release = current.releases.get(&current.head.release_for(identity).version)?;
    Some(current.head.content_for(identity, release))
}

fn running(identity: &Identity, namespace: &str, found: &Found) -> Running {
    let Found::Current(current) = found else { return Running::nothing(namespace) };
    Running {
        namespace: namespace.to_owned(),
        generation: Some(current.head.generation),
        release: Some(current.head.release_for(identity).version),
        rule: current.head.rule_for(identity).map(|gray| gray.rule.id.clone()),
    }
}
