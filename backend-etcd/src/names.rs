//! The names of places in a line, and the order of a directory.
//!
//! A place is `<session>-<tag><nonce>`: the lease in lower-case hex, as etcd's own lock and election name their keys,
//! and behind it what tells two acquires of one session apart. A persistent place belongs to no lease and starts
//! with `0`. Every other name in the directory is a place too, as it is for etcd's own clients, with no tag.

use std::collections::BTreeSet;

use coord_api::{Child, Dir, Key, Lifetime, Nonce, Revision, SessionId, Tag, kit::Rank};

/// Length of a nonce as a UUID.
const UUID: usize = 36;

/// The name of a place.
pub(crate) fn place(session: &SessionId, lifetime: Lifetime, tag: &Tag, nonce: Nonce) -> String {
    let owner = match lifetime {
        Lifetime::Session => session.as_str(),
        // Not the session: a retry on behalf of a later session must find the same name.
        Lifetime::Persistent => "0",
    };
    format!("{owner}-{tag}{}", nonce.to_uuid())
}

/// Reads what [`place`] wrote; `None` for every other name.
fn parse(name: &str) -> Option<(Tag, Nonce)> {
    let (owner, rest) = name.split_once('-')?;
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if owner.is_empty() || owner.len() > 16 || !owner.bytes().all(hex) {
        return None;
    }
    let at = rest.len().checked_sub(UUID).filter(|at| rest.is_char_boundary(*at))?;
    let (tag, uuid) = rest.split_at(at);
    Some((Tag::new(tag.to_owned()).ok()?, Nonce::from_uuid(uuid)?))
}

/// The listing entry of a key.
pub(crate) fn child(key: &Key) -> Child {
    match parse(key.name()) {
        Some((tag, nonce)) => Child::new(key.clone(), Some(tag), Some(nonce)),
        None => Child::new(key.clone(), None, None),
    }
}

/// The order of a directory's direct children: by creation, and by key among those of one transaction.
pub(crate) fn order(key: &Key, created: Revision) -> (Rank, Child) {
    (Rank::Place(created.get()), child(key))
}

/// The children of `dir` from all keys below it, each with its creation revision.
///
/// Directories below are listed by name behind the keys. But where places of ours stand, the directory is a line,
/// and in a line every key counts, however deep: etcd's own lock respects them all.
pub(crate) fn children(dir: &Dir, mut keys: Vec<(Key, i64)>) -> Vec<Child> {
    keys.sort_by(|(a, created), (b, other)| created.cmp(other).then_with(|| a.cmp(b)));
    let is_direct = |key: &Key| dir.child_towards(key).as_ref() == Some(key);
    let line = keys.iter().any(|(key, _)| is_direct(key) && parse(key.name()).is_some());
    let mut children = Vec::with_capacity(keys.len());
    let mut below = BTreeSet::new();
    for (key, _) in &keys {
        if line || is_direct(key) {
            children.push(child(key));
        } else {
            below.extend(dir.child_towards(key));
        }
    }
    let direct: BTreeSet<Key> = children.iter().map(|child| child.key.clone()).collect();
    children.extend(below.difference(&direct).map(|key| Child::new(key.clone(), None, None)));
    children
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = Nonce::new(7);

    fn keys(names: &[(&str, i64)]) -> Vec<(Key, i64)> {
        names.iter().map(|(name, created)| (Key::parse(name).unwrap(), *created)).collect()
    }

    fn names(children: &[Child]) -> Vec<&str> {
        children.iter().map(|child| child.key.as_str()).collect()
    }

    #[test]
    fn a_place_reads_back_with_every_tag_of_the_recipes() {
        for tag in ["lock-", "latch-", "__READ__", "__WRIT__", "lease-", "x"] {
            let tag = Tag::new(tag).unwrap();
            let name = place(&SessionId::new("694d8a"), Lifetime::Session, &tag, NONCE);
            assert!(name.starts_with("694d8a-"), "{name}");
            assert_eq!(parse(&name), Some((tag, NONCE)), "{name}");
        }
    }

    #[test]
    fn a_persistent_place_does_not_depend_on_the_session() {
        let tag = Tag::new("q-").unwrap();
        let [a, b] = ["1a", "2b"].map(|id| place(&SessionId::new(id), Lifetime::Persistent, &tag, NONCE));
        assert_eq!(a, b);
        assert_eq!(parse(&a), Some((tag, NONCE)));
    }

    #[test]
    fn foreign_names_have_no_tag() {
        let uuid = NONCE.to_uuid();
        for foreign in [
            "694d8a".to_owned(),
            String::new(),
            "-".to_owned(),
            format!("-lock-{uuid}"),
            format!("694D8A-lock-{uuid}"),
            format!("694d8a-{uuid}"),
            format!("694d8a-lock-{uuid}x"),
            format!("694d8a-l\u{f6}ck-{uuid}"),
            format!("12345678901234567-lock-{uuid}"),
            format!("1-\u{e9}{}", &uuid[1..]),
        ] {
            assert_eq!(parse(&foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_plain_directory_lists_keys_by_creation_and_directories_by_name() {
        let dir = Dir::parse("/d").unwrap();
        let all =
            keys(&[("/d/z", 3), ("/d/a", 5), ("/d/m/x", 1), ("/d/b/x", 2), ("/d/b/y", 9), ("/d/z/deep", 1)]);
        assert_eq!(names(&children(&dir, all)), ["/d/z", "/d/a", "/d/b", "/d/m"]);
    }

    #[test]
    fn in_a_line_every_key_counts_however_deep() {
        let dir = Dir::parse("/d").unwrap();
        let ours = format!("/d/1-lock-{}", NONCE.to_uuid());
        let all =
            keys(&[(ours.as_str(), 4), ("/d/694d8a", 2), ("/d/x/y", 3), ("/d/x/z", 4), ("/d/later", 9)]);
        let line = children(&dir, all);
        assert_eq!(names(&line), ["/d/694d8a", "/d/x/y", &ours, "/d/x/z", "/d/later"]);
        assert_eq!(line.iter().filter(|child| child.tag.is_some()).count(), 1);
    }
}
