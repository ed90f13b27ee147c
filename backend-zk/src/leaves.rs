//! The leaf rule: a node with a value keeps no keys below, for a directory is never read as a key.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use coord_api::{Error, ErrorKind, Freshness, Key, Op, Result};
use tokio::time::Instant;

use crate::{
    driver::{Conn, Node},
    handle::Core,
    paths::{SENTINEL, parent},
};

/// How long a directory in use is taken for one without another look. Somebody else may have emptied it and put a
/// key in its place since.
const KNOWN_FOR: Duration = Duration::from_secs(60);
const KNOWN_MAX: usize = 1024;

/// Paths of nodes that this handle saw to be directories, and when it last used them.
#[derive(Debug, Default)]
pub(crate) struct KnownDirectories(Mutex<HashMap<String, Instant>>);

impl KnownDirectories {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `path` is known; using it keeps it so.
    fn has(&self, path: &str, now: Instant) -> bool {
        match self.lock().get_mut(path) {
            Some(used) if now.saturating_duration_since(*used) < KNOWN_FOR => {
                *used = now;
                true
            }
            _ => false,
        }
    }

    fn add(&self, path: &str, now: Instant) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX && !known.contains_key(path) {
            known.retain(|_, used| now.saturating_duration_since(*used) < KNOWN_FOR);
            // Forgetting costs one look each, and nothing else.
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
        }
        known.insert(path.to_owned(), now);
    }

    /// Forgets `path`: it became a key.
    pub(crate) fn forget(&self, path: &str) {
        self.lock().remove(path);
    }

    /// Forgets the directories above `path`: some of them were collected.
    pub(crate) fn forget_above(&self, path: &str) {
        let mut known = self.lock();
        let mut above = parent(path);
        while let Some(dir) = above {
            known.remove(dir);
            above = parent(dir);
        }
    }
}

impl Core {
    /// Makes sure that what `path` is to be created in is a directory, or absent together with its parents, which
    /// are made then.
    ///
    /// The first use of a directory costs a look; later ones cost nothing.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument), before anything is written, if a node above is a key.
    pub(crate) async fn enter(&self, conn: &Arc<Conn>, deadline: Instant, path: &str) -> Result<()> {
        let mut missing = false;
        let mut above = parent(path);
        while let Some(dir) = above {
            // The chroot and what is above it are no keys of ours, whatever they hold.
            let Some(key) = self.settings.paths.to_key(dir) else { break };
            if self.known.has(dir, Instant::now()) {
                break;
            }
            // A lagging server's answer must not hide a value.
            match self.read(conn, deadline, dir, Freshness::Latest).await {
                Ok(None) => missing = true,
                Ok(Some((value, node))) if holds_value(&value, &node) => {
                    return Err(match self.settings.paths.to_key(path) {
                        Some(below) => leaf_rule(&below, &key),
                        None => leaf_rule(&key, &key),
                    });
                }
                Ok(Some(_)) => {
                    self.known.add(dir, Instant::now());
                    break;
                }
                // What may be written to and not read: nobody here can have put a value there.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => break,
                Err(error) => return Err(error),
            }
            above = parent(dir);
        }
        if missing { self.make_parents(conn, deadline, path).await } else { Ok(()) }
    }
}

/// Whether a node is a key with a value, which one below would hide. An empty one may be a directory of Curator's; and one
/// with children is a directory whatever it holds: Dubbo's clients leave their address in theirs.
fn holds_value(value: &[u8], node: &Node) -> bool {
    node.owner != 0 || (node.children == 0 && !value.is_empty() && value != SENTINEL)
}

/// Refuses a transaction that writes a key and another above it.
pub(crate) fn check_leaves(ops: &[Op]) -> Result<()> {
    let written: Vec<&Key> = ops.iter().filter(|op| !matches!(op, Op::Delete { .. })).map(Op::key).collect();
    for key in &written {
        let dir = key.as_dir();
        if let Some(below) = written.iter().find(|other| dir.contains(other)) {
            return Err(leaf_rule(below, key));
        }
    }
    Ok(())
}

fn leaf_rule(key: &Key, other: &Key) -> Error {
    Error::invalid("a key cannot be above or below another key (the leaf rule)")
        .with_context("key", key)
        .with_context("other", other)
}

#[cfg(test)]
mod tests {
    use coord_api::Txn;

    use super::*;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    #[test]
    fn a_transaction_writes_leaves_only() {
        let txn = Txn::new().put(key("/a/b"), "1").put(key("/a"), "2");
        let error = check_leaves(txn.ops()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("key=/a/b") && error.to_string().contains("other=/a"), "{error}");
        let apart = Txn::new().put(key("/a/b"), "1").put(key("/a/bc"), "2").delete(key("/a"));
        check_leaves(apart.ops()).unwrap();
    }

    #[test]
    fn a_directory_may_hold_what_others_left_in_it() {
        let at = coord_api::Revision::new(7);
        let node = |children, owner| Node {
            created: at,
            modified: at,
            children_modified: at,
            version: 0,
            owner,
            children,
        };
        assert!(holds_value(b"10.0.0.1", &node(0, 0)));
        assert!(!holds_value(b"10.0.0.1", &node(1, 0)));
        assert!(!holds_value(b"", &node(0, 0)) && !holds_value(SENTINEL, &node(0, 0)));
        assert!(holds_value(b"", &node(0, 5)), "an ephemeral node never has children");
    }

    #[test]
    fn a_directory_is_known_while_it_is_used() {
        let known = KnownDirectories::default();
        let began = Instant::now();
        known.add("/a", began);
        known.add("/a/b", began);
        for halves in 1..=3 {
            assert!(known.has("/a", began + halves * KNOWN_FOR / 2));
        }
        let later = began + KNOWN_FOR * 3 / 2;
        assert!(!known.has("/a/b", later), "unused for too long");
        known.forget_above("/a/b");
        assert!(!known.has("/a", later));
        for i in 0..3 * KNOWN_MAX {
            known.add(&format!("/{i}"), later);
        }
        assert!(known.lock().len() <= KNOWN_MAX);
    }
}
