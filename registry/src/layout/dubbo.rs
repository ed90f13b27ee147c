//! Dubbo's layout, at the level of interfaces.
//!
//! ```text
//! /dubbo/<interface>/providers/<URL>       one instance a node, encoded; the node's data means nothing
//!                    consumers/<URL>       who uses them
//!                    configurators/<URL>   overrides: weight, disabled and the like
//!                    routers/<URL>         which consumers may call which providers
//! ```

mod encoding;
mod overrides;
mod provider;
mod route;
mod service;
mod url;

use std::sync::Arc;

use bytes::Bytes;
use coord_api::{Dir, Entry, Error, ErrorKind, Key, Result};

use super::{Layout, Rule, malformed};
use crate::{Instance, Kind};
use overrides::Override;

pub use provider::{DUBBO_PATH, DUBBO_PROTOCOL};
pub use route::DubboRoute;
pub use service::DubboService;
pub use url::DubboUrl;

const PROVIDERS: &str = "providers";
const CONSUMERS: &str = "consumers";
const CONFIGURATORS: &str = "configurators";
const ROUTERS: &str = "routers";

/// What else Dubbo keeps below its root.
const NO_SERVICES: [&str; 3] = ["config", "mapping", "metadata"];

/// Longest name of a node, in bytes. ZooKeeper tells the names of a directory in one message of a megabyte.
const NODE_MAX: usize = 4_096;

/// The layout of Dubbo's registries at the level of interfaces, for a registry whose root is `/dubbo`.
///
/// A service is an interface, and an instance one of its providers: the URL that is the name of the node says all of it.
/// So an instance that says something new gets a new key; its [`id`](Instance::id) stays.
///
/// | instance | URL |
/// |---|---|
/// | address, port | host, port |
/// | id | `coord.id` (encoded once more), if it is not `host:port` (with protocol, path, group and version where they are not the usual ones) |
/// | weight, zone | `weight`, `zone` |
/// | permanent | `dynamic=false` |
/// | draining, disabled | `disabled=true`, so that Dubbo's consumers leave it alone; `coord.status=draining` |
/// | registration time | `timestamp` |
/// | TLS port, payload | `coord.tls-port`, `coord.payload` (JSON, encoded once more) |
/// | labels `dubbo.protocol`, `dubbo.path` | protocol and path, where they are not `dubbo` and the interface |
/// | all other labels | parameters: `application`, `group`, `version`, `methods`… |
///
/// A view shows providers as the overrides in `configurators` leave them: those with the port of a provider, and those
/// for all hosts; what is for one consumer's host or for another application is left out.
///
/// ```
/// use coord_api::Dir;
/// use coord_registry::{DubboLayout, Instance, Layout};
///
/// let orders = Instance::new("com.shop.Orders", "10.0.0.7:20880", "10.0.0.7", 20880).with_label("version", "1.0.0");
/// let key = DubboLayout::new().key(&Dir::parse("/dubbo")?, &orders)?;
/// assert!(key.as_str().starts_with("/dubbo/com.shop.Orders/providers/dubbo%3A%2F%2F10.0.0.7%3A20880%2F"));
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DubboLayout {
    application: Option<String>,
}

impl DubboLayout {
    /// The layout.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says which application looks, so that overrides for it apply.
    #[must_use]
    pub fn with_application(mut self, name: impl Into<String>) -> Self {
        self.application = Some(name.into());
        self
    }
}

impl Layout for DubboLayout {
    fn name(&self) -> &'static str {
        "dubbo"
    }

    fn directory(&self, root: &Dir, service: &str) -> Result<Dir> {
        root.dir(&encoding::encode(service))
    }

    fn key(&self, root: &Dir, instance: &Instance) -> Result<Key> {
        key_in(PROVIDERS, &self.directory(root, instance.name())?, &provider::to_url(instance)?)
    }

    fn encode(&self, _instance: &Instance) -> Result<Bytes> {
        Ok(Bytes::new())
    }

    fn decode(&self, root: &Dir, service: &str, entry: &Entry) -> Result<Option<Instance>> {
        let Some(url) = url_in(PROVIDERS, &self.directory(root, service)?, entry)? else { return Ok(None) };
        let kind = if entry.meta.owner.is_some() { Kind::Ephemeral } else { Kind::Permanent };
        provider::from_url(service, url, kind).map(Some).map_err(|error| about(error, entry))
    }

    fn service(&self, child: &str) -> Option<String> {
        if NO_SERVICES.contains(&child) {
            return None;
        }
        encoding::decode(child).ok()
    }

    fn littered(&self, root: &Dir, service: &str) -> Result<Vec<Key>> {
        // Consumers of Dubbo make them, with their own address in each, and then there is no provider below yet.
        let directory = self.directory(root, service)?;
        let dirs = [root.clone(), directory.clone(), directory.dir(PROVIDERS)?];
        dirs.iter().map(|dir| Key::parse(dir.as_str())).collect()
    }

    fn rule(&self, root: &Dir, service: &str, entry: &Entry) -> Result<Option<Arc<dyn Rule>>> {
        let Some(url) = url_in(CONFIGURATORS, &self.directory(root, service)?, entry)? else {
            return Ok(None);
        };
        let rule = Override::new(url, self.application.as_deref()).map_err(|error| about(error, entry))?;
        Ok(Some(Arc::new(rule)))
    }
}

/// The key of the node that stands for a URL in this category of a service.
///
/// Neither [`Key::encode`], which would encode it once more, nor [`Dir::key`], whose segments end at 255 bytes: every
/// store takes longer ones, and Dubbo's are. They hold no character that a store refuses.
fn key_in(category: &str, service: &Dir, url: &DubboUrl) -> Result<Key> {
    let (dir, node) = (service.dir(category)?, url.to_node()?);
    if node.len() > NODE_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "the URL is too long for the name of a node")
            .with_context("bytes", node.len())
            .with_context("limit", NODE_MAX));
    }
    Ok(Key::from_store(&format!("{}{node}", dir.prefix())))
}

/// The URL that an entry in this category of a service stands for; `None` for an entry elsewhere.
fn url_in(category: &str, service: &Dir, entry: &Entry) -> Result<Option<DubboUrl>> {
    let name = service.relative(&entry.key).and_then(|path| path.strip_prefix(category)?.strip_prefix('/'));
    match name {
        Some(name) if !name.contains('/') => {
            DubboUrl::from_node(name).map(Some).map_err(|error| about(error, entry))
        }
        _ => Ok(None),
    }
}

/// The error, about an entry.
fn about(error: Error, entry: &Entry) -> Error {
    malformed(entry, "the node is none of Dubbo's").with_source(error)
}

#[cfg(test)]
#[path = "dubbo/recorded_tests.rs"]
mod recorded_tests;
#[cfg(test)]
#[path = "dubbo/tests.rs"]
mod tests;
