//! Where keys and directories lie in etcd's flat key space.

use coord_api::{Dir, Key};

/// Puts every key below the path of the URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    prefix: String,
}

/// A half-open range of etcd keys: all that starts with a directory's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl Paths {
    /// Keys below `root`, the path of the URL.
    pub(crate) fn new(root: &Dir) -> Self {
        Self { prefix: if root.is_root() { String::new() } else { root.as_str().to_owned() } }
    }

    /// The etcd key of `key`.
    pub(crate) fn encode(&self, key: &Key) -> Vec<u8> {
        [self.prefix.as_bytes(), key.as_str().as_bytes()].concat()
    }

    /// The key that an etcd key stands for; `None` if it is not text, or not below the root.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Option<Key> {
        let path = std::str::from_utf8(bytes).ok()?.strip_prefix(self.prefix.as_str())?;
        path.starts_with('/').then(|| Key::from_store(path))
    }

    /// The range of all keys in `dir` and below. Neighbours with a longer name (`/app2` beside `/app`) are outside.
    pub(crate) fn range(&self, dir: &Dir) -> Range {
        let start = format!("{}{}", self.prefix, dir.prefix()).into_bytes();
        let mut end = start.clone();
        // The prefix ends in a slash; its successor is the next byte.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Range { start, end }
    }
}

impl Range {
    /// What is left of the range behind `key`.
    pub(crate) fn after(&self, key: &[u8]) -> Self {
        let mut start = key.to_vec();
        start.push(0);
        Self { start, end: self.end.clone() }
    }

    /// Whether `key` is in the range.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && key < self.end.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Key {
        Key::parse(path).unwrap()
    }

    #[test]
    fn keys_lie_below_the_path_of_the_url_and_read_back() {
        for (root, stored) in [("/", "/a/b"), ("/p", "/p/a/b"), ("/p/q", "/p/q/a/b")] {
            let paths = Paths::new(&Dir::parse(root).unwrap());
            assert_eq!(paths.encode(&key("/a/b")), stored.as_bytes());
            assert_eq!(paths.decode(stored.as_bytes()), Some(key("/a/b")));
        }
    }

    #[test]
    fn foreign_keys_are_shown_if_they_can_be() {
        let paths = Paths::new(&Dir::parse("/p").unwrap());
        assert_eq!(paths.decode(b"/p/a//b").unwrap().as_str(), "/a//b");
        assert_eq!(paths.decode(b"/p/").unwrap().as_str(), "/");
        for hidden in [&b"/p2/a"[..], b"/p", b"p/a", b"/p/\xff", b""] {
            assert_eq!(paths.decode(hidden), None, "{hidden:?}");
        }
    }

    #[test]
    fn a_range_holds_what_is_below_and_not_the_neighbour() {
        let paths = Paths::new(&Dir::parse("/p").unwrap());
        let range = paths.range(&Dir::parse("/app").unwrap());
        for inside in [&b"/p/app/"[..], b"/p/app/x", b"/p/app/x/y", b"/p/app/\xff\xff"] {
            assert!(range.contains(inside), "{inside:?}");
        }
        for outside in [&b"/p/app"[..], b"/p/app0", b"/p/app2/x", b"/p/ap", b"/app/x"] {
            assert!(!range.contains(outside), "{outside:?}");
        }
        let rest = range.after(b"/p/app/m");
        assert!(!rest.contains(b"/p/app/m") && rest.contains(b"/p/app/m\0") && rest.contains(b"/p/app/n"));
        assert_eq!(Paths::default().range(&Dir::root()), Range { start: b"/".into(), end: b"0".into() });
    }
}
