//! The contract, by scripts.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Dir, Durability, Entry, Error, ErrorKind, Freshness, Guarantees, Key, Lifetime,
    Limits, Listing, OpContext, Ordered, OrderedCreate, Result, Revision, Seen, SessionDriver,
    SessionOptions, Start, Txn, TxnOutcome, WatchStream,
    kit::{HubRef, Hubs, Runtime, Sessions},
};
use redis::{Cmd, Value};

use crate::{
    error::closed,
    feeds::{Begin, Feeds, start},
    line,
    link::{Link, Until},
    reader,
    record::{array, bytes, entry, malformed, number, revision, text},
    script,
    session::{self, ByScript},
    settings::Settings,
    snapshot, txn,
};

/// Names of the line that come with the reply of a join; longer lines are asked for.
const LINE_MAX: usize = 1000;
/// The same where this process has a copy of the directory, which shows longer ones.
const SHORT: usize = 32;
/// How long a copy may take to show what this handle knows; waited for is half of it at most, or half of what is left.
const SHOWN: Duration = Duration::from_secs(2);

/// A handle on a namespace of a Redis or Valkey server.
///
/// Dropping it ends everything in the background; [`Backend::close`] waits for that.
#[derive(Debug)]
pub struct RedisBackend {
    link: Arc<Link>,
    feeds: Arc<Feeds>,
    hubs: Hubs,
    sessions: Sessions<ByScript>,
}

impl RedisBackend {
    pub(crate) async fn open(settings: Settings, runtime: Runtime) -> Result<Self> {
        let link = Link::open(settings, runtime).await?;
        let (feeds, hubs) = (Arc::<Feeds>::default(), Hubs::default());
        link.runtime.spawn(reader::run(Arc::clone(&link), Arc::clone(&feeds), hubs.clone()));
        Ok(Self { link, feeds, hubs, sessions: Sessions::default() })
    }

    fn ensure_open(&self) -> Result<()> {
        if self.link.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// The session's id for a script; empty without one.
    fn session(&self, ctx: &OpContext, needed: bool) -> Result<String> {
        match &ctx.session {
            Some(id) if needed => {
                self.sessions.valid(id)?;
                Ok(id.as_str().to_owned())
            }
            None if needed => Err(Error::invalid("an ephemeral or ordered key needs a session")),
            _ => Ok(String::new()),
        }
    }

    /// A script that found the session over says so to its owner too.
    fn note<T>(&self, ctx: &OpContext, result: Result<T>) -> Result<T> {
        result.map_err(|error| match &ctx.session {
            Some(id) if error.kind() == ErrorKind::SessionLost => {
                self.sessions.lose(id);
                error.with_context("session", id)
            }
            _ => error,
        })
    }

    /// The names from a copy, once it has reached `at`; `None` if it does not get there, or lacks a
    /// name.
    async fn copied(&self, ctx: &OpContext, copy: HubRef, dir: &Dir, at: Revision) -> Option<Listing> {
        let limit = ctx.remaining(SHOWN).min(SHOWN) / 2;
        let shown = Arc::new(copy);
        let hub = Arc::clone(&shown);
        // On the library's clock: the caller's may stand still.
        let reached =
            self.link.runtime.run_here(async move { tokio::time::timeout(limit, hub.reached(at)).await });
        matches!(reached.await, Ok(Ok(()))).then(|| self.feeds.listing(&shown, dir)).flatten()
    }

    fn shutdown(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        let (link, hubs, sessions) = (Arc::clone(&self.link), self.hubs.clone(), self.sessions.clone());
        hubs.close(closed);
        async move {
            let ended = sessions.close_all().await;
            link.close();
            ended
        }
    }
}

impl Drop for RedisBackend {
    fn drop(&mut self) {
        if !self.link.is_closed() {
            self.link.runtime.spawn(self.shutdown());
        }
    }
}

#[async_trait]
impl Backend for RedisBackend {
    fn info(&self) -> BackendInfo {
        let server = self.link.server();
        let guarantees = Guarantees {
            durability: if server.aof { Durability::Restart } else { Durability::Process },
            can_lose_acknowledged_writes: server.loses_writes(),
            ..Guarantees::STRONGEST
        };
        let warnings = server.warnings();
        BackendInfo::new("redis", server.name, Limits::PORTABLE, guarantees).with_warnings(warnings)
    }

