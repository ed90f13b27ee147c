//! The layout of coord.

use bytes::Bytes;
use coord_api::{Dir, Entry, Key, Result, decode_segment, encode_segment};

use super::{Layout, XDiscoveryLayout};
use crate::Instance;

/// The layout of coord: that of [x-discovery](XDiscoveryLayout), in which names and ids may be any text.
///
/// What a key cannot hold is percent-encoded there, so that two names never become one. Where nothing needs it, the two
/// layouts are the same to the byte, and on ZooKeeper Curator's services and ours see each other.
///
/// ```
/// use coord_api::Dir;
/// use coord_registry::{Instance, Layout, NativeLayout};
///
/// let instance = Instance::new("shop/billing", "10.0.0.7:8080", "10.0.0.7", 8080);
/// let key = NativeLayout.key(&Dir::parse("/services")?, &instance)?;
/// assert_eq!(key.as_str(), "/services/shop%2Fbilling/10.0.0.7:8080");
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeLayout;

impl Layout for NativeLayout {
    fn name(&self) -> &'static str {
        "native"
    }

    fn directory(&self, root: &Dir, service: &str) -> Result<Dir> {
        root.dir(&encode_segment(service))
    }

    fn key(&self, root: &Dir, instance: &Instance) -> Result<Key> {
        Key::encode(&self.directory(root, instance.name())?, instance.id())
    }

    fn encode(&self, instance: &Instance) -> Result<Bytes> {
        XDiscoveryLayout::new().encode(instance)
    }

    fn decode(&self, root: &Dir, service: &str, entry: &Entry) -> Result<Option<Instance>> {
        if entry.key.parent() != self.directory(root, service)? {
            return Ok(None);
        }
        XDiscoveryLayout::new().read(entry, service, &readable(entry.key.name())).map(Some)
    }

    fn service(&self, child: &str) -> Option<String> {
        Some(readable(child))
    }
}

/// The text behind a segment; what others named in their own way stays as it is.
fn readable(segment: &str) -> String {
    decode_segment(segment).unwrap_or_else(|| segment.to_owned())
}

#[cfg(test)]
mod tests {
    use coord_api::{Meta, Revision, Version};

    use super::*;

    fn entry(key: Key, value: Bytes) -> Entry {
        Entry::new(key, value, Meta::new(Revision::new(1), Revision::new(1), Version::new(1), None))
    }

    #[test]
    fn any_name_and_id_come_back_from_a_directory_of_its_own() {
        let root = Dir::parse("/services").unwrap();
        let mut directories = std::collections::BTreeSet::new();
        for name in ["a", "ab", "a/b", "a-b", "a%2Fb", ".", "..", "a b", "é\u{1f512}"] {
            let instance = Instance::new(name, format!("{name}/1"), "h", 1).with_kind(crate::Kind::Permanent);
            let key = NativeLayout.key(&root, &instance).unwrap();
            let directory = NativeLayout.directory(&root, name).unwrap();
            assert_eq!(key.parent(), directory);
            assert_eq!(NativeLayout.service(directory.as_str().rsplit('/').next().unwrap()).unwrap(), name);
            assert!(directories.insert(directory), "{name:?} shares a directory");
            let entry = entry(key, NativeLayout.encode(&instance).unwrap());
            assert_eq!(NativeLayout.decode(&root, name, &entry).unwrap(), Some(instance));
        }
    }

    #[test]
    fn where_nothing_needs_encoding_it_is_x_discovery() {
        let root = Dir::parse("/services").unwrap();
        let instance = Instance::new("billing", "10.0.0.7:80", "10.0.0.7", 80).with_zone("z");
        let theirs = XDiscoveryLayout::new();
        assert_eq!(NativeLayout.key(&root, &instance).unwrap(), theirs.key(&root, &instance).unwrap());
        assert_eq!(NativeLayout.encode(&instance).unwrap(), theirs.encode(&instance).unwrap());
    }
}
