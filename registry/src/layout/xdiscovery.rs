//! The layout of Curator's x-discovery, which Spring Cloud Zookeeper speaks too.

mod document;

use bytes::Bytes;
use coord_api::{Dir, Entry, Error, Key, Result};

use super::{Layout, malformed};
use crate::{Instance, Kind};
use document::Document;

pub use document::URI_SPEC;

/// Curator's x-discovery: `<root>/<service>/<id>`, with Curator's JSON as the value.
///
/// Java services with Curator 5 and ours see each other, under the same root. What Curator has a field for is there; the
/// rest is in one more field, `coord`, which Curator passes over, and which is left out where it would say nothing.
///
/// | instance | JSON |
/// |---|---|
/// | name, id, address, port, TLS port | `name`, `id`, `address`, `port`, `sslPort` |
/// | ephemeral, permanent | `serviceType`: `DYNAMIC`, `PERMANENT`. `DYNAMIC_SEQUENTIAL` is read as ephemeral, `STATIC` as permanent |
/// | up with a weight above 0 | `enabled`: left out if so, else `false`: Curator's providers do not choose it |
/// | registration time | `registrationTimeUTC`, in milliseconds |
/// | payload | `payload`, with the type tag `@class`, see [`with_payload_class`](Self::with_payload_class) |
/// | label [`uri-spec`](URI_SPEC) | `uriSpec` |
/// | weight, zone, labels, draining | `coord` |
///
/// Names and ids are taken as they are, so they must be segments of keys: without `/`, at most 255 bytes. The name of
/// the key says which instance it is, as it does for Curator.
///
/// ```
/// use coord_api::Dir;
/// use coord_registry::{Instance, Layout, XDiscoveryLayout};
///
/// let layout = XDiscoveryLayout::new();
/// let billing = Instance::new("billing", "b1", "10.0.0.7", 8080);
/// assert_eq!(layout.key(&Dir::parse("/services")?, &billing)?.as_str(), "/services/billing/b1");
/// let json = layout.encode(&billing)?;
/// assert!(json.starts_with(br#"{"name":"billing","id":"b1","address":"10.0.0.7","port":8080,"sslPort":null,"#));
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct XDiscoveryLayout {
    payload_class: Option<String>,
}

impl XDiscoveryLayout {
    /// The layout, without a class for payloads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the Java class of payloads that are JSON objects and name none: `com.shop.Metadata`.
    ///
    /// Curator makes an object of the class in `@class`, which must be on the class path of every Java service that
    /// looks; without, it makes a map. A reader in Java that expects a class of its own cannot read the instance unless its
    /// tag is there. This tag is added to what is written and taken off what is read; tags of other classes stay in the
    /// payload.
    #[must_use]
    pub fn with_payload_class(mut self, class: impl Into<String>) -> Self {
        self.payload_class = Some(class.into());
        self
    }

    /// The instance with this id that the value of an entry stands for.
    pub(super) fn read(&self, entry: &Entry, service: &str, id: &str) -> Result<Instance> {
        if entry.value.is_empty() {
            return Err(malformed(entry, "the value is empty"));
        }
        let document: Document = serde_json::from_slice(&entry.value)
            .map_err(|error| malformed(entry, "the value is no instance of Curator's").with_source(error))?;
        let kind = if entry.meta.owner.is_some() { Kind::Ephemeral } else { Kind::Permanent };
        document
            .instance(service, id, kind, self.payload_class.as_deref())
            .ok_or_else(|| malformed(entry, "the instance has no address"))
    }
}

impl Layout for XDiscoveryLayout {
    fn name(&self) -> &'static str {
        "xdiscovery"
    }

    fn directory(&self, root: &Dir, service: &str) -> Result<Dir> {
        root.dir(segment(service)?)
    }

    fn key(&self, root: &Dir, instance: &Instance) -> Result<Key> {
        self.directory(root, instance.name())?.key(segment(instance.id())?)
    }

    fn encode(&self, instance: &Instance) -> Result<Bytes> {
        let document = Document::of(instance, self.payload_class.as_deref())?;
        let json = serde_json::to_vec(&document)
            .map_err(|error| Error::invalid("the instance cannot be JSON").with_source(error))?;
        Ok(json.into())
    }

    fn decode(&self, root: &Dir, service: &str, entry: &Entry) -> Result<Option<Instance>> {
        if entry.key.parent() != self.directory(root, service)? {
            return Ok(None);
        }
        self.read(entry, service, entry.key.name()).map(Some)
    }

    fn service(&self, child: &str) -> Option<String> {
        Some(child.to_owned())
    }
}

/// Curator puts names and ids into paths as they are.
fn segment(text: &str) -> Result<&str> {
    if text.contains('/') {
        return Err(Error::invalid("x-discovery has no place for a name or an id with a slash")
            .with_context("text", text));
    }
    Ok(text)
}

#[cfg(test)]
#[path = "xdiscovery/tests.rs"]
mod tests;
