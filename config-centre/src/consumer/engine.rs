//! The task of one consumer: from what is found in the layers to what is applied.

use std::{mem, sync::Arc, time::Duration};

use coord_api::{Error, ErrorKind, Result, events::Event};
use futures::future::select_all;
use tokio::{sync::watch, time::Instant};

use super::{
    Running, Status,
    configuration::Configuration,
    report::Reporter,
    snapshot_file::SnapshotFile,
    source::{Found, Known, Source},
};
use crate::{Generation, Identity, Keyring, Layers, WallTime};

/// Makes of a configuration what the program wants, or refuses it.
pub(super) type Build<V> = Arc<dyn Fn(&Configuration) -> Result<V> + Send + Sync>;

/// A configuration that is in force, and what was made of it.
#[derive(Debug)]
pub(super) struct Applied<V> {
    pub(super) effective: Arc<Configuration>,
    pub(super) value: V,
}

/// What is in force, and how the consumer does: one value, so that neither tells of what the other does not show yet.
#[derive(Debug)]
pub(super) struct State<V> {
    pub(super) applied: Option<Arc<Applied<V>>>,
    pub(super) status: Status,
}

/// What the task and the handles of a consumer share.
#[derive(Debug)]
pub(super) struct Shared<V> {
    pub(super) state: watch::Sender<State<V>>,
    /// The status once more, for those who wait for it. It follows the state.
    pub(super) statuses: watch::Sender<Status>,
    pub(super) reporter: Option<Reporter>,
}

impl<V> Shared<V> {
    pub(super) fn new(status: Status, reporter: Option<Reporter>) -> Self {
        let state = watch::Sender::new(State { applied: None, status: status.clone() });
        Self { state, statuses: watch::Sender::new(status), reporter }
    }

    /// Changes the state; `change` says whether it did.
    fn update(&self, change: impl FnOnce(&mut State<V>) -> bool) {
        if self.state.send_if_modified(change) {
            self.statuses.send_replace(self.state.borrow().status.clone());
        }
    }
}

pub(super) struct Engine<V> {
    pub(super) identity: Identity,
    pub(super) layers: Layers,
    /// In the order of the layers.
    pub(super) sources: Vec<Arc<Source>>,
    pub(super) keyring: Option<Keyring>,
    pub(super) file: Option<SnapshotFile>,
    /// How long the store may take before the file is used.
    pub(super) patience: Duration,
    pub(super) build: Build<V>,
    pub(super) shared: Arc<Shared<V>>,
}

/// What the task remembers.
#[derive(Default)]
struct Memory {
    /// What is in force, with its encrypted values closed.
    sealed: Option<Configuration>,
    /// Nothing older than this is applied: the last good configuration of an earlier life.
    saved: Option<Configuration>,
    /// What was refused last; it is not asked about again.
    refused: Option<(Configuration, Arc<Error>)>,
}

