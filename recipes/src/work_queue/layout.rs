//! Where the items and claims of a queue are, and how an item is written.

use std::{cmp::Reverse, collections::BTreeSet, str};

use bytes::Bytes;
use coord_api::{Dir, Entry, Error, ErrorKind, IntoDir, Key, Result, encode_segment};

use super::Priority;
use crate::{Snapshot, dirs::own};

/// What the value of an item begins with; then its priority, a line feed, and the payload.
const HEADER: &[u8] = b"item ";

/// The directories of a queue.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) dir: Dir,
    items: Dir,
    claims: Dir,
}

impl Layout {
    pub(super) fn new(name: impl IntoDir) -> Result<Self> {
        let dir = own(name, "this recipe needs a directory of its own, not the root")?;
        Ok(Self { items: dir.dir("items")?, claims: dir.dir("claims")?, dir })
    }

    /// Where the item of this id is. Any text is an id.
    pub(super) fn item(&self, id: &str) -> Result<Key> {
        self.items.key(&encode_segment(id))
    }

    /// Where the claim of an item is.
    pub(super) fn claim(&self, item: &Key) -> Key {
        Key::from_store(&format!("{}{}", self.claims.prefix(), item.name()))
    }

    /// The item that is due next of those that nobody has and that are not in `except`.
    ///
    /// Fails if something else is among the items: whoever put it there must take it away.
    pub(super) fn first_free(&self, queue: &Snapshot, except: &BTreeSet<Key>) -> Result<Option<Entry>> {
        let mut first = None;
        for entry in queue.iter().filter(|entry| self.items.contains(&entry.key)) {
            let (priority, _) = parse(entry)?;
            if except.contains(&entry.key) || queue.get(&self.claim(&entry.key)).is_some() {
                continue;
            }
            // By priority, then by age; those of one transaction by name.
            let due = (Reverse(priority), entry.meta.created, &entry.key);
            if first.as_ref().is_none_or(|(sooner, _)| due < *sooner) {
                first = Some((due, entry));
            }
        }
        Ok(first.map(|(_, entry)| entry.clone()))
    }
}

pub(super) fn encode(priority: Priority, payload: &[u8]) -> Bytes {
    let mut value = HEADER.to_vec();
    value.extend_from_slice(priority.0.to_string().as_bytes());
    value.push(b'\n');
    value.extend_from_slice(payload);
    value.into()
}

/// The priority and the payload of an item.
pub(super) fn parse(entry: &Entry) -> Result<(Priority, Bytes)> {
    let parsed = entry.value.strip_prefix(HEADER).and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let priority = str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        Some((Priority(priority), entry.value.slice(HEADER.len() + end + 1..)))
    });
    parsed.ok_or_else(|| {
        Error::new(ErrorKind::Malformed, "the directory of the queue holds something else than an item")
            .with_context("key", &entry.key)
    })
}
