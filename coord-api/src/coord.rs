//! The handle that applications hold.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;

use crate::{
    Backend, BackendInfo, Check, Entry, FencingToken, Freshness, IntoDir, IntoKey, Layer, Lifetime, Listing,
    Op, OpContext, Ordered, OrderedCreate, Result, Revision, Seen, Session, SessionOptions, Start, Txn,
    TxnOutcome, Version, WatchStream, Written,
    events::{Events, Observer, Reporter, Watched},
    kit::Runtime,
};

/// A store, opened: cheap to clone, the same on every backend.
///
/// Every method is cancel-safe: dropping the future stops the waiting, and a write that was sent may have been
/// applied. Errors say what failed and whether it may have been applied ([`Error::outcome`](crate::Error::outcome)).
/// Keys and directories are given as text or as [`Key`](crate::Key) and [`Dir`](crate::Dir); text outside the grammar
/// is [`InvalidArgument`](crate::ErrorKind::InvalidArgument) before anything is sent.
///
/// ```
/// # use coord_backend_memory::doc_example;
/// # doc_example(async |store: coord_api::Coord| {
/// store.put("/config/rate", "100").await?;
/// let entry = store.get("/config/rate").await?.expect("it was just written");
/// assert_eq!(entry.value, "100");
///
/// // Somebody else was faster? Then `None`, and nothing changed.
/// let mine = store.compare_and_set("/config/rate", entry.meta.version, "200").await?;
/// assert!(mine.is_some());
/// # Ok(())
/// # });
/// ```
#[derive(Clone)]
pub struct Coord {
    backend: Arc<dyn Backend>,
    ctx: OpContext,
    fence_epoch: u32,
    /// Whether the warning about weak exclusion was given.
    warned: Arc<AtomicBool>,
    reporter: Reporter,
}

