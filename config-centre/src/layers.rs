//! Namespaces laid over one another: base, team, application.

use std::collections::BTreeMap;

use coord_api::{Error, ErrorKind, Result};

use crate::{Content, Namespace};

/// Namespaces in the order in which they are laid over one another: the later wins.
///
/// Items are overlaid key by key: a key that the application does not set comes from its team, or from the base. Whole
/// documents are not mixed: of those that exist, the last one is taken as it is. Items and documents do not go
/// together. A namespace that has no release yet adds nothing.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_config_centre::{ConfigCentre, Layers};
///
/// let centre = ConfigCentre::new(&store, "/config")?;
/// let layers = Layers::new([centre.namespace("base")?, centre.namespace("billing")?])?;
/// assert_eq!(layers.names().collect::<Vec<_>>(), ["base", "billing"]);
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Layers {
    below: Vec<Namespace>,
    top: Namespace,
}

impl Layers {
    /// These namespaces, the lowest first.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if there is none, or one stands there twice.
    pub fn new(namespaces: impl IntoIterator<Item = Namespace>) -> Result<Self> {
        let mut below: Vec<_> = namespaces.into_iter().collect();
        let top = below.pop().ok_or_else(|| Error::invalid("layers need a namespace"))?;
        let layers = Self { below, top };
        for (at, namespace) in layers.iter().enumerate() {
            if layers.iter().take(at).any(|other| other.paths().head == namespace.paths().head) {
                return Err(Error::invalid("a namespace is in the layers twice")
                    .with_context("namespace", namespace.name()));
            }
        }
        Ok(layers)
    }

    /// The names, the lowest first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(Namespace::name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.below.iter().chain([&self.top])
    }

    /// The highest.
    pub(crate) const fn top(&self) -> &Namespace {
        &self.top
    }
}

impl From<&Namespace> for Layers {
    fn from(namespace: &Namespace) -> Self {
        Self { below: Vec::new(), top: namespace.clone() }
    }
}

/// Contents laid over one another, and for each key which of them it comes from. A document has the key `""`, which no
/// item has.
pub(crate) type Overlaid = (Content, BTreeMap<String, usize>);

/// Lays contents over one another, the lowest first; `None` where a namespace has no release. `None` if nothing is there.
///
/// # Errors
/// [`Malformed`](ErrorKind::Malformed) with the namespace that is of another kind than those below.
pub(crate) fn overlay<'n>(
    layers: impl IntoIterator<Item = (&'n str, Option<Content>)>,
) -> Result<Option<Overlaid>> {
    let mut overlaid: Option<Overlaid> = None;
    for (at, (namespace, content)) in layers.into_iter().enumerate() {
        overlaid = match (overlaid, content) {
            (below, None) => below,
            (None, Some(Content::Items(items))) => {
                let origins = items.keys().map(|key| (key.clone(), at)).collect();
                Some((Content::Items(items), origins))
            }
            (Some((Content::Items(mut items), mut origins)), Some(Content::Items(over))) => {
                origins.extend(over.keys().map(|key| (key.clone(), at)));
                items.extend(over);
                Some((Content::Items(items), origins))
            }
            (None | Some((Content::Document { .. }, _)), Some(document @ Content::Document { .. })) => {
                Some((document, BTreeMap::from([(String::new(), at)])))
            }
            (Some((below, _)), Some(content)) => {
                return Err(Error::new(
                    ErrorKind::Malformed,
                    "items and documents cannot be laid over one another",
                )
                .with_context("namespace", namespace)
                .with_context("kind", content.kind())
                .with_context("below", below.kind()));
            }
        };
    }
    Ok(overlaid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn items_are_overlaid_key_by_key_and_know_where_they_come_from() {
        let base = Content::items([("a", "base"), ("b", "base"), ("c", "base")]);
        let team = Content::items([("b", "team"), ("c", "team")]);
        let app = Content::items([("c", ""), ("d", "app")]);
        let layers = [("base", Some(base)), ("none", None), ("team", Some(team)), ("app", Some(app))];
        let (content, origins) = overlay(layers).unwrap().unwrap();
        assert_eq!(content, Content::items([("a", "base"), ("b", "team"), ("c", ""), ("d", "app")]));
        let expected = [("a", 0), ("b", 2), ("c", 3), ("d", 3)].map(|(key, at)| (key.to_owned(), at));
        assert_eq!(origins, BTreeMap::from(expected));
    }

    #[test]
    fn the_last_document_that_exists_is_taken_whole() {
        let document = |text: &str| Some(Content::document(Format::Json, text));
        let layers = [("base", document("{}")), ("team", document("[]")), ("app", None)];
        let (content, origins) = overlay(layers).unwrap().unwrap();
        assert_eq!(content, Content::document(Format::Json, "[]"));
        assert_eq!(origins, BTreeMap::from([(String::new(), 1)]));
    }

    #[test]
    fn kinds_are_not_mixed_and_nothing_is_nothing() {
        let (items, document) = (Content::items([("a", "")]), Content::document(Format::Text, ""));
        for (below, above) in [(&items, &document), (&document, &items)] {
            let layers = [("base", Some(below.clone())), ("app", Some(above.clone()))];
            let error = overlay(layers).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed);
            assert!(error.to_string().contains("namespace=app"), "{error}");
        }
        assert!(overlay([("base", None), ("app", None)]).unwrap().is_none());
    }
}