impl<V: Send + Sync + 'static> Engine<V> {
    /// Applies what there is and what comes, until it is dropped.
    pub(super) async fn run(self) {
        let mut known: Vec<watch::Receiver<Known>> =
            self.sources.iter().map(|source| source.known()).collect();
        let mut memory = Memory { saved: self.load().await, ..Memory::default() };
        let late = Instant::now() + self.patience;
        loop {
            let seen: Vec<Known> = known.iter_mut().map(|known| known.borrow_and_update().clone()).collect();
            if seen.iter().any(|known| known.closed) {
                // Kept for those who read: what is in force stays.
                return self.shared.update(|state| !mem::replace(&mut state.status.closed, true));
            }
            let trouble = self.look(&seen, &mut memory).await;
            if memory.sealed.is_none() && (trouble.is_some() || Instant::now() >= late) {
                self.fall_back(&mut memory).await;
            }
            self.tell(trouble);
            let changed = select_all(known.iter_mut().map(|known| Box::pin(known.changed())));
            tokio::select! {
                biased;
                _ = changed => {}
                () = tokio::time::sleep_until(late), if memory.sealed.is_none() && Instant::now() < late => {}
            }
        }
    }

    /// Applies what was found, if it is new and good; gives what is wrong otherwise.
    async fn look(&self, seen: &[Known], memory: &mut Memory) -> Option<Arc<Error>> {
        let trouble = seen.iter().find_map(|known| known.trouble.clone());
        // Until every layer was read there is nothing whole.
        let found: Option<Vec<(&str, Found)>> =
            self.layers.names().zip(seen).map(|(name, known)| Some((name, known.found.clone()?))).collect();
        let Some(found) = found else { return trouble };
        let newest = match Configuration::of(&self.identity, &found) {
            Ok(Some(newest)) => newest,
            // The namespaces are empty, which they were not.
            Ok(None) => return trouble.or_else(|| Some(Arc::new(memory.saved.as_ref()?.missing()))),
            Err(error) => return Some(Arc::new(error)),
        };
        if let Some(behind) = memory.saved.as_ref().and_then(|saved| newest.behind(saved)) {
            return trouble.or_else(|| Some(Arc::new(behind)));
        }
        if memory.sealed.as_ref() == Some(&newest) {
            self.confirm();
            return trouble;
        }
        if let Some((refused, error)) = &memory.refused
            && *refused == newest
        {
            return Some(Arc::clone(error));
        }
        match self.apply(&newest, false).await {
            Ok(()) => {
                self.save(&newest).await;
                memory.sealed = Some(newest);
                trouble
            }
            Err(error) => {
                let error = Arc::new(error);
                tracing::warn!(%error, "a configuration was refused; the last good one stays");
                memory.refused = Some((newest, Arc::clone(&error)));
                Some(error)
            }
        }
    }

    /// Puts a configuration in force.
    async fn apply(&self, sealed: &Configuration, from_file: bool) -> Result<()> {
        let effective = sealed.opened(self.keyring.as_ref())?;
        // A check may block, and one that panics refuses: it must not end the task that would take the next release.
        let build = Arc::clone(&self.build);
        let built = move || build(&effective).map(|value| (effective, value));
        let (effective, value) =
            self.layers.top().coord().runtime().run_blocking(built).await.map_err(|_| {
                Error::new(ErrorKind::Unexpected, "the program's check of a configuration panicked")
            })??;
        let layers = effective.layers().to_vec();
        let applied = Arc::new(Applied { effective: Arc::new(effective), value });
        let mut before = Vec::new();
        self.shared.update(|state| {
            let file_error = state.status.file_error.take();
            let since = Some(WallTime::now());
            let status = Status { layers, since, from_file, error: None, file_error, closed: false };
            before = mem::replace(&mut state.status, status).layers;
            state.applied = Some(applied);
            true
        });
        let reporter = self.layers.top().coord().reporter();
        // A layer that runs on as before is no news.
        for Running { namespace, generation, .. } in
            sealed.layers().iter().filter(|now| !before.contains(now))
        {
            let Some(generation) = generation.map(Generation::get) else { continue };
            reporter.tell(|| Event::Configured { namespace: namespace.clone(), generation });
        }
        Ok(())
    }

    /// The store has what the file had.
    fn confirm(&self) {
        self.shared.update(|state| mem::take(&mut state.status.from_file));
    }

    /// Starts with the last good configuration of an earlier life, if there is one.
    async fn fall_back(&self, memory: &mut Memory) {
        let Some(saved) = memory.saved.clone() else { return };
        if memory.refused.as_ref().is_some_and(|(refused, _)| *refused == saved) {
            return;
        }
        match self.apply(&saved, true).await {
            Ok(()) => memory.sealed = Some(saved),
            Err(error) => {
                self.file_trouble(error);
                memory.saved = None;
            }
        }
    }

    async fn load(&self) -> Option<Configuration> {
        let loaded = match &self.file {
            Some(file) => file.load::<Configuration>().await,
            None => return None,
        };
        match loaded {
            Ok(Some(saved)) if saved.is_of(self.layers.names()) => Some(saved),
            Ok(None) => None,
            Ok(Some(_)) => {
                self.file_trouble(Error::new(ErrorKind::Malformed, "the snapshot is of other namespaces"));
                None
            }
            Err(error) => {
                self.file_trouble(error);
                None
            }
        }
    }

    async fn save(&self, sealed: &Configuration) {
        let Some(file) = &self.file else { return };
        match file.save(sealed).await {
            Ok(()) => self.shared.update(|state| state.status.file_error.take().is_some()),
            Err(error) => self.file_trouble(error),
        }
    }

    /// The file is a help, not a need: what is wrong with it is told, and no more.
    fn file_trouble(&self, error: Error) {
        tracing::warn!(%error, "the snapshot of a configuration is of no use");
        self.shared.update(|state| {
            state.status.file_error = Some(Arc::new(error));
            true
        });
    }

    /// Shows and reports what is wrong, or that nothing is.
    fn tell(&self, trouble: Option<Arc<Error>>) {
        self.shared.update(|state| {
            let news = !same(state.status.error.as_ref(), trouble.as_ref());
            state.status.error = trouble;
            news
        });
        if let Some(reporter) = &self.shared.reporter {
            reporter.tell(&self.shared.state.borrow().status);
        }
    }
}

/// Whether two say the same.
fn same(one: Option<&Arc<Error>>, other: Option<&Arc<Error>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.to_string() == other.to_string(),
        _ => false,
    }
}

impl Status {
    pub(super) fn nothing(layers: &Layers) -> Self {
        Self {
            layers: layers.names().map(Running::nothing).collect(),
            since: None,
            from_file: false,
            error: None,
            file_error: None,
            closed: false,
        }
    }
}
