//! Those who run what was published.

mod configuration;
mod engine;
mod options;
mod report;
mod snapshot_file;
mod source;
mod typed;

use std::sync::Arc;

use coord_api::{Error, ErrorKind, Result, kit::Runtime};
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::{oneshot, watch};

use crate::{Layers, WallTime};
use engine::{Applied, Build, Engine, Shared, State};
use source::Source;

pub use configuration::{Configuration, Running};
pub use options::ConsumerOptions;
pub use report::{InstanceReport, Instances};
pub use typed::Typed;

/// Each configuration as it is put in force, beginning with the one that is.
pub type Changes<T> = BoxStream<'static, Arc<T>>;

/// How a consumer does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// What runs of each namespace, the lowest layer first.
    pub layers: Vec<Running>,
    /// Since when; `None` if nothing is in force yet.
    pub since: Option<WallTime>,
    /// What runs was read from the snapshot file, and the store has not confirmed it yet.
    pub from_file: bool,
    /// Why the newest there is was refused; the last good configuration stays in force. `None` if all is well.
    pub error: Option<Arc<Error>>,
    /// Why the snapshot file is of no use; the consumer does without.
    pub file_error: Option<Arc<Error>>,
    /// The store's handle was closed: nothing comes any more.
    pub closed: bool,
}

/// Follows a namespace, or several laid over one another, for one instance: always the newest configuration that is
/// good.
///
/// A configuration is applied whole or not at all, and only if the bytes of its release are those that were published.
/// Generations never go back, over lost connections, lagging servers and restarts with a
/// [snapshot file](ConsumerOptions::with_snapshot). What cannot be read, opened or [accepted](ConsumerOptions::with_check)
/// is refused: the last good configuration stays, and [`Consumer::status`] and the report say why. Each generation that
/// is applied is told once; who looks seldom sees the last of several.
///
/// All consumers of a process, handle and namespace share one watch of the store and one read of each release. A watch
/// that is dead without a word holds a release up for a few seconds: the head is read that often anyway.
///
/// Clones are the same consumer; it ends when the last of them, and of its streams, is dropped.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_config_centre::{ConfigCentre, Consumer, ConsumerOptions, Content, Edit, Identity};
/// use futures::StreamExt;
///
/// let billing = ConfigCentre::new(&store, "/config")?.namespace("billing")?;
/// billing.publish(Content::items([("rate", "100")]), &Edit::by("alice")).await?.done()?;
///
/// let consumer = Consumer::open(&billing, ConsumerOptions::new(Identity::new("billing-7")))?;
/// let now = consumer.ready().await?;
/// assert_eq!(now.item("rate"), Some("100"));
///
/// let mut changes = consumer.changes();
/// assert_eq!(changes.next().await.expect("the present one"), now);
/// billing.publish(Content::items([("rate", "200")]), &Edit::by("alice")).await?.done()?;
/// assert_eq!(changes.next().await.expect("the next one").item("rate"), Some("200"));
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Consumer(Arc<Handle<()>>);

/// What keeps a consumer's task.
#[derive(Debug)]
struct Handle<V> {
    shared: Arc<Shared<V>>,
    /// Dropped with the last handle, which ends the task.
    _alive: oneshot::Sender<()>,
}

impl<V: Send + Sync + 'static> Handle<V> {
    fn open(layers: Layers, options: ConsumerOptions, build: Build<V>) -> Result<Arc<Self>> {
        let ConsumerOptions { identity, keyring, file, patience, keeper, check } = options;
        if identity.id.is_empty() {
            return Err(Error::invalid("an instance needs an id"));
        }
        let reporter =
            keeper.map(|keeper| report::Reporter::open(&keeper, &identity, &layers)).transpose()?;
        let shared = Arc::new(Shared::new(Status::nothing(&layers), reporter));
        let sources = layers.iter().map(Source::open).collect();
        let runtime = layers.top().coord().runtime();
        let build: Build<V> = match check {
            Some(check) => Arc::new(move |effective| check(effective).and_then(|()| build(effective))),
            None => build,
        };
        let engine = Engine {
            identity,
            sources,
            keyring,
            file: file.map(snapshot_file::SnapshotFile::new),
            patience,
            build,
            shared: Arc::clone(&shared),
            layers,
        };
        Ok(Self::start(engine, shared, &runtime))
    }

    fn start(engine: Engine<V>, shared: Arc<Shared<V>>, runtime: &Runtime) -> Arc<Self> {
        let (alive, ended) = oneshot::channel();
        runtime.spawn(async move {
            tokio::select! {
                biased;
                // An error: nobody sends, the last one just goes.
                _ = ended => {}
                () = engine.run() => {}
            }
        });
        Arc::new(Self { shared, _alive: alive })
    }

    /// Waits for the first configuration.
    async fn ready(&self) -> Result<Arc<Applied<V>>> {
        let mut states = self.shared.state.subscribe();
        loop {
            {
                let now = states.borrow_and_update();
                match (&now.applied, &now.status) {
                    (Some(applied), _) => return Ok(Arc::clone(applied)),
                    (None, Status { error: Some(error), .. }) => return Err(again(error)),
                    (None, Status { closed: true, .. }) => return Err(closed()),
                    (None, _) => {}
                }
            }
            states.changed().await.map_err(|_| closed())?;
        }
    }

    fn current(&self) -> Option<Arc<Applied<V>>> {
        self.shared.state.borrow().applied.clone()
    }

    fn status(&self) -> Status {
        self.shared.state.borrow().status.clone()
    }

    /// Each configuration as it is applied, beginning with the one that is in force.
    fn changes<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        part: impl Fn(&Applied<V>) -> Arc<T> + Send + Sync + 'static,
    ) -> Changes<T> {
        let begin = (Arc::clone(self), self.shared.state.subscribe(), None, part);
        stream::unfold(begin, |(handle, mut states, told, part)| async move {
            let next = next(&mut states, told.as_ref()).await?;
            let part_of = part(&next);
            Some((part_of, (handle, states, Some(next), part)))
        })
        .boxed()
    }

    async fn close(&self) -> Result<()> {
        match &self.shared.reporter {
            Some(reporter) => reporter.close().await,
            None => Ok(()),
        }
    }
}

