//! Places in a line: their names, and their order.

use coord_api::{Child, Dir, Key, Nonce, OrderedCreate, Revision, Tag, kit::Rank};

/// The key of a place. A retry finds its entry by it; the order is the revision that created it.
pub(crate) fn place(req: &OrderedCreate) -> Key {
    Key::from_store(&format!("{}{}:{}", req.dir.prefix(), req.tag, req.nonce))
}

fn parse(name: &str) -> Option<(Tag, Nonce)> {
    let (tag, nonce) = name.rsplit_once(':')?;
    Some((Tag::new(tag.to_owned()).ok()?, Nonce::from_uuid(nonce)?))
}

/// What a key is in the listing of its directory: places stand by the revision that created them.
pub(crate) fn order(key: &Key, created: Revision) -> (Rank, Child) {
    match parse(key.name()) {
        Some((tag, nonce)) => (Rank::Place(created.get()), Child::new(key.clone(), Some(tag), Some(nonce))),
        None => (Rank::Other, Child::new(key.clone(), None, None)),
    }
}

/// The first text behind every path in `dir` and below: a slash is one less than a zero.
pub(crate) fn end_of(dir: &Dir) -> String {
    let mut end = dir.prefix();
    end.pop();
    end.push('0');
    end
}

#[cfg(test)]
mod tests {
    use coord_api::kit::in_order;

    use super::*;

    #[test]
    fn places_stand_by_their_revision_and_all_others_behind_them() {
        let dir = Dir::parse("/l").unwrap();
        let mut children = vec![order(&dir.key("b").unwrap(), Revision::new(1))];
        for (nonce, tag, created) in [(1, "lock-", 30), (9, "__READ__", 4), (5, "lock-", 12)] {
            let name = format!("{tag}:{}", Nonce::new(nonce));
            children.push(order(&dir.key(&name).unwrap(), Revision::new(created)));
        }
        children.push((Rank::Other, Child::new(dir.key("a").unwrap(), None, None)));
        let got: Vec<_> = in_order(children)
            .iter()
            .map(|c| c.nonce.map_or(c.key.name().to_owned(), |n| n.get().to_string()))
            .collect();
        assert_eq!(got, ["9", "5", "1", "a", "b"]);
    }

    #[test]
    fn names_that_only_look_like_a_place_are_none() {
        let good = format!("lock-:{}", Nonce::new(7));
        assert!(parse(&good).is_some());
        for bad in ["", ":", "lock-", "lock-:", &good[1..].replace("ock-", "ock1"), &format!("{good}0")] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_end_of_a_directory_is_before_its_neighbours() {
        let (dir, root) = (Dir::parse("/app").unwrap(), Dir::root());
        assert_eq!((end_of(&dir).as_str(), end_of(&root).as_str()), ("/app0", "0"));
        assert!("/app/\u{ffef}" < end_of(&dir).as_str() && "/app2" > end_of(&dir).as_str());
    }
}
