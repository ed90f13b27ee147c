//! The contract, over the file.

use std::sync::Arc;

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Config, Dir, Durability, Entry, Error, ErrorKind, Guarantees, Key, Limits, Listing,
    OpContext, Ordered, OrderedCreate, Result, Seen, SessionDriver, SessionId, SessionOptions, Start, Txn,
    TxnOutcome, WatchStream,
    kit::{CLOSE_TIME, Hub, HubRef, Hubs, Runtime, Sessions},
};
use tokio::time::{Instant, timeout_at};

use crate::{
    SCHEME,
    call::{Claim, ReadJob, until},
    error::{closed, is_final},
    line, query,
    reader::{Begin, Reader},
    session::{self, InFile},
    settings::{Settings, Synchronous},
    state::ensure_known,
    store::Store,
};

/// Names of the line that come with the reply of a join; a longer line is read without the write lock.
const LINE_MAX: usize = 64;
/// The same where this process has a copy of the directory.
const SHORT: usize = 16;

/// A handle on a file.
///
/// Dropping it ends everything in the background; [`Backend::close`] waits for that.
#[derive(Debug)]
pub struct SqliteBackend {
    pub(crate) store: Arc<Store>,
    hubs: Hubs,
    sessions: Sessions<InFile>,
}

impl SqliteBackend {
    /// Opens the file that the configuration names, and makes it if it is missing; without the usual layers.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) for a path or option that is none, another program's file, a newer form of the
    /// tables and a file system that other hosts share; [`PermissionDenied`](ErrorKind::PermissionDenied),
    /// [`Malformed`](ErrorKind::Malformed) for a damaged file, and [`Unavailable`](ErrorKind::Unavailable).
    ///
    /// # Cancel safety
    /// Safe: what was opened half-way is closed.
    pub async fn connect(config: &Config) -> Result<Self> {
        let store = Store::open(Settings::new(config)?, Runtime::library()?).await?;
        Ok(Self { store, hubs: Hubs::default(), sessions: Sessions::default() })
    }

    /// The session of a call that needs one.
    fn owner(&self, ctx: &OpContext) -> Result<SessionId> {
        let Some(id) = &ctx.session else {
            return Err(Error::invalid("an ephemeral or ordered key needs a session"));
        };
        self.sessions.valid(id)?;
        Ok(id.clone())
    }

    /// What the store answered; a session that it found to be over is so for its owner too.
    fn answered<T>(&self, ctx: &OpContext, writes: bool, result: Result<T>) -> Result<T> {
        if let (Some(id), Err(error)) = (&ctx.session, &result)
            && error.kind() == ErrorKind::SessionLost
        {
            self.sessions.lose(id);
        }
        #[cfg(feature = "faults")]
        return self.store.plan.answer(writes, result);
        #[cfg(not(feature = "faults"))]
        {
            let _ = writes;
            result
        }
    }

    /// The copy of `dir`, fed from now on if it is new. It shows everything that was committed before, once the file can
    /// be read.
    async fn copy(&self, ctx: &OpContext, dir: &Dir) -> Result<HubRef> {
        self.store.ensure_open()?;
        let hub = match self.hubs.covering(dir) {
            Some(hub) => hub,
            None => start(&self.store, &self.hubs, dir, Begin::Whole),
        };
        // A copy that is behind what the caller saw would look changed, again and again until it is not.
        let caught_up = |reader: &mut Reader| {
            reader.look();
            Ok(())
        };
        match self.store.read(until(ctx), caught_up).await {
            Err(error) if is_final(&error) => Err(error),
            // A disk that hangs is waited for by waiting.
            _ => Ok(hub),
        }
    }

    fn shutdown(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        let (store, hubs, sessions) = (Arc::clone(&self.store), self.hubs.clone(), self.sessions.clone());
        hubs.close(closed);
        async move {
            let ended = sessions.close_all().await;
            store.close();
            ended
        }
    }
}

