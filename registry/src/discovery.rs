//! A live view of a service.

mod event;
mod feed;
mod file;
mod rules;
mod view;

use std::{path::PathBuf, sync::Arc, time::Duration};

use coord_api::{Error, ErrorKind, Result};
use coord_recipes::Cache;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::{broadcast, oneshot, watch};

use crate::Registry;
use feed::Shared;
use file::ListFile;

pub use event::{DiscoveryEvent, DiscoveryState, Snapshot};
pub(crate) use view::View;

/// How a service is discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryOptions {
    pub(crate) protect_empty: Option<Duration>,
    pub(crate) file: Option<PathBuf>,
}

impl DiscoveryOptions {
    /// When the last instance goes, shows those that went in the ten seconds before for up to `bound`: all of a service
    /// seldom goes at once, and a store that lost its sessions makes it look so. Those that drained first are not
    /// shown. Without this an empty service is shown empty.
    #[must_use]
    pub const fn protect_empty(mut self, bound: Duration) -> Self {
        self.protect_empty = Some(bound);
        self
    }

    /// Keeps the last list that was not empty in this file, and begins with it while the store does not answer. Each
    /// view needs a file of its own.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }
}

/// A live view of the instances of a service.
///
/// Reading costs no round trip. While the store is away it shows its last list, and [says so](Snapshot::state). Entries
/// that are no instances are skipped, and [told](Discovery::problems). All views of one service and handle, and all else
/// in the process that watches its directory by a [`Cache`], share one watch of the store; clones share the decoded list,
/// too. It ends when the last clone and the last [`Changes`] is dropped.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_api::SessionOptions;
/// use coord_recipes::SessionKeeper;
/// use coord_registry::{DiscoveryEvent, Instance, Registry};
///
/// let registry = Registry::new(&store, "/services")?;
/// let billing = registry.discover("billing")?;
/// billing.ready().await?;
/// let mut changes = billing.changes();
/// assert!(matches!(changes.next().await, Some(DiscoveryEvent::Initial(none)) if none.is_empty()));
///
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let me = registry.register(&keeper, Instance::new("billing", "b1", "10.0.0.7", 8080)).await?;
/// assert!(matches!(changes.next().await, Some(DiscoveryEvent::Added(b1)) if b1.id() == "b1"));
/// println!("{} of them, {:?}", billing.instances().len(), billing.state());
/// me.close().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Discovery(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    service: String,
    shared: Arc<Shared>,
    /// Dropped with the last handle, which ends the task.
    _alive: oneshot::Sender<()>,
}

impl Discovery {
    pub(crate) fn open(registry: &Registry, service: &str, options: DiscoveryOptions) -> Result<Self> {
        let dir = registry.layout().directory(registry.root(), service)?;
        let cache = Cache::tree(registry.coord(), dir)?;
        let shared = Arc::new(Shared::new(registry, service, &options));
        let (alive, ended) = oneshot::channel::<()>();
        let runtime = registry.coord().runtime();
        let file =
            options.file.map(|path| ListFile { path, service: service.to_owned(), runtime: runtime.clone() });
        let following = Arc::clone(&shared).run(cache, file);
        runtime.spawn(async move {
            tokio::select! {
                biased;
                // An error: nobody sends, the last one just goes.
                _ = ended => {}
                () = following => {}
            }
        });
        Ok(Self(Arc::new(Inner { service: service.to_owned(), shared, _alive: alive })))
    }

    /// The name of the service.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.0.service
    }

    /// Waits for the first list, however long: the store's, or that of the file if the store does not answer within a
    /// second. Before it the view shows nothing.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) if the store's handle was closed.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed. For a time-out wrap it in `tokio::time::timeout`.
    pub async fn ready(&self) -> Result<()> {
        let mut states = self.states();
        match states.wait_for(|state| *state != DiscoveryState::Loading).await {
            Ok(state) if *state != DiscoveryState::Closed => Ok(()),
            _ => Err(closed(&self.0.service)),
        }
    }

    /// The instances now. Asks nobody; the list is made once for all who ask between two changes.
    #[must_use]
    pub fn instances(&self) -> Snapshot {
        self.0.shared.snapshot()
    }

    /// Waits until `done` accepts what the view shows, and returns that. Looks again after every change.
    ///
    /// # Errors
    /// As [`Discovery::ready`].
    ///
    /// # Cancel safety
    /// As [`Discovery::ready`].
    pub async fn wait_until(&self, done: impl Fn(&Snapshot) -> bool + Send) -> Result<Snapshot> {
        self.ready().await?;
        let mut changes = self.0.shared.listen();
        let mut states = self.states();
        loop {
            let snapshot = self.instances();
            if done(&snapshot) {
                return Ok(snapshot);
            }
            if snapshot.state() == DiscoveryState::Closed {
                return Err(closed(&self.0.service));
            }
            tokio::select! {
                biased;
                // Whether it was told or lagged behind: look again.
                _ = changes.recv() => {}
                _ = states.changed() => {}
            }
        }
    }

    /// What happens from now on, beginning with everything there is.
    pub fn changes(&self) -> Changes {
        Changes { discovery: self.clone(), events: None }
    }

    /// How far the view can be believed now.
    #[must_use]
    pub fn state(&self) -> DiscoveryState {
        *self.0.shared.states().borrow()
    }

    /// The state and its changes, for `tokio::select!` and the like.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<DiscoveryState> {
        self.0.shared.states()
    }

    /// Why entries of the service are not shown as they are: [`Malformed`](ErrorKind::Malformed) with the key, and what was
    /// wrong with the file. Empty when all is well.
    #[must_use]
    pub fn problems(&self) -> Vec<Arc<Error>> {
        self.0.shared.problems()
    }
}

fn closed(service: &str) -> Error {
    Error::new(ErrorKind::Closed, "the store's handle was closed").with_context("service", service)
}

/// What happens to a service, one event after the other.
///
/// Begins with [`DiscoveryEvent::Initial`], once there is a list. Whoever reads slowly is told everything again in one
/// [`DiscoveryEvent::Resync`]. Keeps the view.
#[derive(Debug)]
#[must_use = "changes are told to whoever reads them"]
pub struct Changes {
    discovery: Discovery,
    /// What comes after the list that was told; `None` before the first.
    events: Option<broadcast::Receiver<DiscoveryEvent>>,
}

impl Changes {
    /// The next event; `None` once the store's handle was closed.
    ///
    /// # Cancel safety
    /// Safe: an event is taken only when it is returned.
    pub async fn next(&mut self) -> Option<DiscoveryEvent> {
        let Some(events) = &mut self.events else {
            self.discovery.ready().await.ok()?;
            let (list, events) = self.discovery.0.shared.list_and_listen();
            self.events = Some(events);
            return Some(DiscoveryEvent::Initial(list));
        };
        let mut states = self.discovery.0.shared.states();
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Ok(event) => Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    let (list, rest) = self.discovery.0.shared.list_and_listen();
                    *events = rest;
                    Some(DiscoveryEvent::Resync(list))
                }
                Err(broadcast::error::RecvError::Closed) => None,
            },
            _ = states.wait_for(|state| *state == DiscoveryState::Closed) => None,
        }
    }

    /// The same as a stream.
    #[must_use]
    pub fn into_stream(self) -> BoxStream<'static, DiscoveryEvent> {
        stream::unfold(self, |mut changes| async move {
            let event = changes.next().await?;
            Some((event, changes))
        })
        .boxed()
    }
}
