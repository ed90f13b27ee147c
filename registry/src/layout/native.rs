//! The layout of coord.

use bytes::Bytes;
use coord_api::{Dir, Entry, Error, Key, Result, encode_segment};

use super::{Layout, decode_segment, malformed};
use crate::Instance;

/// The layout of coord: `<root>/<service>/<id>`, with a JSON document as the value.
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
        let json = serde_json::to_vec(instance)
            .map_err(|error| Error::invalid("the instance cannot be JSON").with_source(error))?;
        Ok(json.into())
    }

    fn decode(&self, root: &Dir, service: &str, entry: &Entry) -> Result<Option<Instance>> {
        if entry.key.parent() != self.directory(root, service)? {
            return Ok(None);
        }
        let instance = serde_json::from_slice(&entry.value)
            .map_err(|error| malformed(entry, "the value is no instance").with_source(error))?;
        Ok(Some(instance))
    }

    fn service(&self, child: &str) -> Option<String> {
        Some(decode_segment(child))
    }
}
