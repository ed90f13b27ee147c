//! Which copies of directories follow the log, and how each becomes whole.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coord_api::{
    Dir, Error, Listing, Result, Revision,
    kit::{Backoff, Change, Hub, HubRef, Hubs},
};
use tokio::{
    sync::{Notify, watch},
    time::{Duration, Instant},
};

use crate::{
    conn::RESPONSE,
    error::{closed, is_final},
    link::Link,
    record::Batch,
    snapshot::{Snapshot, concerns, history, snapshot},
};

/// Entries of the log that wait for a snapshot; with more the snapshot is read again.
const PENDING_MAX: usize = 8192;

/// The copies that the reader of the log feeds.
///
/// The reader and the snapshots run on two connections. What keeps them in order: a copy is on the list, and what
/// the reader sees is kept for it, before its snapshot is read. So nothing falls between the two.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    list: Mutex<List>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct List {
    feeds: Vec<Arc<Feed>>,
    /// The reader has a position; copies that join now miss nothing behind it.
    following: bool,
}

/// One copy.
#[derive(Debug)]
pub(crate) struct Feed {
    hub: Arc<Hub>,
    state: Mutex<FeedState>,
    wanted: Notify,
}

#[derive(Debug)]
struct FeedState {
    phase: Phase,
    /// Grows with every gap: a snapshot that was begun before one is of no use.
    gaps: u64,
    /// The hub had a snapshot, and can give it to new watchers by itself.
    whole: bool,
    /// The snapshot lacks names whose records cannot be read.
    left_out: bool,
}

#[derive(Debug)]
enum Phase {
    /// The reader has no position yet.
    Idle,
    /// What came since the snapshot was asked for.
    Loading(Vec<Arc<Batch>>),
    Live,
}

/// How a copy begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    /// With everything there is.
    Whole,
    /// With what changed after this revision, if the log still has it.
    After(Revision),
}

impl Feeds {
    /// How many copies there are, and changes of that.
    pub(crate) fn count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// The reader has a new position, or saw a gap: every copy reads a snapshot, that is then newer.
    pub(crate) fn restart(&self) {
        let mut list = self.lock();
        list.following = true;
        list.feeds.iter().for_each(|feed| feed.reload());
    }

    /// The reader gave up its position.
    pub(crate) fn stop(&self) {
        let mut list = self.lock();
        list.following = false;
        list.feeds.iter().for_each(|feed| feed.lock().phase = Phase::Idle);
    }

    /// The next entries of the log, in order and without a gap.
    pub(crate) fn deliver(&self, batches: &[Arc<Batch>]) {
        let list = self.lock();
        list.feeds.iter().for_each(|feed| feed.take(batches));
    }

    /// The history went back: those who follow it cannot go on.
    pub(crate) fn fail(&self, hubs: &Hubs, error: impl Fn() -> Error) {
        for feed in mem::take(&mut self.lock().feeds) {
            hubs.forget(&feed.hub);
            feed.hub.fail(error());
        }
        self.count.send_replace(0);
    }

    fn add(&self, hub: Arc<Hub>) -> Arc<Feed> {
        let state = Mutex::new(FeedState { phase: Phase::Idle, gaps: 0, whole: false, left_out: false });
        let feed = Arc::new(Feed { hub, state, wanted: Notify::new() });
        let mut list = self.lock();
        if list.following {
            feed.reload();
        }
        list.feeds.push(Arc::clone(&feed));
        self.count.send_replace(list.feeds.len());
        feed
    }

    /// The names in a directory of a copy; `None` unless these are all that the store shows. One that others broke
    /// the record of may be a place in a line, whose holder does not know: nobody may be let past it.
    pub(crate) fn listing(&self, hub: &Hub, dir: &Dir) -> Option<Listing> {
        let feed = self.lock().feeds.iter().find(|feed| std::ptr::eq(&*feed.hub, hub)).cloned()?;
        // Held while the copy is read: it may become whole meanwhile.
        let state = feed.lock();
        (!state.left_out).then(|| hub.listing(dir))
    }

    fn remove(&self, feed: &Arc<Feed>) {
        let mut list = self.lock();
        list.feeds.retain(|other| !Arc::ptr_eq(other, feed));
        self.count.send_replace(list.feeds.len());
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Feeds a new hub until nobody uses it; `hubs` is where it is found.
    pub(crate) async fn run(self: Arc<Self>, link: Arc<Link>, hubs: Hubs, hub: Arc<Hub>, mut begin: Begin) {
        let feed = self.add(Arc::clone(&hub));
        let mut backoff = Backoff::new(Duration::from_secs(1));
        loop {
            let load = async {
                tokio::select! {
                    () = feed.wanted.notified() => {}
                    () = hub.reset_wanted() => feed.complete(),
                }
                feed.load(&link, &mut begin, &mut backoff).await
            };
            let failed = tokio::select! {
                biased;
                () = link.closed() => Err(closed()),
                () = hubs.unused(&hub) => break,
                loaded = load => loaded,
            };
            if let Err(error) = failed {
                hubs.forget(&hub);
                hub.fail(error);
                break;
            }
        }
        self.remove(&feed);
    }
}

impl Feed {
    fn reload(&self) {
        self.begin_load(&mut self.lock());
    }