    fn runtime(&self) -> Runtime {
        self.link.runtime.clone()
    }

    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>> {
        let key = key.clone();
        let call = move |link: Arc<Link>, until: Until| async move {
            let conn = link.conn(until.connect).await?;
            match conn.record(key.as_str(), until.reply).await? {
                Value::Nil => Ok(None),
                record => entry(key, bytes(record)?).map(Some),
            }
        };
        self.link.run(ctx, call).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        self.ensure_open()?;
        if ctx.freshness == Freshness::Session
            && let Some(copy) = self.hubs.covering(dir)
            && let Some(listing) = self.copied(ctx, copy, dir, self.link.noted()).await
        {
            return Ok(listing);
        }
        let dir = dir.clone();
        let call = move |link: Arc<Link>, until: Until| async move {
            let conn = link.conn(until.connect).await?;
            let listing = snapshot::names(&conn, &dir, until.reply).await?;
            link.note(listing.revision);
            Ok(listing)
        };
        self.link.run(ctx, call).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        let session = self.session(ctx, txn.needs_session())?;
        txn::ensure_known(&txn)?;
        let call = move |link: Arc<Link>, until: Until| async move {
            let conn = link.conn(until.connect).await?;
            let (outcome, at) = txn::send(&conn, &session, &txn, until.reply).await?;
            if at > Revision::ZERO {
                link.note(at);
                conn.replicated(until.reply).await?;
            }
            Ok(outcome)
        };
        let result = self.link.run(ctx, call).await;
        self.note(ctx, result)
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        let session = self.session(ctx, true)?;
        // A copy of the directory will show a long line: the store need not read that out. A short one comes sooner
        // with the reply than with the log.
        let copy = self.hubs.covering(&req.dir);
        let most = if copy.is_some() { SHORT } else { LINE_MAX };
        let dir = req.dir.clone();
        let call = move |link: Arc<Link>, until: Until| async move {
            let conn = link.conn(until.connect).await?;
            let args = |call: &mut Cmd| {
                call.arg(session).arg(req.dir.prefix()).arg(line::head(&req)).arg(&*req.value);
                call.arg(u8::from(req.lifetime == Lifetime::Session)).arg(most);
            };
            let reply = array(conn.write(&script::JOIN, args, until.reply).await?)?;
            let [path, created, at, all, names] = reply
                .try_into()
                .map_err(|_| malformed("a reply of the server has another number of parts"))?;
            let at = Revision::new(revision(&at)?);
            link.note(at);
            conn.replicated(until.reply).await?;
            let key = Key::from_store(&text(path)?);
            let line = match number(&all)? {
                1 => Some(Listing::new(snapshot::children(&req.dir, names)?, at)),
                _ => None,
            };
            let created = Revision::new(revision(&created)?);
            Ok(Ordered::new(key, created, line))
        };
        let result = self.link.run(ctx, call).await;
        let mut ordered = self.note(ctx, result)?;
        if let (None, Some(copy)) = (&ordered.line, copy) {
            ordered.line = self.copied(ctx, copy, &dir, ordered.created).await;
        }
        Ok(ordered)
    }

    async fn wait(&self, _: &OpContext, seen: &Seen) -> Result<()> {
        self.ensure_open()?;
        let dir = seen.dir();
        let hub = match self.hubs.covering(&dir) {
            Some(hub) => hub,
            None => start(&self.feeds, &self.link, &self.hubs, &dir, Begin::Whole),
        };
        hub.wait(seen).await
    }

    async fn watch(&self, _: &OpContext, dir: &Dir, from: Start) -> Result<WatchStream> {
        self.ensure_open()?;
        let hub = match from {
            Start::Snapshot => start(&self.feeds, &self.link, &self.hubs, dir, Begin::Whole),
            // A copy of its own: the shared one began later than this watcher wants to.
            Start::After(after) => start(&self.feeds, &self.link, &Hubs::default(), dir, Begin::After(after)),
        };
        Ok(hub.into_watch(from))
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.ensure_open()?;
        let opening = session::open(Arc::clone(&self.link), self.sessions.clone(), options.clone());
        self.link.runtime.run(opening).await
    }

    async fn close(&self) -> Result<()> {
        self.link.runtime.run(self.shutdown()).await
    }
}
