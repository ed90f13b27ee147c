//! Records and log entries: what the scripts pack, read back.

use bytes::{Buf, Bytes};
use coord_api::{Entry, Error, ErrorKind, Key, Meta, Result, Revision, SessionId, Version, kit::Change};
use redis::Value;

/// The only format there is: see `parse` in `state.lua`.
const FORMAT: u8 = 1;
const HEAD: usize = 18;

/// Reads a record as the entry of `key`.
pub(crate) fn entry(key: Key, record: Vec<u8>) -> Result<Entry> {
    match decode(Bytes::from(record)) {
        Some((meta, value)) => Ok(Entry::new(key, value, meta)),
        None => Err(malformed("a record in the store is not of our form").with_context("key", key)),
    }
}

fn decode(mut record: Bytes) -> Option<(Meta, Bytes)> {
    let (head, rest) = record.split_at_checked(HEAD)?;
    let number = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    let owner = rest.get(..usize::from(*head.last()?))?;
    if head.first() != Some(&FORMAT) {
        return None;
    }
    let (created, modified) = (Revision::new(number(1)?), Revision::new(number(9)?));
    let value_at = HEAD + owner.len();
    let owner = std::str::from_utf8(owner).ok()?;
    let owner = (!owner.is_empty()).then(|| SessionId::new(owner));
    let meta = Meta::new(created, modified, Version::new(modified.get()), owner);
    record.advance(value_at);
    Some((meta, record))
}

/// One entry of the log: everything that happened at one revision.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The revision before.
    pub(crate) previous: u64,
    /// The revision of the changes.
    pub(crate) revision: u64,
    /// What changed; `None` if that cannot be read, so that whoever follows must look for himself.
    pub(crate) changes: Option<Vec<Change>>,
}

impl Batch {
    /// Reads one element of an `XRANGE` reply.
    pub(crate) fn read(entry: Value) -> Result<Self> {
        let bad = || malformed("an entry of the log is not of our form");
        let [id, fields] =
            array(entry).ok().and_then(|parts| <[Value; 2]>::try_from(parts).ok()).ok_or_else(bad)?;
        let id = text(id)?;
        let (revision, part) = id.split_once('-').ok_or_else(bad)?;
        let revision = revision.parse().map_err(|_| bad())?;
        let mut fields = array(fields)?.into_iter();
        let (mut previous, mut changes) = (None, None);
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            match bytes(name)?.as_slice() {
                b"p" => previous = text(value).ok().and_then(|text| text.parse().ok()),
                b"o" => changes = read_changes(&Bytes::from(bytes(value)?)),
                _ => {}
            }
        }
        // An entry that others added has no link, or a second part: it follows nothing.
        let previous = previous.filter(|_| part == "0").unwrap_or(u64::MAX);
        Ok(Self { previous, revision, changes })
    }
}

fn read_changes(packed: &Bytes) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    let mut at = 0;
    while at < packed.len() {
        let head = packed.get(at..at + 9)?;
        let length = |at: usize| {
            let bytes = head.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_be_bytes(bytes)).ok()
        };
        let (first, second) = (length(1)?, length(5)?);
        let begin = at + 9;
        let middle = begin.checked_add(first)?;
        at = middle.checked_add(second)?;
        let (path, record) = (packed.get(begin..middle)?, packed.get(middle..at)?);
        match head.first()? {
            b'P' => {
                let (meta, value) = decode(packed.slice_ref(record))?;
                changes.push(Change::Put(Entry::new(stored_key(path)?, value, meta)));
            }
            b'D' => changes.push(Change::Delete(stored_key(path)?)),
            // The end of a session, another server: its keys say what there is to say.
            _ => {}
        }
    }
    Some(changes)
}

/// The key of a path in the store; `None` if it is none.
pub(crate) fn stored_key(path: &[u8]) -> Option<Key> {
    std::str::from_utf8(path).ok().filter(|path| path.starts_with('/')).map(Key::from_store)
}

