//! Where the instances of a service are, and how they are written.

mod dubbo;
mod native;
mod xdiscovery;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use coord_api::{Dir, Entry, Error, ErrorKind, Key, Result};

use crate::Instance;

pub use dubbo::{DUBBO_PATH, DUBBO_PROTOCOL, DubboLayout, DubboRoute, DubboService, DubboUrl};
pub use native::NativeLayout;
pub use xdiscovery::{URI_SPEC, XDiscoveryLayout};

/// How a registry is laid out in the store: which key an instance has, and what its value is.
///
/// A layout is pure: it talks to nobody, keeps nothing, and never panics on what others wrote. The registry and the
/// views of [`Discovery`](crate::Discovery) do the rest, the same for every layout.
///
/// * Below the root each service has one child, whose name tells the service ([`Layout::service`]).
/// * All instances of a service are keys in [`Layout::directory`], which is watched with everything below. The
///   directories of two services never contain each other, also if their names begin alike.
/// * [`Layout::decode`] is given every key of that directory, whoever wrote it.
pub trait Layout: fmt::Debug + Send + Sync + 'static {
    /// The name of the layout, such as `native`; a stable word that files and logs show.
    fn name(&self) -> &'static str;

    /// The directory of the instances of `service`.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the layout has no place for a service of this name.
    fn directory(&self, root: &Dir, service: &str) -> Result<Dir>;

    /// The key of `instance`, in the [directory](Layout::directory) of its service.
    ///
    /// The same for all that an instance may say about itself where the layout can afford it. Where it cannot, such as
    /// Dubbo's, in which the name of the key is all there is, an update moves the instance to a new key.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the layout has no key for it.
    fn key(&self, root: &Dir, instance: &Instance) -> Result<Key>;

    /// The value that says what `instance` is, together with its key.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the layout cannot say it: nothing may be lost in silence.
    fn encode(&self, instance: &Instance) -> Result<Bytes>;

    /// The instance that an entry in the directory of `service` stands for; `None` if the layout keeps other things at
    /// such keys, or if the key lies deeper than instances do.
    ///
    /// An instance whose entry has no owner, and about whose lifetime the value says nothing, is
    /// [permanent](crate::Kind::Permanent).
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed) with the key, made by [`malformed`]: the entry is reported and skipped, and all
    /// others are served.
    fn decode(&self, root: &Dir, service: &str, entry: &Entry) -> Result<Option<Instance>>;

    /// The service that a child of the root stands for, by its name; `None` if it stands for none.
    fn service(&self, child: &str) -> Option<String>;

    /// Keys that must be directories before an instance of `service` can be registered, although others leave data in
    /// them, which means nothing; none in most layouts.
    ///
    /// The registry empties them: on a store, a key with a value keeps no keys below.
    ///
    /// # Errors
    /// As [`Layout::directory`].
    fn littered(&self, _root: &Dir, _service: &str) -> Result<Vec<Key>> {
        Ok(Vec::new())
    }

    /// The rule that an entry stands for which [`Layout::decode`] gave no instance for; `None` if it is none, as all are
    /// in most layouts.
    ///
    /// # Errors
    /// As [`Layout::decode`].
    fn rule(&self, _root: &Dir, _service: &str, _entry: &Entry) -> Result<Option<Arc<dyn Rule>>> {
        Ok(None)
    }
}

/// What an operator says about the instances of a service, beside what they say of themselves: Dubbo's overrides.
///
/// A view shows each instance as all rules of its service leave it.
pub trait Rule: fmt::Debug + Send + Sync + 'static {
    /// Rules are applied in the order of their ranks, and those of one rank in the order of their keys.
    fn rank(&self) -> &str;

    /// The instance as this rule leaves it: as it is, if the rule is not about it.
    fn apply(&self, instance: Instance) -> Instance;
}

/// The error for an entry that is no instance; names the key.
pub fn malformed(entry: &Entry, message: &'static str) -> Error {
    Error::new(ErrorKind::Malformed, message).with_operation("decode").with_context("key", &entry.key)
}