/// The copy of `dir`; fed from now on if it is new.
fn start(store: &Arc<Store>, hubs: &Hubs, dir: &Dir, begin: Begin) -> HubRef {
    let new = || {
        let hub = Hub::new(dir.clone(), line::order);
        if let Begin::After(after) = begin {
            // Before a watcher asks: it then needs no snapshot, unless the history turns out to be gone.
            hub.resume_after(after);
        }
        hub
    };
    hubs.get_or_start(dir, new, |hub| {
        let (fed, found) = (Arc::clone(&hub), hubs.clone());
        order(store, move |reader| reader.attach(fed, found, begin));
        drop(store.runtime.spawn(keep(Arc::clone(store), hubs.clone(), hub)));
    })
}

/// Something for the reader to do that nobody waits for.
fn order(store: &Store, work: impl FnOnce(&mut Reader) + Send + 'static) {
    store.reads.push(ReadJob { claim: Claim::default(), work: Box::new(work) });
}

/// Sees to a copy until nobody uses it.
async fn keep(store: Arc<Store>, hubs: Hubs, hub: Arc<Hub>) {
    loop {
        tokio::select! {
            biased;
            () = store.closed() => {
                hub.fail(closed());
                return;
            }
            () = hubs.unused(&hub) => {
                order(&store, move |reader| reader.detach(&hub));
                return;
            }
            () = hub.reset_wanted() => {
                let wanted = Arc::clone(&hub);
                order(&store, move |reader| reader.reload(|hub| std::ptr::eq(hub, &*wanted)));
            }
        }
    }
}

impl Drop for SqliteBackend {
    fn drop(&mut self) {
        if self.store.ensure_open().is_ok() {
            self.store.runtime.spawn(self.shutdown());
        }
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    fn info(&self) -> BackendInfo {
        let synchronous = self.store.synchronous;
        let guarantees = Guarantees {
            durability: Durability::Restart,
            can_lose_acknowledged_writes: synchronous != Synchronous::Full,
            ..Guarantees::STRONGEST
        };
        let server = format!("SQLite {}", rusqlite::version());
        let warnings = synchronous.warning().map(str::to_owned);
        BackendInfo::new(SCHEME, server, Limits::PORTABLE, guarantees)
            .with_warnings(warnings.into_iter().collect())
    }

    fn runtime(&self) -> Runtime {
        self.store.runtime.clone()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        let key = key.clone();
        let found = self.store.read(until(ctx), move |reader| Ok(query::get(reader.conn()?, &key)?)).await;
        self.answered(ctx, false, found)
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        let (dir, copy) = (dir.clone(), self.hubs.covering(dir));
        let read = move |reader: &mut Reader| reader.listing(&dir, copy.as_deref());
        let found = self.store.read(until(ctx), read).await;
        self.answered(ctx, false, found)
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        let owner = if txn.needs_session() { Some(self.owner(ctx)?) } else { None };
        ensure_known(&txn)?;
        let done = self.store.write(until(ctx), move |state| state.commit(txn, owner.as_ref())).await;
        self.answered(ctx, true, done)
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        let owner = self.owner(ctx)?;
        // A copy of the directory shows a long line without holding up those who write.
        let most = if self.hubs.covering(&req.dir).is_some() { SHORT } else { LINE_MAX };
        let done = self.store.write(until(ctx), move |state| state.join(&req, &owner, most)).await;
        self.answered(ctx, true, done)
    }

    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()> {
        self.copy(ctx, &seen.dir()).await?.wait(seen).await
    }

    async fn watch(&self, ctx: &OpContext, dir: &Dir, from: Start) -> Result<WatchStream> {
        let hub = match from {
            Start::Snapshot => self.copy(ctx, dir).await?,
            Start::After(after) => {
                self.store.ensure_open()?;
                // A copy of its own: the shared one began later than this watcher wants to.
                start(&self.store, &Hubs::default(), dir, Begin::After(after))
            }
        };
        Ok(hub.into_watch(from))
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.store.ensure_open()?;
        let opening = session::open(Arc::clone(&self.store), self.sessions.clone(), options.clone());
        self.store.runtime.run(opening).await
    }

    async fn close(&self) -> Result<()> {
        let (shutdown, store) = (self.shutdown(), Arc::clone(&self.store));
        let closing = async move {
            let until = Instant::now() + CLOSE_TIME;
            let ended = shutdown.await;
            // A disk that hangs keeps the threads; they end when it goes on.
            let _ = timeout_at(until, store.ended()).await;
            ended
        };
        self.store.runtime.run(closing).await
    }
}
