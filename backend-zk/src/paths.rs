//! Where keys are in the tree of the server.

use coord_api::{Dir, Key};

/// What every directory node holds, so that it is not taken for a key.
///
/// A `Stat` does not tell a container from a node with a value, and an empty value is a fine value for a key.
pub(crate) const SENTINEL: &[u8] = b"\0coord:directory\0";

/// The node of the server's own settings, below its root.
const SYSTEM: &str = "/zookeeper";

/// Keys and directories as paths of nodes: below the chroot of the URL.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// Without trailing slash; empty for the root of the server.
    root: String,
}

impl Paths {
    pub(crate) fn new(chroot: &Dir) -> Self {
        let root = if chroot.is_root() { String::new() } else { chroot.as_str().to_owned() };
        Self { root }
    }

    /// The path of the chroot itself.
    pub(crate) fn root(&self) -> &str {
        if self.root.is_empty() { "/" } else { &self.root }
    }

    pub(crate) fn key(&self, key: &Key) -> String {
        [&*self.root, key.as_str()].concat()
    }

    pub(crate) fn dir(&self, dir: &Dir) -> String {
        if dir.is_root() { self.root().to_owned() } else { format!("{}{dir}", self.root) }
    }

    /// The key of a node; `None` for the chroot, for nodes outside it, and for the server's own.
    pub(crate) fn to_key(&self, path: &str) -> Option<Key> {
        let rest = path.strip_prefix(self.root.as_str())?;
        let key = (rest.len() > 1 && rest.starts_with('/')).then(|| Key::from_store(rest))?;
        (!self.is_system(path)).then_some(key)
    }

    /// The key of a child of `dir`; `None` for the server's own node.
    pub(crate) fn child(&self, dir: &Dir, name: &str) -> Option<Key> {
        let key = Key::from_store(&format!("{}{name}", dir.prefix()));
        (!self.root.is_empty() || key.as_str() != SYSTEM).then_some(key)
    }

    fn is_system(&self, path: &str) -> bool {
        self.root.is_empty()
            && path.strip_prefix(SYSTEM).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The path of the node above; `None` for the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some(("", "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((parent, _)) => Some(parent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_paths_are_one_to_one_below_a_chroot() {
        let paths = Paths::new(&Dir::parse("/app").unwrap());
        let key = Key::parse("/a/b").unwrap();
        assert_eq!(paths.key(&key), "/app/a/b");
        assert_eq!(paths.to_key("/app/a/b"), Some(key));
        assert_eq!(
            (paths.dir(&Dir::root()), paths.dir(&Dir::parse("/a").unwrap())),
            ("/app".into(), "/app/a".into())
        );
        for outside in ["/app", "/apple/a", "/", "/other", "", "/app/"] {
            assert_eq!(paths.to_key(outside), None, "{outside:?}");
        }
        assert_eq!(paths.to_key("/app/zookeeper"), Some(Key::parse("/zookeeper").unwrap()));
    }

    #[test]
    fn the_servers_own_nodes_are_no_keys() {
        let paths = Paths::new(&Dir::root());
        for own in ["/zookeeper", "/zookeeper/quota"] {
            assert_eq!(paths.to_key(own), None);
        }
        assert_eq!(paths.child(&Dir::root(), "zookeeper"), None);
        assert!(paths.to_key("/zookeepers").is_some() && paths.child(&Dir::root(), "a").is_some());
        assert_eq!(paths.dir(&Dir::root()), "/");
    }

    #[test]
    fn parents_end_at_the_root() {
        assert_eq!((parent("/a/b"), parent("/a"), parent("/")), (Some("/a"), Some("/"), None));
    }
}
