//! One namespace, as all consumers of this process and handle read it: one watch, one read of each release.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use coord_api::{Coord, Entry, Error, ErrorKind, Freshness, Key, Result, Retry, kit::Backoff};
use coord_recipes::{
    Cache, Listener,
    planted::{Bug, planted},
};
use futures::future::try_join_all;
use tokio::sync::{oneshot, watch};

use crate::{
    Namespace,
    model::{Head, Paths, Release, ReleaseRef, ReleaseVersion},
};

/// How often the head is read though the watch says nothing: a channel that is dead without a word must not hold up a
/// release for longer.
const POLL: Duration = Duration::from_secs(5);
/// Longest pause before a read that failed is tried again.
const RETRY_CAP: Duration = Duration::from_secs(1);

/// The sources of this process. A handle is known by the address of its backend, which its sources keep from being used
/// again.
static SOURCES: Mutex<BTreeMap<(usize, Key), Weak<Source>>> = Mutex::new(BTreeMap::new());

/// A namespace that is followed as long as this lives.
#[derive(Debug)]
pub(super) struct Source {
    name: (usize, Key),
    known: watch::Receiver<Known>,
    /// Keeps the backend, and with it the address in `name`.
    _coord: Coord,
    /// Dropped with the last consumer, which ends the task.
    _alive: oneshot::Sender<()>,
}

/// What is known of a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// What is in force; `None` until the store was read.
    pub(super) found: Option<Found>,
    /// Why the newest there is cannot be taken.
    pub(super) trouble: Option<Arc<Error>>,
    /// The store's handle was closed.
    pub(super) closed: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Found {
    /// The namespace has no release yet.
    Nothing,
    /// A head with all that it points at.
    Current(Arc<Current>),
}

/// A head, and the releases that it points at, each of which is the one that was published.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) head: Head,
    pub(super) releases: BTreeMap<ReleaseVersion, Arc<Release>>,
}

impl Source {
    /// The source of this namespace: the one that is there, or a new one.
    pub(super) fn open(namespace: &Namespace) -> Arc<Self> {
        let coord = namespace.coord();
        let name = (Arc::as_ptr(coord.backend()).cast::<()>().addr(), namespace.paths().head.clone());
        let mut sources = sources();
        if let Some(source) = sources.get(&name).and_then(Weak::upgrade) {
            return source;
        }
        let (told, known) = watch::channel(Known::default());
        let (alive, ended) = oneshot::channel();
        let source = Arc::new(Self { name: name.clone(), known, _coord: coord.clone(), _alive: alive });
        sources.insert(name, Arc::downgrade(&source));
        drop(sources);
        let follower = Follower {
            coord: coord.clone().with_freshness(Freshness::Latest),
            paths: namespace.paths().clone(),
            known: told,
        };
        coord.runtime().spawn(async move {
            tokio::select! {
                biased;
                // An error: nobody sends, the last one just goes.
                _ = ended => {}
                () = follower.run() => {}
            }
        });
        source
    }

    pub(super) fn known(&self) -> watch::Receiver<Known> {
        self.known.clone()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let mut sources = sources();
        // Another may have been opened under this name since the last reference went.
        if sources.get(&self.name).is_some_and(|source| source.strong_count() == 0) {
            sources.remove(&self.name);
        }
    }
}

fn sources() -> MutexGuard<'static, BTreeMap<(usize, Key), Weak<Source>>> {
    SOURCES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task of a source.
struct Follower {
    /// Reads are latest: a lagging server must not show a head and hide its release.
    coord: Coord,
    paths: Paths,
    known: watch::Sender<Known>,
}

impl Follower {
    /// Follows the head until the handle is closed.
    async fn run(self) {
        // The key was made from a checked name.
        let Ok(cache) = Cache::node(&self.coord, &self.paths.head) else { return self.close() };
        let mut events = cache.listen();
        let mut backoff = Backoff::new(RETRY_CAP);
        let mut failed = false;
        loop {
            let looked = match self.next(&mut events, failed.then_some(&mut backoff)).await {
                Wake::Event => self.take(cache.get(&self.paths.head)).await,
                Wake::Timer => self.look().await,
                Wake::Closed => return self.close(),
            };
            failed = match looked {
                Ok(()) => false,
                Err(error) if error.kind() == ErrorKind::Closed => return self.close(),
                Err(error) if error.retry() == Retry::Never => {
                    self.refuse(error);
                    false
                }
                Err(error) => {
                    tracing::debug!(head = %self.paths.head, %error, "a configuration could not be read; it is read again");
                    true
                }
            };
            if !failed {
                backoff.reset();
            }
        }
    }

