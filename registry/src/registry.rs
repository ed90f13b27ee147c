//! The registry: services below one directory of a store.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use coord_api::{
    Check, Coord, Dir, Entry, Error, ErrorKind, Freshness, IntoDir, Key, Result, Txn, WatchEvent,
};
use coord_recipes::{PersistentEphemeral, SessionKeeper};
use futures::{StreamExt, future::join_all};
use tokio::time::Instant;

use crate::{
    Discovery, DiscoveryOptions, Instance, Kind, Layout, NativeLayout, Registration, discovery::View,
    permanent,
};

/// Services and their instances, below one directory of a store.
///
/// Cheap to clone. The layout says how it looks in the store; without a word it is the [native](NativeLayout) one.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_api::SessionOptions;
/// use coord_recipes::SessionKeeper;
/// use coord_registry::{Instance, Registry};
///
/// let registry = Registry::new(&store, "/services")?;
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let me = registry.register(&keeper, Instance::new("billing", "b1", "10.0.0.7", 8080)).await?;
///
/// let billing = registry.discover("billing")?;
/// billing.ready().await?;
/// assert_eq!(billing.instances()[0].address(), "10.0.0.7");
/// assert_eq!(registry.services().await?, ["billing"]);
/// me.close().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Registry {
    coord: Coord,
    root: Dir,
    layout: Arc<dyn Layout>,
}

/// What a read of a service found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// The instances, by key.
    pub instances: Arc<[Instance]>,
    /// Why other entries were skipped: [`Malformed`](ErrorKind::Malformed), with the key.
    pub problems: Vec<Arc<Error>>,
}

impl Registry {
    /// The registry below `root`. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if `root` is no directory, or the root of the store.
    pub fn new(coord: &Coord, root: impl IntoDir) -> Result<Self> {
        let root = root.into_dir()?;
        if root.is_root() {
            return Err(Error::invalid("a registry needs a directory of its own, not the root"));
        }
        Ok(Self { coord: coord.clone(), root, layout: Arc::new(NativeLayout) })
    }

    /// The same registry in another layout.
    #[must_use]
    pub fn with_layout(mut self, layout: impl Layout) -> Self {
        self.layout = Arc::new(layout);
        self
    }

    /// The directory of all services.
    #[must_use]
    pub const fn root(&self) -> &Dir {
        &self.root
    }

    /// The layout.
    #[must_use]
    pub fn layout(&self) -> &dyn Layout {
        &*self.layout
    }

    /// The store's handle.
    #[must_use]
    pub const fn coord(&self) -> &Coord {
        &self.coord
    }

    /// Registers an instance; returns once the store has it, however long that takes.
    ///
    /// An ephemeral instance lives as long as the [`Registration`] and its process, over as many sessions of `keeper` as
    /// it takes. A permanent one is written once: if it is there and says the same, nothing is written. Registering
    /// costs two round trips, on ZooKeeper four requests.
    ///
    /// # Errors
    /// Those of [`Instance::validate`]; [`NotHolder`](ErrorKind::NotHolder) with the key if somebody else has the id: also
    /// what this process was before a crash, until the ttl of that session has passed
    /// ([`Registry::register_timeout`] waits for it); for a permanent instance, one that says something else. What else
    /// the store refuses for good.
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves an ephemeral instance out, in the background. A permanent one may be there.
    pub async fn register(&self, keeper: &SessionKeeper, instance: Instance) -> Result<Registration> {
        self.prepare(&instance).await?;
        match instance.kind() {
            Kind::Ephemeral => {
                let registration = self.register_in_background(keeper, instance)?;
                registration.settled().await.map(|()| registration)
            }
            Kind::Permanent => {
                let (key, value) = self.write(&instance)?;
                permanent::register(self, &key, value, &instance).await?;
                Ok(Registration::permanent(self.clone(), key, instance))
            }
        }
    }

    /// The same, but waits up to `timeout` for the id to be free: for a process that comes back after a crash, before the
    /// session that it had is over. A little more than the ttl is enough.
    ///
    /// # Errors
    /// As [`Registry::register`], and [`Timeout`](ErrorKind::Timeout) if the store did not answer in time.
    ///
    /// # Cancel safety
    /// As [`Registry::register`].
    pub async fn register_timeout(
        &self,
        keeper: &SessionKeeper,
        instance: Instance,
        timeout: Duration,
    ) -> Result<Registration> {
        if instance.kind() == Kind::Permanent {
            let key = self.key(&instance)?;
            let registered = tokio::time::timeout(timeout, Box::pin(self.register(keeper, instance))).await;
            return registered
                .unwrap_or_else(|_| Err(too_late(&key).with_retry(coord_api::Retry::Ambiguous)));
        }
        let began = Instant::now();
        match tokio::time::timeout(timeout, self.prepare(&instance)).await {
            Ok(prepared) => prepared?,
            Err(_) => return Err(too_late(&self.key(&instance)?)),
        }
        let registration = self.register_in_background(keeper, instance)?;
        let left = timeout.saturating_sub(began.elapsed());
        match tokio::time::timeout(left, registration.registered()).await {
            Ok(registered) => registered.map(|()| registration),
            Err(_) => Err(registration.give_up().await),
        }
    }

