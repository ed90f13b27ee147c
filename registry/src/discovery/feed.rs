//! What the task of a view and its readers share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use coord_api::{
    Error,
    events::{Event, Reporter},
};
use coord_recipes::{Cache, CacheState};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};

use super::{
    DiscoveryEvent, DiscoveryOptions, DiscoveryState, Snapshot,
    file::{ListFile, Saved},
    view::View,
};
use crate::{Instance, Registry};

/// How many events a reader may lag behind before it is told everything anew.
const EVENTS_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    events: broadcast::Sender<DiscoveryEvent>,
    state: watch::Sender<DiscoveryState>,
    service: String,
    reporter: Reporter,
}

#[derive(Debug)]
struct Inner {
    view: View,
    cache: CacheState,
    /// When the list was last known to be true, or would have been by the wall clock.
    true_at: Instant,
    /// How old the list of the file was at `true_at`.
    older: Duration,
    /// What is wrong with the file.
    file_problem: Option<Arc<Error>>,
}

impl Shared {
    pub(super) fn new(registry: &Registry, service: &str, options: &DiscoveryOptions) -> Self {
        let view = View::new(registry, service, options.protect_empty);
        let (cache, true_at) = (CacheState::Loading, Instant::now());
        Self {
            inner: Mutex::new(Inner { view, cache, true_at, older: Duration::ZERO, file_problem: None }),
            events: broadcast::Sender::new(EVENTS_MAX),
            state: watch::Sender::new(DiscoveryState::Loading),
            service: service.to_owned(),
            reporter: registry.coord().reporter().clone(),
        }
    }

    /// Follows the cache, and keeps the file if there is one, until the store's handle is closed.
    pub(super) async fn run(self: Arc<Self>, cache: Cache, file: Option<ListFile>) {
        let keeping = async {
            match file {
                Some(file) => file.keep(&self).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.follow(&cache) => {}
            () = keeping => {}
        }
    }

    async fn follow(&self, cache: &Cache) {
        let (mut listener, mut states) = (cache.listen(), cache.states());
        loop {
            let deadline = self.lock().view.deadline();
            let over = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = listener.next() => match event {
                    Some(event) => self.change(|inner| inner.view.apply(event, Instant::now())),
                    None => return self.reach(CacheState::Closed),
                },
                Ok(()) = states.changed() => self.reach(*states.borrow_and_update()),
                () = over => self.change(|inner| inner.view.tick(Instant::now())),
            }
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut inner = self.lock();
        let state = inner.state();
        let age = if state == DiscoveryState::Current {
            Duration::ZERO
        } else {
            inner.older + inner.true_at.elapsed()
        };
        Snapshot { instances: inner.view.list(), state, age }
    }

    pub(super) fn states(&self) -> watch::Receiver<DiscoveryState> {
        self.state.subscribe()
    }

    pub(super) fn problems(&self) -> Vec<Arc<Error>> {
        let inner = self.lock();
        let mut problems = inner.view.problems();
        problems.extend(inner.file_problem.clone());
        problems
    }

    /// The list, if it is what the store has.
    pub(super) fn true_list(&self) -> Option<Arc<[Instance]>> {
        let mut inner = self.lock();
        (inner.view.loaded() && !inner.view.is_instead()).then(|| inner.view.list())
    }

    /// Shows the list of a file, unless the store was heard.
    pub(super) fn show_file(&self, saved: Saved) {
        self.change(|inner| {
            let told = inner.view.show_file(saved.instances);
            if !told.is_empty() {
                (inner.true_at, inner.older) = (Instant::now(), saved.age);
            }
            told
        });
    }

    pub(super) fn file_failed(&self, error: Error) {
        tracing::warn!(%error, "the file of a view is of no use");
        self.lock().file_problem = Some(Arc::new(error));
    }

    pub(super) fn file_is_well(&self) {
        self.lock().file_problem = None;
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<DiscoveryEvent> {
        self.events.subscribe()
    }

    /// What is shown, and what comes after it.
    pub(super) fn list_and_listen(&self) -> (Arc<[Instance]>, broadcast::Receiver<DiscoveryEvent>) {
        // Events are sent under the lock: none comes between the two.
        let mut inner = self.lock();
        (inner.view.list(), self.events.subscribe())
    }

    /// The state of the cache is this now.
    fn reach(&self, cache: CacheState) {
        self.change(|inner| {
            inner.cache = cache;
            Vec::new()
        });
    }

    fn change(&self, change: impl FnOnce(&mut Inner) -> Vec<DiscoveryEvent>) {
        let mut inner = self.lock();
        let before = inner.state();
        let told = change(&mut inner);
        let after = inner.state();
        if before == DiscoveryState::Current || after == DiscoveryState::Current {
            (inner.true_at, inner.older) = (Instant::now(), Duration::ZERO);
        }
        if !told.is_empty() {
            self.reporter
                .tell(|| Event::Instances { service: self.service.clone(), count: inner.view.list().len() });
        }
        for event in told {
            // An error: nobody listens.
            let _ = self.events.send(event);
        }
        self.state.send_if_modified(|shown| std::mem::replace(shown, after) != after);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn state(&self) -> DiscoveryState {
        match (self.cache, self.view.loaded(), self.view.is_instead()) {
            (CacheState::Closed, ..) => DiscoveryState::Closed,
            (_, false, false) => DiscoveryState::Loading,
            (_, false, true) => DiscoveryState::FromFile,
            (CacheState::Stale, true, _) => DiscoveryState::Stale,
            // A cache tells its first list a moment before it says that it has one.
            (CacheState::Loading | CacheState::Current, true, true) => DiscoveryState::Protected,
            (CacheState::Loading | CacheState::Current, true, false) => DiscoveryState::Current,
        }
    }
}
