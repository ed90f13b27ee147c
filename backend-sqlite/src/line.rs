//! Places in a line: their names, and their order.

use coord_api::{Child, Dir, Entry, Key, Nonce, OrderedCreate, Revision, Tag};

/// The key of a place. A retry finds its entry by it; the order is the revision that created it.
pub(crate) fn place(req: &OrderedCreate) -> Key {
    Key::from_store(&format!("{}{}:{}", req.dir.prefix(), req.tag, req.nonce))
}

fn parse(name: &str) -> Option<(Tag, Nonce)> {
    let (tag, nonce) = name.rsplit_once(':')?;
    Some((Tag::new(tag.to_owned()).ok()?, Nonce::from_uuid(nonce)?))
}

/// The children of a directory as a listing wants them: places in their order, then others by name.
#[derive(Debug, Default)]
pub(crate) struct Children {
    places: Vec<(Revision, Child)>,
    others: Vec<Child>,
}

impl Children {
    /// Adds a key, and the revision that created it.
    pub(crate) fn key(&mut self, key: Key, created: Revision) {
        match parse(key.name()) {
            Some((tag, nonce)) => self.places.push((created, Child::new(key, Some(tag), Some(nonce)))),
            None => self.others.push(Child::new(key, None, None)),
        }
    }

    /// Adds a directory below.
    pub(crate) fn dir(&mut self, dir: Key) {
        self.others.push(Child::new(dir, None, None));
    }

    pub(crate) fn into_order(self) -> Vec<Child> {
        let Self { mut places, mut others } = self;
        places.sort_by(|(a, x), (b, y)| (a, &x.key).cmp(&(b, &y.key)));
        others.sort_by(|a, b| a.key.cmp(&b.key));
        places.into_iter().map(|(_, child)| child).chain(others).collect()
    }
}

/// The same for a copy of the directory.
pub(crate) fn order_entries(entries: &[&Entry]) -> Vec<Child> {
    let mut children = Children::default();
    for entry in entries {
        children.key(entry.key.clone(), entry.meta.created);
    }
    children.into_order()
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
    use super::*;

    #[test]
    fn places_stand_by_their_revision_and_all_others_behind_them() {
        let dir = Dir::parse("/l").unwrap();
        let mut children = Children::default();
        children.key(dir.key("b").unwrap(), Revision::new(1));
        for (nonce, tag, created) in [(1, "lock-", 30), (9, "__READ__", 4), (5, "lock-", 12)] {
            let name = format!("{tag}:{}", Nonce::new(nonce));
            children.key(dir.key(&name).unwrap(), Revision::new(created));
        }
        children.dir(dir.key("a").unwrap());
        let got: Vec<_> = children
            .into_order()
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