impl Consumer {
    /// Begins to follow these namespaces, in the background: one (`&namespace`), or [`Layers`].
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the identity has no id, or one that is too long for a key;
    /// [`NotHolder`](ErrorKind::NotHolder) if it is to report, and the same keeper reports for this id already.
    pub fn open(layers: impl Into<Layers>, options: ConsumerOptions) -> Result<Self> {
        Handle::open(layers.into(), options, Arc::new(|_| Ok(()))).map(Self)
    }

    /// The configuration in force; waits for the first one, however long.
    ///
    /// Where the store does not answer, the snapshot file does after a while, if there is one.
    ///
    /// # Errors
    /// Why the newest configuration was refused, if there is no other: what the check said;
    /// [`Malformed`](ErrorKind::Malformed) with the key or the item; [`PermissionDenied`](ErrorKind::PermissionDenied)
    /// for values that the keyring does not open. The consumer goes on: call again, and the next good one is given.
    /// [`Closed`](ErrorKind::Closed) if the store's handle was closed.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn ready(&self) -> Result<Arc<Configuration>> {
        Ok(Arc::clone(&self.0.ready().await?.effective))
    }

    /// The configuration in force; `None` before the first. Asks nobody.
    #[must_use]
    pub fn effective(&self) -> Option<Arc<Configuration>> {
        self.0.current().map(|applied| Arc::clone(&applied.effective))
    }

    /// Each configuration as it is put in force, beginning with the one that is: nothing is lost between reading and
    /// following. Ends when the store's handle is closed.
    #[must_use]
    pub fn changes(&self) -> Changes<Configuration> {
        self.0.changes(|applied| Arc::clone(&applied.effective))
    }

    /// How it does.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// The status and its changes, for `tokio::select!` and the like. What a status tells of is in force when it is told.
    #[must_use]
    pub fn statuses(&self) -> watch::Receiver<Status> {
        self.0.shared.statuses.subscribe()
    }

    /// Takes the report back at once. Without it, or where the consumer does not report, dropping it is enough.
    ///
    /// # Errors
    /// As [`PersistentEphemeral::close`](coord_recipes::PersistentEphemeral::close).
    ///
    /// # Cancel safety
    /// Safe: closing goes on in the background once it was polled.
    pub async fn close(&self) -> Result<()> {
        self.0.close().await
    }
}

/// What is in force once it is something else than `told`; `None` once the store's handle was closed.
async fn next<V: Send + Sync>(
    states: &mut watch::Receiver<State<V>>,
    told: Option<&Arc<Applied<V>>>,
) -> Option<Arc<Applied<V>>> {
    loop {
        {
            let now = states.borrow_and_update();
            let new = now.applied.as_ref().filter(|now| told.is_none_or(|told| !Arc::ptr_eq(now, told)));
            if new.is_some() || now.status.closed {
                return new.cloned();
            }
        }
        // The sender lives as long as the consumer.
        states.changed().await.ok()?;
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store's handle was closed")
}

/// An error once more: it is told to everybody who asks.
fn again(error: &Error) -> Error {
    let mut again = Error::new(error.kind(), error.message().to_owned())
        .with_retry(error.retry())
        .with_operation(error.operation());
    for (name, value) in error.context() {
        again = again.with_context(name, value);
    }
    match std::error::Error::source(error) {
        Some(source) => again.with_source(source.to_string()),
        None => again,
    }
}
