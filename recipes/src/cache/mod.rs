//! Local copies of parts of a store, kept true by one watch.

mod event;
mod feed;
mod listener;
mod mailbox;
mod reduce;
mod snapshot;

use std::sync::Arc;

use coord_api::{Coord, Dir, Entry, IntoDir, IntoKey, Key, Result, Revision};
use tokio::sync::watch;

use feed::Feed;

pub use event::{CacheEvent, Change};
pub use listener::Listener;
#[cfg(feature = "micro")]
pub(crate) use reduce::{Effect, State};
pub use snapshot::Snapshot;

/// Which keys a cache shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    Node(Key),
    Children(Dir),
    Tree,
}

impl Scope {
    /// Whether `key`, of the watched directory, is in it.
    fn contains(&self, key: &Key) -> bool {
        match self {
            Self::Node(node) => node == key,
            Self::Children(dir) => key.parent() == *dir,
            Self::Tree => true,
        }
    }
}

/// How far a cache can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheState {
    /// The first snapshot has not come yet.
    Loading,
    /// The watch is open, and the store answered when it was last asked, a few seconds ago at most. Changes that are
    /// on their way may be missing.
    Current,
    /// The store does not answer, or the watch is being opened again: what is shown was true once.
    Stale,
    /// The store's handle was closed: nothing comes any more.
    Closed,
}

/// A local copy of one key, of the keys in a directory, or of a whole tree, kept true by a watch.
///
/// Reading costs no round trip. What is read is always the state of the store at one moment, perhaps a little ago, and
/// never goes back in [revision](Cache::revision). All caches of one handle and directory, and their clones and
/// listeners, share one watch; it ends when the last of them is dropped. A cache heals by itself: after trouble it is
/// in step again, and listeners are told the difference.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use coord_recipes::{Cache, CacheEvent, Change};
/// let cache = Cache::children(&store, "/config")?;
/// let mut events = cache.listen();
/// assert!(matches!(events.next().await, Some(CacheEvent::Initialized { entries }) if entries.is_empty()));
///
/// let written = store.put("/config/rate", "100").await?;
/// cache.at_least(written.revision).await?;
/// let rate = cache.get(&"/config/rate".parse()?).expect("it was written");
/// assert_eq!(rate.value, "100");
/// assert!(matches!(events.next().await, Some(CacheEvent::Changed(Change::Put { old: None, .. }))));
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Cache {
    feed: Arc<Feed>,
    scope: Scope,
}

impl Cache {
    /// A copy of one key. Watches the directory that the key is in, with everything below.
    ///
    /// Returns at once; [`Cache::ready`] waits for the contents.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no key.
    pub fn node(coord: &Coord, key: impl IntoKey) -> Result<Self> {
        let key = key.into_key()?;
        Ok(Self { feed: Feed::open(coord, key.parent()), scope: Scope::Node(key) })
    }

    /// A copy of the keys in a directory, without those in directories below. Watches the directory with everything
    /// below.
    ///
    /// Returns at once; [`Cache::ready`] waits for the contents.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no directory.
    pub fn children(coord: &Coord, dir: impl IntoDir) -> Result<Self> {
        let dir = dir.into_dir()?;
        Ok(Self { feed: Feed::open(coord, dir.clone()), scope: Scope::Children(dir) })
    }

    /// A copy of a directory and everything below.
    ///
    /// Returns at once; [`Cache::ready`] waits for the contents.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no directory.
    pub fn tree(coord: &Coord, dir: impl IntoDir) -> Result<Self> {
        Ok(Self { feed: Feed::open(coord, dir.into_dir()?), scope: Scope::Tree })
    }

    /// Waits for the first snapshot, however long; before it the cache shows nothing.
    ///
    /// # Errors
    /// [`Closed`](coord_api::ErrorKind::Closed) if the store's handle was closed.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed. For a time-out wrap it in `tokio::time::timeout`.
    pub async fn ready(&self) -> Result<()> {
        self.wait_until(|_| true).await.map(drop)
    }

    /// One key as the copy has it. Asks nobody.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Entry> {
        self.snapshot().get(key).cloned()
    }

    /// All that the copy has, at one moment. Asks nobody and copies nothing.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.feed.shared().snapshot(&self.scope)
    }

    /// The revision that the copy has reached. Never goes back.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.snapshot().revision()
    }

    /// Waits until the copy shows a write that was made at `revision` in the watched directory.
    ///
    /// Of revisions that changed nothing there the cache hears late or never.
    ///
    /// # Errors
    /// As [`Cache::ready`].
    ///
    /// # Cancel safety
    /// As [`Cache::ready`].
    pub async fn at_least(&self, revision: Revision) -> Result<()> {
        self.wait_until(|snapshot| snapshot.revision() >= revision).await.map(drop)
    }

    /// Waits until `done` accepts the contents, and returns those. Looks again after every change.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use coord_recipes::Cache;
    /// # for node in ["a", "b", "c"] { store.put(format!("/nodes/{node}"), "").await?; }
    /// let nodes = Cache::children(&store, "/nodes")?;
    /// let quorum = nodes.wait_until(|nodes| nodes.iter().count() >= 3).await?;
    /// println!("enough at revision {}", quorum.revision());
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// As [`Cache::ready`].
    ///
    /// # Cancel safety
    /// As [`Cache::ready`].
    pub async fn wait_until(&self, done: impl Fn(&Snapshot) -> bool + Send) -> Result<Snapshot> {
        self.feed.shared().wait_until(&self.scope, done).await
    }

    /// A listener that is told everything that is there, then every change.
    pub fn listen(&self) -> Listener {
        Listener::new(self.feed.shared().listen(&self.scope), Arc::clone(&self.feed))
    }

    /// Whether the copy is [current](CacheState::Current). Asks nobody.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.state() == CacheState::Current
    }

    /// How far the cache can be believed now.
    #[must_use]
    pub fn state(&self) -> CacheState {
        *self.states().borrow()
    }

    /// The state and its changes, for `tokio::select!` and the like.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<CacheState> {
        self.feed.shared().states()
    }
}