impl Coord {
    /// A handle on a backend. Most callers use `coord::connect`, which adds the usual layers.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            ctx: OpContext::default(),
            fence_epoch: 0,
            warned: Arc::default(),
            reporter: Reporter::default(),
        }
    }

    /// The same store behind one more layer, outside of all others. The original is unchanged.
    #[must_use]
    pub fn layer(self, layer: &impl Layer) -> Self {
        Self { backend: layer.apply(self.backend), ..self }
    }

    /// The same store with another fence epoch, the high part of every [`FencingToken`].
    #[must_use]
    pub const fn with_fence_epoch(mut self, epoch: u32) -> Self {
        self.fence_epoch = epoch;
        self
    }

    /// The same store with reads of another freshness.
    #[must_use]
    pub const fn with_freshness(mut self, freshness: Freshness) -> Self {
        self.ctx.freshness = freshness;
        self
    }

    /// The backend with its layers, for recipes and tools.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The context of this handle's calls.
    #[must_use]
    pub const fn context(&self) -> &OpContext {
        &self.ctx
    }

    /// Where work runs that must outlive its caller.
    #[must_use]
    pub fn runtime(&self) -> Runtime {
        self.backend.runtime()
    }

    /// The backend's name, limits and guarantees.
    #[must_use]
    pub fn info(&self) -> BackendInfo {
        self.backend.info()
    }

    /// The fencing token of a grant at `revision`.
    #[must_use]
    pub const fn fencing_token(&self, revision: Revision) -> FencingToken {
        FencingToken::new(self.fence_epoch, revision)
    }

    /// Warns in the log, once a handle, if the store can lose acknowledged writes (promise G13).
    ///
    /// For recipes that exclude: two may believe that they hold, and only fencing tokens tell them apart.
    pub fn warn_if_exclusion_is_weak(&self) {
        if self.warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let info = self.info();
        if info.guarantees.can_lose_acknowledged_writes {
            tracing::warn!(
                store = info.name,
                "this store can lose writes it acknowledged: after a failover or restart two clients may hold one lock; \
                 let the protected resource compare fencing tokens"
            );
        }
    }

    /// What happens from now on to the connection, the sessions and the holds of this handle and its clones.
    ///
    /// For applications that must stop working, log or show a lamp. The receiver may be slow: it keeps
    /// [`EVENTS_KEPT`](crate::events::EVENTS_KEPT) events and is told when older ones were dropped. Listening asks the
    /// store nothing, and while nobody listens nothing is done for it.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store: coord_api::Coord| {
    /// # use std::time::Duration;
    /// use coord_api::events::Event;
    ///
    /// let mut events = store.events();
    /// let session = store.session(Duration::from_secs(10)).await?;
    /// session.close().await?;
    /// assert!(matches!(events.next().await, Some(Event::SessionOpened { .. })));
    /// assert!(matches!(events.next().await, Some(Event::SessionClosed { .. })));
    /// # Ok(())
    /// # });
    /// ```
    #[must_use]
    pub fn events(&self) -> Events {
        self.reporter.listen(&self.runtime())
    }

    /// Calls `observer` with every event from now on, for as long as the handle or a clone exists. For layers that
    /// count; applications take [`Coord::events`].
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.reporter.observe(observer, &self.runtime());
    }

    /// Where recipes tell what happens to them.
    #[must_use]
    pub const fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// Reads one key; `None` if it is absent.
    ///
    /// # Errors
    /// The store's: unavailable, time-out, permission.
    pub async fn get(&self, key: impl IntoKey) -> Result<Option<Entry>> {
        self.reporter.heard(self.backend.get(&self.ctx, &key.into_key()?).await)
    }

    /// Lists the names in a directory; empty if it is absent.
    ///
    /// # Errors
    /// As [`Coord::get`].
    pub async fn list(&self, dir: impl IntoDir) -> Result<Listing> {
        self.reporter.heard(self.backend.list(&self.ctx, &dir.into_dir()?).await)
    }

    /// Applies a transaction: all of it, or nothing.
    ///
    /// # Errors
    /// As [`Coord::get`], [`LimitExceeded`](crate::ErrorKind::LimitExceeded) before anything is sent, and ambiguous
    /// if the reply was lost.
    pub async fn commit(&self, txn: Txn) -> Result<TxnOutcome> {
        self.reporter.heard(self.backend.commit(&self.ctx, txn).await)
    }

    /// Joins the line of a directory, once per nonce: see
    /// [`Backend::create_ordered`](crate::Backend::create_ordered). For recipes.
    ///
    /// # Errors
    /// As [`Coord::commit`]; after an ambiguous one it may be sent again with the same nonce.
    pub async fn create_ordered(&self, request: OrderedCreate) -> Result<Ordered> {
        self.reporter.heard(self.backend.create_ordered(&self.ctx, request).await)
    }

    /// Writes a key, whatever was there. Creates a persistent key if it was absent, and keeps the owner if not.
    ///
    /// # Errors
    /// As [`Coord::commit`].
    pub async fn put(&self, key: impl IntoKey, value: impl Into<Bytes>) -> Result<Written> {
        let key = key.into_key()?;
        match self.write(Txn::new().op(Op::Put { key: key.clone(), value: value.into() })).await? {
            Some(written) => Ok(written),
            // Only a store that breaks the contract refuses an unconditional write.
            None => {
                Err(crate::Error::new(crate::ErrorKind::Unexpected, "an unconditional write was refused")
                    .with_context("key", key))
            }
        }
    }

    /// Creates a key; `None` if it is there already.
    ///
    /// # Errors
    /// As [`Coord::commit`].
    pub async fn create(
        &self,
        key: impl IntoKey,
        value: impl Into<Bytes>,
        lifetime: Lifetime,
    ) -> Result<Option<Written>> {
        self.write(Txn::new().create(key.into_key()?, value, lifetime)).await
    }

    /// Changes a key if it is still in `version`; `None` if it is not.
    ///
    /// # Errors
    /// As [`Coord::commit`].
    pub async fn compare_and_set(
        &self,
        key: impl IntoKey,
        version: Version,
        value: impl Into<Bytes>,
    ) -> Result<Option<Written>> {
        let key = key.into_key()?;
        self.write(Txn::new().check_version(key.clone(), version).update(key, value)).await
    }

    /// Deletes a key; `false` if it was absent.
    ///
    /// # Errors
    /// As [`Coord::commit`].
    pub async fn delete(&self, key: impl IntoKey) -> Result<bool> {
        Ok(self.commit(Txn::new().delete(key.into_key()?)).await?.is_committed())
    }

    /// Deletes a key if it is still in `version`; `false` if it is not.
    ///
    /// # Errors
    /// As [`Coord::commit`].
    pub async fn delete_version(&self, key: impl IntoKey, version: Version) -> Result<bool> {
        let key = key.into_key()?;
        Ok(self
            .commit(Txn::new().check(Check::Version(key.clone(), version)).delete(key))
            .await?
            .is_committed())
    }

    /// Returns once `seen` is no longer true, at once if it is not true now. May return early: look again.
    ///
    /// # Errors
    /// As [`Coord::get`], but not for lost connections, which heal.
    pub async fn wait(&self, seen: &Seen) -> Result<()> {
        self.backend.wait(&self.ctx, seen).await
    }

    /// Streams a directory and everything below: a snapshot, then changes.
    ///
    /// ```
    /// # use coord_backend_memory::doc_example;
    /// # doc_example(async |store: coord_api::Coord| {
    /// # use coord_api::WatchEvent;
    /// use futures::StreamExt;
    ///
    /// let mut changes = store.watch("/config").await?;
    /// assert!(matches!(changes.next().await, Some(Ok(WatchEvent::Snapshot { .. }))));
    /// store.put("/config/rate", "100").await?;
    /// assert!(matches!(changes.next().await, Some(Ok(WatchEvent::Put(entry))) if entry.value == "100"));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// As [`Coord::get`].
    pub async fn watch(&self, dir: impl IntoDir) -> Result<WatchStream> {
        self.watch_from(dir, Start::Snapshot).await
    }

    /// Streams a directory from a given point.
    ///
    /// # Errors
    /// As [`Coord::get`].
    pub async fn watch_from(&self, dir: impl IntoDir, start: Start) -> Result<WatchStream> {
        self.backend.watch(&self.ctx, &dir.into_dir()?, start).await
    }

    /// Opens a session that the store keeps for `ttl` after its last renewal.
    ///
    /// # Errors
    /// As [`Coord::get`], and [`LimitExceeded`](crate::ErrorKind::LimitExceeded) for a ttl outside the limits.
    pub async fn session(&self, ttl: Duration) -> Result<Session> {
        self.open_session(&SessionOptions::new(ttl)).await
    }

    /// Opens a session.
    ///
    /// # Errors
    /// As [`Coord::session`].
    pub async fn open_session(&self, options: &SessionOptions) -> Result<Session> {
        let driver = self.reporter.heard(self.backend.open_session(options).await)?;
        let watched = Arc::new(Watched::new(&*driver));
        self.reporter.opened(&watched, &self.runtime());
        let ctx = OpContext { session: Some(driver.id().clone()), ..self.ctx.clone() };
        Ok(Session::new(Self { ctx, ..self.clone() }, driver, watched))
    }

    /// Ends all sessions of this store's handle, its watches, tasks and connections.
    ///
    /// Takes no longer than about two seconds, also if the store cannot be reached. A handle without a session has
    /// nothing to tell the store: closing it succeeds.
    ///
    /// # Errors
    /// Those of [`Session::close`], of the first session whose end the store did not confirm; everything local has
    /// ended also then.
    pub async fn close(&self) -> Result<()> {
        self.reporter.closing();
        let closed = self.backend.close().await;
        self.reporter.closed();
        closed
    }

    async fn write(&self, txn: Txn) -> Result<Option<Written>> {
        Ok(self.commit(txn).await?.committed().and_then(|commit| commit.first()))
    }
}

impl fmt::Debug for Coord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coord")
            .field("backend", &self.info().name)
            .field("ctx", &self.ctx)
            .field("fence_epoch", &self.fence_epoch)
            .finish()
    }
}