    fn begin_load(&self, state: &mut FeedState) {
        state.gaps += 1;
        state.phase = Phase::Loading(Vec::new());
        self.wanted.notify_one();
    }

    /// A watcher wants the snapshot that a copy without a beginning does not have. In any other phase it gets one
    /// anyway.
    fn complete(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Live) && !state.whole {
            self.begin_load(&mut state);
        }
    }

    fn take(&self, batches: &[Arc<Batch>]) {
        let mut state = self.lock();
        match &mut state.phase {
            Phase::Idle => {}
            Phase::Loading(pending) if pending.len() > PENDING_MAX => self.begin_load(&mut state),
            Phase::Loading(pending) => pending.extend(batches.iter().cloned()),
            Phase::Live => self.apply(batches),
        }
    }

    fn apply(&self, batches: &[Arc<Batch>]) {
        for batch in batches {
            let changes: Vec<Change> = batch
                .changes
                .iter()
                .flatten()
                .filter(|change| concerns(self.hub.dir(), change))
                .cloned()
                .collect();
            if !changes.is_empty() {
                self.hub.apply(Revision::new(batch.revision), changes);
            }
        }
        if let Some(last) = batches.last() {
            self.hub.progress(Revision::new(last.revision));
        }
    }

    /// Makes the copy whole, however often it takes. Returns an error only if that cannot succeed.
    async fn load(&self, link: &Arc<Link>, begin: &mut Begin, backoff: &mut Backoff) -> Result<()> {
        loop {
            let gaps = {
                let state = self.lock();
                match state.phase {
                    Phase::Loading(_) => state.gaps,
                    Phase::Idle | Phase::Live => return Ok(()),
                }
            };
            match self.read(link, begin).await {
                Ok(Found::Whole(found)) if found.revision < self.hub.revision() => {
                    // The copy began there: it was asked for, and the store is not that far, or no longer.
                    return Err(Error::invalid(
                        "the watch starts at a revision that the store has not reached",
                    )
                    .with_context("dir", self.hub.dir())
                    .with_context("revision", self.hub.revision()));
                }
                Ok(found) => {
                    // From here on a gap needs a snapshot.
                    *begin = Begin::Whole;
                    if self.finish(gaps, found) {
                        backoff.reset();
                        return Ok(());
                    }
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => {
                    tracing::debug!(dir = %self.hub.dir(), %error, "no snapshot yet");
                    backoff.sleep(&link.runtime).await;
                }
            }
        }
    }

    async fn read(&self, link: &Arc<Link>, begin: &mut Begin) -> Result<Found> {
        let until = Instant::now() + RESPONSE;
        let conn = link.conn(until).await?;
        if let Begin::After(after) = *begin {
            let mut at = after.get();
            let mut found = Vec::new();
            loop {
                let (now, batches) = history(&conn, at, Instant::now() + RESPONSE).await?;
                for batch in batches {
                    if batch.previous != at || batch.changes.is_none() {
                        *begin = Begin::Whole;
                        break;
                    }
                    at = batch.revision;
                    found.push(Arc::new(batch));
                }
                if !matches!(begin, Begin::After(_)) || found.len() > PENDING_MAX {
                    *begin = Begin::Whole;
                    break;
                }
                if at == now {
                    return Ok(Found::Changes(found));
                }
            }
        }
        Ok(Found::Whole(snapshot(&conn, self.hub.dir()).await?))
    }

    /// Begins with what was found, unless a gap came while it was read; then what waited for it.
    fn finish(&self, gaps: u64, found: Found) -> bool {
        let mut state = self.lock();
        if state.gaps != gaps {
            return false;
        }
        let pending = match mem::replace(&mut state.phase, Phase::Live) {
            Phase::Loading(pending) => pending,
            // The reader gave up meanwhile: what was found is not followed by anything.
            phase => {
                state.phase = phase;
                return true;
            }
        };
        match found {
            Found::Whole(found) => {
                (state.whole, state.left_out) = (true, found.left_out);
                self.hub.reset(found.revision, found.entries);
            }
            Found::Changes(batches) => self.apply(&batches),
        }
        // What was found shows some of this already; the copy knows by the revision.
        self.apply(&pending);
        true
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Found {
    Whole(Snapshot),
    Changes(Vec<Arc<Batch>>),
}

/// The hub of `dir`; fed from now on if it is new.
pub(crate) fn start(feeds: &Arc<Feeds>, link: &Arc<Link>, hubs: &Hubs, dir: &Dir, begin: Begin) -> HubRef {
    let new = || {
        let hub = Hub::new(dir.clone(), crate::line::order);
        if let Begin::After(after) = begin {
            // Before a watcher asks: it then needs no snapshot, unless the history turns out to be gone.
            hub.resume_after(after);
        }
        hub
    };
    hubs.get_or_start(dir, new, |hub| {
        let run = Arc::clone(feeds).run(Arc::clone(link), hubs.clone(), hub, begin);
        drop(link.runtime.spawn(run));
    })
}
