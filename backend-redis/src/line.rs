//! Places in a line: their names, and their order.

use coord_api::{
    Child, Dir, Key, Nonce, OrderedCreate, Revision, Tag,
    kit::{Rank, in_order},
};

/// What the name of every place begins with, as Curator's do.
const HEAD: &str = "_c_";
/// Digits of the number at the end: the revision that created the place.
const DIGITS: usize = 20;
const UUID: usize = 36;

/// The name of a place up to its number. Found again by it, whatever the number became.
pub(crate) fn head(req: &OrderedCreate) -> String {
    format!("{HEAD}{}-{}", req.nonce, req.tag)
}

/// Reads `_c_<nonce>-<tag><number>`; `None` for any other name.
fn parse(name: &str) -> Option<(u64, Tag, Nonce)> {
    let rest = name.strip_prefix(HEAD)?;
    let (nonce, rest) = rest.split_at_checked(UUID)?;
    let (tag, number) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((number.parse().ok()?, Tag::new(tag.strip_prefix('-')?.to_owned()).ok()?, Nonce::from_uuid(nonce)?))
}

/// What a key is in the listing of its directory: the number of a place is in its name.
pub(crate) fn order(key: &Key, _: Revision) -> (Rank, Child) {
    match parse(key.name()) {
        Some((number, tag, nonce)) => (Rank::Place(number), Child::new(key.clone(), Some(tag), Some(nonce))),
        None => (Rank::Other, Child::new(key.clone(), None, None)),
    }
}

/// The children of a directory as a listing wants them.
pub(crate) fn children(keys: impl Iterator<Item = Key>) -> Vec<Child> {
    in_order(keys.map(|key| order(&key, Revision::ZERO)).collect())
}

/// The child of `dir` that a name of the store shows: a key, or with a slash at its end a directory.
pub(crate) fn child(dir: &Dir, name: &str) -> Option<Key> {
    if !name.starts_with('/') {
        return None;
    }
    dir.child_towards(&Key::from_store(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(nonce: u128, tag: &str, number: u64) -> String {
        format!("{HEAD}{}-{tag}{number:020}", Nonce::new(nonce))
    }

    #[test]
    fn places_stand_by_their_number_and_all_others_behind_them() {
        let names =
            [name(1, "lock-", 30), "b".into(), name(9, "__READ__", 4), "a".into(), name(5, "lock-", 12)];
        let dir = Dir::parse("/l").unwrap();
        let children = children(names.iter().map(|name| dir.key(name).unwrap()));
        let got: Vec<_> = children
            .iter()
            .map(|c| c.nonce.map_or(c.key.name().to_owned(), |n| n.get().to_string()))
            .collect();
        assert_eq!(got, ["9", "5", "1", "a", "b"]);
        assert_eq!(children[0].tag.as_ref().unwrap().as_str(), "__READ__");
    }

    #[test]
    fn names_that_only_look_like_a_place_are_none() {
        let good = name(7, "lock-", 1);
        assert!(parse(&good).is_some());
        let (long, short) = (good.replace("lock-", "lock-9"), &good[..good.len() - 1]);
        for bad in
            ["", HEAD, "_c_é", &long, short, &good.replace("_c_", "_C_"), &good.replace("-lock", "+lock")]
        {
            assert!(parse(bad).is_none(), "{bad}");
        }
        for end in 0..good.len() {
            assert!(parse(&good[..end]).is_none());
        }
    }
}