    /// Waits for an event, or until it is time to look without one.
    async fn next(&self, events: &mut Listener, again: Option<&mut Backoff>) -> Wake {
        let timer = async {
            match again {
                Some(backoff) => backoff.sleep(&self.coord.runtime()).await,
                None => tokio::time::sleep(POLL).await,
            }
        };
        tokio::select! {
            biased;
            event = events.next() => if event.is_some() { Wake::Event } else { Wake::Closed },
            () = timer => Wake::Timer,
        }
    }

    /// Reads the head, and takes it.
    async fn look(&self) -> Result<()> {
        let entry = self.coord.get(&self.paths.head).await?;
        self.take(entry).await
    }

    /// Takes a head that was read. What is older than what is known changes nothing: an event may come late.
    async fn take(&self, entry: Option<Entry>) -> Result<()> {
        let before = match &self.known.borrow().found {
            Some(Found::Current(current)) => Some(Arc::clone(current)),
            _ => None,
        };
        let Some(entry) = entry else {
            let Some(before) = before else {
                self.show(Found::Nothing);
                return Ok(());
            };
            return self.gone(&before).await;
        };
        let head = Head::decode(&entry)?;
        match &before {
            Some(before) if head == before.head => {
                self.well();
                return Ok(());
            }
            Some(before) if head.generation <= before.head.generation && !planted(Bug::ConfigTakesOlder) => {
                return self.behind(&before.head).await;
            }
            _ => {}
        }
        let wanted: BTreeMap<_, _> = head.releases().map(|release| (release.version, *release)).collect();
        let reads = wanted.values().map(|release| self.release(release, before.as_deref()));
        let read = try_join_all(reads).await?;
        let releases = read.into_iter().map(|release| (release.version, release)).collect();
        self.show(Found::Current(Arc::new(Current { head, releases })));
        Ok(())
    }

    /// One release, as the head names it. It never changes: what was read once is not read again.
    async fn release(&self, wanted: &ReleaseRef, before: Option<&Current>) -> Result<Arc<Release>> {
        let named = before.filter(|before| before.head.releases().any(|release| release == wanted));
        if let Some(known) = named.and_then(|before| before.releases.get(&wanted.version)) {
            return Ok(Arc::clone(known));
        }
        let key = self.paths.release(wanted.version)?;
        match self.coord.get(&key).await? {
            Some(entry) => Release::decode(&entry, wanted).map(Arc::new),
            None => self.missing(key, wanted.version).await,
        }
    }

    /// A release that was named is not there: another head has come, and the release was collected, or it was deleted
    /// by hand.
    async fn missing<T>(&self, key: Key, version: ReleaseVersion) -> Result<T> {
        let entry = self.coord.get(&self.paths.head).await?;
        let named = match &entry {
            Some(entry) => Head::decode(entry)?.releases().any(|release| release.version == version),
            None => false,
        };
        let message = "the head names a release that is not there";
        Err(if named { Error::new(ErrorKind::Malformed, message) } else { Error::unavailable(message) }
            .with_context("key", key))
    }

    /// The head was read as absent, though there was one.
    async fn gone(&self, before: &Current) -> Result<()> {
        // An event may tell of the time before the head was made.
        if self.coord.get(&self.paths.head).await?.is_some() {
            return Ok(());
        }
        Err(self.past("the head is gone", &before.head))
    }

    /// A head was read that is not after the one that is known.
    async fn behind(&self, known: &Head) -> Result<()> {
        let now = self.coord.get(&self.paths.head).await?;
        // The newest head there is came meanwhile, or comes with the next event.
        match now.as_ref().map(Head::decode).transpose()? {
            Some(now) if now == *known || now.generation > known.generation => Ok(()),
            _ => Err(self.past("the store shows another past, or an older generation, than it did", known)),
        }
    }

    /// The store went back in time: a backup was restored, or the namespace made anew.
    fn past(&self, message: &'static str, known: &Head) -> Error {
        Error::new(ErrorKind::StaleToken, message)
            .with_context("key", &self.paths.head)
            .with_context("seen", known.generation)
    }

    fn show(&self, found: Found) {
        self.known.send_replace(Known { found: Some(found), trouble: None, closed: false });
    }

    /// What is known is what the store has.
    fn well(&self) {
        self.known.send_if_modified(|known| known.trouble.take().is_some());
    }

    fn refuse(&self, error: Error) {
        let told = error.to_string();
        self.known.send_if_modified(|known| {
            // The same as before is no news.
            if known.trouble.as_ref().is_some_and(|before| before.to_string() == told) {
                return false;
            }
            tracing::warn!(%error, "a configuration was refused; the last good one stays");
            known.trouble = Some(Arc::new(error));
            true
        });
    }

    fn close(&self) {
        self.known.send_modify(|known| known.closed = true);
    }
}

/// Why the task woke.
enum Wake {
    Event,
    Timer,
    Closed,
}
