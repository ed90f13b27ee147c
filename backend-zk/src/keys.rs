//! What a handle remembers of the keys that it wrote, so that the next write needs no look.

use std::collections::{BTreeSet, HashMap};

use coord_api::{Check, Key, Op, Revision, Txn, kit::Guesses};

use crate::driver::Node;

/// Keys that are remembered, some hundred bytes each.
const ROOM: usize = 4096;

/// The versions in which this handle left keys.
///
/// A write "in that version" is refused if the node is not what it was, so it needs no look. Only versions are
/// remembered that an empty directory cannot have: nobody sets a directory, so its version stays 0. And only with
/// values that are not empty, since below an empty one others may make keys.
#[derive(Debug)]
pub(crate) struct KnownKeys(Guesses<Key, (Revision, i32)>);

impl Default for KnownKeys {
    fn default() -> Self {
        Self(Guesses::new(ROOM))
    }
}

impl KnownKeys {
    /// Takes from `look_at` the keys that need no look now, with the versions to write them in.
    ///
    /// Checks ask for more than a version tells.
    pub(crate) fn guess(&self, txn: &Txn, look_at: &mut BTreeSet<Key>) -> HashMap<Key, i32> {
        let checked = |key: &Key| txn.checks().iter().any(|check: &Check| check.key() == key);
        let written = txn.ops().iter().map(Op::key).filter(|key| !checked(key));
        let mut guesses = HashMap::new();
        for key in written {
            if look_at.contains(key)
                && let Some((_, version)) = self.0.guess(key)
            {
                look_at.remove(key);
                guesses.insert(key.clone(), version);
            }
        }
        guesses
    }

    /// A guess was wrong: others write this key.
    pub(crate) fn wrong(&self, key: &Key) {
        self.0.wrong(key);
    }

    /// A guess was right.
    pub(crate) fn right(&self, key: &Key) {
        self.0.right(key);
    }

    /// `op` was applied, and left this node if it left one.
    pub(crate) fn wrote(&self, op: &Op, node: Option<&Node>) {
        match node {
            Some(node) if node.version > 0 && node.children == 0 && !op.value().is_empty() => {
                self.0.learn(op.key(), (node.modified, node.version));
            }
            _ => self.0.forget(op.key()),
        }
    }
}

#[cfg(test)]
mod tests {
    use coord_api::Version;

    use super::*;

    fn key() -> Key {
        Key::parse("/k").unwrap()
    }

    fn node(version: i32, children: i32) -> Node {
        let r = Revision::new;
        Node { created: r(7), modified: r(9), children_modified: r(7), version, owner: 0, children }
    }

    fn guess(known: &KnownKeys, txn: &Txn) -> Option<i32> {
        let mut look_at = BTreeSet::from([key()]);
        let guesses = known.guess(txn, &mut look_at);
        assert_eq!(look_at.is_empty(), !guesses.is_empty(), "either a look or a guess");
        guesses.get(&key()).copied()
    }

    fn put(value: &'static str) -> Txn {
        Txn::new().put(key(), value)
    }

    fn wrote(known: &KnownKeys, txn: &Txn, node: Option<Node>) {
        known.wrote(&txn.ops()[0], node.as_ref());
    }

    #[test]
    fn only_what_no_directory_can_be_is_remembered() {
        let known = KnownKeys::default();
        assert_eq!(guess(&known, &put("v")), None);
        for (txn, node) in [
            (put("v"), Some(node(0, 0))),
            (put("v"), Some(node(3, 1))),
            (put(""), Some(node(3, 0))),
            (put("v"), Some(node(-5, 0))),
            (put("v"), None),
            (Txn::new().delete(key()), None),
        ] {
            wrote(&known, &put("v"), Some(self::node(8, 0)));
            assert_eq!(guess(&known, &put("w")), Some(8));
            wrote(&known, &txn, node);
            assert_eq!(guess(&known, &put("w")), None, "{txn:?} {node:?}");
        }
    }

    #[test]
    fn every_write_without_a_check_of_its_key_is_guessed() {
        let known = KnownKeys::default();
        wrote(&known, &put("v"), Some(node(2, 0)));
        assert_eq!(guess(&known, &Txn::new().update(key(), "w")), Some(2));
        assert_eq!(guess(&known, &Txn::new().delete(key())), Some(2));
        assert_eq!(guess(&known, &put("w").check_exists(key())), None);
        assert_eq!(guess(&known, &put("w").check_version(key(), Version::new(2))), None);
        assert_eq!(guess(&known, &put("w").check_exists(Key::parse("/gate").unwrap())), Some(2));
    }
}