/// What others wrote, or a server that is none of those we know.
pub(crate) fn malformed(what: &'static str) -> Error {
    Error::new(ErrorKind::Malformed, what)
}

/// An array of a reply.
pub(crate) fn array(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(malformed("a reply of the server is not a list")),
    }
}

/// A number of a reply.
pub(crate) fn number(value: &Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(malformed("a reply of the server is not a number")),
    }
}

/// A revision of a reply.
pub(crate) fn revision(value: &Value) -> Result<u64> {
    u64::try_from(number(value)?).map_err(|_| malformed("a revision is negative"))
}

/// Bytes of a reply.
pub(crate) fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        _ => Err(malformed("a reply of the server is not a text")),
    }
}

/// Text of a reply.
pub(crate) fn text(value: Value) -> Result<String> {
    String::from_utf8(bytes(value)?).map_err(|_| malformed("a name in the store is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(owner: &str, value: &[u8]) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend(7_u64.to_be_bytes());
        out.extend(9_u64.to_be_bytes());
        out.push(u8::try_from(owner.len()).unwrap());
        out.extend(owner.as_bytes());
        out.extend(value);
        out
    }

    #[test]
    fn a_record_reads_back_and_no_cut_or_change_of_it_panics() {
        let whole = record("sid", b"\0v");
        let key = Key::parse("/a").unwrap();
        let found = entry(key.clone(), whole.clone()).unwrap();
        assert_eq!((&*found.value, found.meta.created.get(), found.meta.modified.get()), (&b"\0v"[..], 7, 9));
        assert_eq!(found.meta.owner.unwrap().as_str(), "sid");
        for end in 0..HEAD + 3 {
            let e = entry(key.clone(), whole[..end].to_vec()).unwrap_err();
            assert!(e.kind() == ErrorKind::Malformed && e.to_string().contains("key=/a"), "{e}");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] = 0xff;
            let _ = entry(key.clone(), other);
        }
    }

    #[test]
    fn changes_read_back_and_no_cut_of_them_panics() {
        let mut packed = Vec::new();
        let mut push = |kind: u8, a: &[u8], b: &[u8]| {
            packed.push(kind);
            packed.extend(u32::try_from(a.len()).unwrap().to_be_bytes());
            packed.extend(u32::try_from(b.len()).unwrap().to_be_bytes());
            packed.extend(a);
            packed.extend(b);
        };
        push(b'P', b"/a", &record("", b"v"));
        push(b'S', b"sid", b"");
        push(b'D', b"/b", b"");
        let read = |bytes: &[u8]| read_changes(&Bytes::copy_from_slice(bytes));
        let changes = read(&packed).unwrap();
        assert!(matches!(&changes[..], [Change::Put(_), Change::Delete(key)] if key.as_str() == "/b"));
        for end in 1..packed.len() {
            let _ = read(&packed[..end]);
        }
        packed.extend([b'D', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert!(read(&packed).is_none());
    }

    #[test]
    fn an_entry_that_others_added_to_the_log_follows_nothing() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let entry = |id: &str, fields: &[&str]| {
            Value::Array(vec![bulk(id), Value::Array(fields.iter().map(|field| bulk(field)).collect())])
        };
        let ours = Batch::read(entry("12-0", &["p", "11", "s", "0", "o", ""])).unwrap();
        assert_eq!((ours.previous, ours.revision, ours.changes.map(|c| c.len())), (11, 12, Some(0)));
        let binary = Value::Array(vec![bulk("p"), Value::BulkString(vec![0xff])]);
        let binary = Value::Array(vec![bulk("12-0"), binary]);
        for foreign in [entry("12-1", &["p", "11"]), entry("12-0", &["x", "y"]), binary] {
            assert_eq!(Batch::read(foreign).unwrap().previous, u64::MAX);
        }
        assert!(Batch::read(entry("x", &[])).is_err() && Batch::read(Value::Nil).is_err());
    }
}