    /// Begins to register an ephemeral instance, and returns at once: for a process that must start while the store is
    /// away. [`Registration::registered`] tells when it is there; an id that somebody else has is waited for.
    ///
    /// # Errors
    /// Those of [`Instance::validate`]; [`InvalidArgument`](ErrorKind::InvalidArgument) for a permanent instance;
    /// [`NotHolder`](ErrorKind::NotHolder) if a registration of this process has the key. Keys that are
    /// [in the way](Layout::littered) are not emptied here: the registration ends with what the store says to them.
    pub fn register_in_background(&self, keeper: &SessionKeeper, instance: Instance) -> Result<Registration> {
        if instance.kind() == Kind::Permanent {
            return Err(Error::invalid("only ephemeral instances are registered in the background")
                .with_context("service", instance.name())
                .with_context("id", instance.id()));
        }
        let (key, value) = self.write(&instance)?;
        let entry = PersistentEphemeral::new(keeper, key, value)?;
        Ok(Registration::ephemeral(self.clone(), keeper.clone(), entry, instance))
    }

    /// Registers many instances at the same time; the results stand in the order of the instances.
    ///
    /// All requests are on their way together, so that a thousand take about as long as the store needs to write them.
    ///
    /// # Errors
    /// Each as [`Registry::register`]; one that fails leaves the others.
    ///
    /// # Cancel safety
    /// As [`Registry::register`].
    pub async fn register_all(
        &self,
        keeper: &SessionKeeper,
        instances: impl IntoIterator<Item = Instance>,
    ) -> Vec<Result<Registration>> {
        join_all(instances.into_iter().map(|instance| self.register(keeper, instance))).await
    }

    /// Removes a permanent instance; `false` if there is none.
    ///
    /// # Errors
    /// [`NotHolder`](ErrorKind::NotHolder) with the key if the instance is an ephemeral one, which only its process ends;
    /// what the store refuses.
    ///
    /// # Cancel safety
    /// Safe: it may have been removed.
    pub async fn unregister(&self, service: &str, id: &str) -> Result<bool> {
        let mut removed = false;
        for entry in self.entries(service).await? {
            let decoded = self.layout.decode(&self.root, service, &entry);
            let Ok(Some(instance)) = decoded else { continue };
            if instance.id() != id {
                continue;
            }
            if entry.meta.owner.is_some() {
                return Err(not_holder(&entry.key, "an ephemeral instance is removed by its process only")
                    .with_operation("unregister"));
            }
            let as_seen = Txn::new().check(Check::Version(entry.key.clone(), entry.meta.version));
            // Refused: somebody changed or removed it since.
            removed |= self.coord.commit(as_seen.delete(entry.key)).await?.is_committed();
        }
        Ok(removed)
    }

    /// The instances of a service now. Asks the store, or the copy of the service if somebody here discovers it.
    ///
    /// # Errors
    /// As [`Coord::watch`]; entries that are no instances are no error, but told in [`Found::problems`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn instances(&self, service: &str) -> Result<Found> {
        let mut view = View::new(self, service, None);
        view.load(self.entries(service).await?);
        Ok(Found { instances: view.list(), problems: view.problems() })
    }

    /// The names of the services, in order. One round trip. A service without instances may still be among them.
    ///
    /// # Errors
    /// As [`Coord::list`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn services(&self) -> Result<Vec<String>> {
        let children = self.coord.list(&self.root).await?.children;
        let mut names: Vec<_> =
            children.iter().filter_map(|child| self.layout.service(child.key.name())).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// A live view of a service. Returns at once; [`Discovery::ready`] waits for the first list.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the layout has no place for a service of this name.
    pub fn discover(&self, service: &str) -> Result<Discovery> {
        self.discover_with(service, DiscoveryOptions::default())
    }

    /// The same, with options.
    ///
    /// # Errors
    /// As [`Registry::discover`].
    pub fn discover_with(&self, service: &str, options: DiscoveryOptions) -> Result<Discovery> {
        Discovery::open(self, service, options)
    }

    pub(crate) fn shared_layout(&self) -> Arc<dyn Layout> {
        Arc::clone(&self.layout)
    }

    /// The same store, asked for what is true now.
    pub(crate) fn latest(&self) -> Coord {
        self.coord.clone().with_freshness(Freshness::Latest)
    }

    /// Makes sure that the instance can be written where its layout says.
    async fn prepare(&self, instance: &Instance) -> Result<()> {
        instance.validate()?;
        for key in self.layout.littered(&self.root, instance.name())? {
            permanent::clear(self, &key).await?;
        }
        Ok(())
    }

    /// What is to be written for an instance, if it is a good one.
    pub(crate) fn write(&self, instance: &Instance) -> Result<(Key, Bytes)> {
        instance.validate()?;
        Ok((self.key(instance)?, self.layout.encode(instance)?))
    }

    fn key(&self, instance: &Instance) -> Result<Key> {
        self.layout.key(&self.root, instance)
    }

    async fn entries(&self, service: &str) -> Result<Vec<Entry>> {
        let dir = self.layout.directory(&self.root, service)?;
        match self.coord.watch(&dir).await?.next().await {
            Some(Ok(WatchEvent::Snapshot { entries, .. })) => Ok(entries),
            Some(Err(error)) => Err(error),
            _ => Err(Error::new(ErrorKind::Unexpected, "a watch did not begin with a snapshot")
                .with_context("dir", &dir)),
        }
    }
}

pub(crate) fn not_holder(key: &Key, message: &'static str) -> Error {
    Error::new(ErrorKind::NotHolder, message).with_context("key", key)
}

pub(crate) fn too_late(key: &Key) -> Error {
    Error::new(ErrorKind::Timeout, "the store did not take the instance in time")
        .with_operation("register")
        .with_context("key", key)
}
