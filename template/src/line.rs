//! Places in a line: their names, and their order.

use coord_api::{
    Child, Dir, Entry, Key, Meta, Nonce, OrderedCreate, Revision, SessionId, Tag, Version,
    kit::{Rank, in_order},
};

use crate::server::Row;

/// The key of a place. It holds the nonce, so that a retry finds its own entry.
pub(crate) fn place(req: &OrderedCreate) -> String {
    format!("{}{}:{}", req.dir.prefix(), req.tag, req.nonce)
}

fn parse(name: &str) -> Option<(Tag, Nonce)> {
    let (tag, nonce) = name.rsplit_once(':')?;
    Some((Tag::new(tag.to_owned()).ok()?, Nonce::from_uuid(nonce)?))
}

/// A row as the contract shows it. The version is the last change, so a key that was made anew is not taken for the old.
pub(crate) fn entry(row: &Row) -> Entry {
    let owner = row.session.map(session_id);
    let (created, modified) = (Revision::new(row.created), Revision::new(row.modified));
    let meta = Meta::new(created, modified, Version::new(row.modified), owner);
    Entry::new(Key::from_store(&row.key), row.value.clone(), meta)
}

/// The name of a session.
pub(crate) fn session_id(number: u64) -> SessionId {
    SessionId::new(format!("{number:x}"))
}

/// What a key is in the listing of its directory: places stand by the revision that created them.
pub(crate) fn order(key: &Key, created: Revision) -> (Rank, Child) {
    match parse(key.name()) {
        Some((tag, nonce)) => (Rank::Place(created.get()), Child::new(key.clone(), Some(tag), Some(nonce))),
        None => (Rank::Other, Child::new(key.clone(), None, None)),
    }
}

/// The names in `dir`, of all that stands in it and below.
pub(crate) fn children(dir: &Dir, rows: &[Row]) -> Vec<Child> {
    let child = |row: &Row| {
        let key = Key::from_store(&row.key);
        match dir.child_towards(&key)? {
            child if child == key => Some(order(&key, Revision::new(row.created))),
            below => Some((Rank::Other, Child::new(below, None, None))),
        }
    };
    in_order(rows.iter().filter_map(child).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, created: u64) -> Row {
        Row { key: key.to_owned(), value: bytes::Bytes::new(), created, modified: created, session: None }
    }

    #[test]
    fn places_stand_by_their_revision_and_all_others_behind_them() {
        let place = |n, tag| format!("/l/{tag}:{}", Nonce::new(n));
        let rows =
            [row("/l/b", 1), row("/l/a/deep", 2), row(&place(1, "lock-"), 30), row(&place(9, "__READ__"), 4)];
        let got = children(&Dir::parse("/l").unwrap(), &rows);
        let got: Vec<&str> = got.iter().map(|child| child.key.as_str()).collect();
        assert_eq!(got, [&place(9, "__READ__"), &place(1, "lock-"), "/l/a", "/l/b"]);
    }

    #[test]
    fn names_of_others_are_no_places_and_no_panic() {
        for bad in ["", ":", "lock-:", "lock-:x", ":00000000-0000-0000-0000-000000000001", "é:ü"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
