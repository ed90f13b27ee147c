//! The contract, by scripts.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Check, Commit, Dir, Durability, Entry, Error, ErrorKind, Failed, Guarantees, Key,
    Lifetime, Limits, Listing, Op, OpContext, Ordered, OrderedCreate, Rejection, Result, Revision, Seen,
    SessionDriver, SessionOptions, Start, Txn, TxnOutcome, Version, WatchStream, Written,
    kit::{Hubs, Runtime},
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
    session::{self, Sessions},
    settings::Settings,
    snapshot,
};

/// Names of the line that come with the reply of a join; longer lines are asked for.
const LINE_MAX: usize = 1000;
/// How long a join waits for a copy of its directory to show it.
const SHOWN: Duration = Duration::from_secs(2);

/// A handle on a namespace of a Redis or Valkey server.
///
/// Dropping it ends everything in the background; [`Backend::close`] waits for that.
#[derive(Debug)]
pub struct RedisBackend {
    link: Arc<Link>,
    feeds: Arc<Feeds>,
    hubs: Hubs,
    sessions: Arc<Sessions>,
}

impl RedisBackend {
    pub(crate) async fn open(settings: Settings, runtime: Runtime) -> Result<Self> {
        let link = Link::open(settings, runtime).await?;
        let (feeds, hubs) = (Arc::<Feeds>::default(), Hubs::default());
        link.runtime.spawn(reader::run(Arc::clone(&link), Arc::clone(&feeds), hubs.clone()));
        Ok(Self { link, feeds, hubs, sessions: Arc::default() })
    }

    fn ensure_open(&self) -> Result<()> {
        if self.link.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// The session's id for a script; empty without one.
    fn session(&self, ctx: &OpContext, needed: bool) -> Result<String> {
        match &ctx.session {
            Some(id) if needed => {
                self.sessions.ensure_valid(id)?;
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

    fn shutdown(&self) -> impl Future<Output = ()> + Send + use<> {
        let (link, hubs, sessions) = (Arc::clone(&self.link), self.hubs.clone(), Arc::clone(&self.sessions));
        hubs.close(closed);
        async move {
            sessions.close_all().await;
            link.close();
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
            let reply =
                snapshot::read(&conn, &script::GET, |call| _ = call.arg(key.as_str()), until.reply).await?;
            match array(reply)?.into_iter().nth(1) {
                Some(Value::Nil) => Ok(None),
                Some(record) => entry(key.as_str(), bytes(record)?).map(Some),
                None => Err(malformed("a reply of the server has another number of parts")),
            }
        };
        self.link.run(ctx, call).await
    }

    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing> {
        let dir = dir.clone();
        let call = move |link: Arc<Link>, until: Until| async move {
            let conn = link.conn(until.connect).await?;
            snapshot::names(&conn, &dir, until.reply).await
        };
        self.link.run(ctx, call).await
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        let session = self.session(ctx, txn.needs_session())?;
        let args = encode(&txn)?;
        let call = move |link: Arc<Link>, until: Until| async move {
            // What only deletes must work on a server that is out of memory.
            let frees = txn.ops().iter().all(|op| matches!(op, Op::Delete { .. }));
            let script = if frees { &script::RELEASE } else { &script::COMMIT };
            let conn = link.conn(until.connect).await?;
            let put = |call: &mut Cmd| {
                call.arg(session);
                args.args_iter().for_each(|arg| {
                    if let redis::Arg::Simple(arg) = arg {
                        _ = call.arg(arg)
                    }
                });
            };
            let reply = conn.write(script, put, until.reply).await?;
            let outcome = read_outcome(reply, &txn)?;
            if outcome.is_committed() && !txn.ops().is_empty() {
                conn.replicated(until.reply).await?;
            }
            Ok(outcome)
        };
        let result = self.link.run(ctx, call).await;
        self.note(ctx, result)
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        let session = self.session(ctx, true)?;
        // A copy of the directory will show the line: the store need not read it out.
        let copy = self.hubs.live(&req.dir);
        let most = if copy.is_some() { 0 } else { LINE_MAX };
        let dir = req.dir.clone();
        let call = move |link: Arc<Link>, until: Until| async move {
            let conn = link.conn(until.connect).await?;
            let args = |call: &mut Cmd| {
                call.arg(session).arg(req.dir.prefix()).arg(line::head(&req)).arg(&*req.value);
                call.arg(u8::from(req.lifetime == Lifetime::Session)).arg(most);
            };
            let reply = array(conn.write(&script::JOIN, args, until.reply).await?)?;
            conn.replicated(until.reply).await?;
            let [path, created, at, all, names] = reply
                .try_into()
                .map_err(|_| malformed("a reply of the server has another number of parts"))?;
            let key = Key::from_store(&text(path)?);
            let line = match number(&all)? {
                1 => Some(Listing::new(snapshot::children(&req.dir, names)?, Revision::new(revision(&at)?))),
                _ => None,
            };
            let created = Revision::new(revision(&created)?);
            Ok(Ordered::new(key, created, line))
        };
        let result = self.link.run(ctx, call).await;
        let mut ordered = self.note(ctx, result)?;
        if let Some(copy) = copy {
            let (hub, created) = (Arc::new(copy), ordered.created);
            let shown = Arc::clone(&hub);
            let limit = ctx.remaining(SHOWN).min(SHOWN);
            // On the library's clock: the caller's may stand still.
            let reached = self.link.runtime.run(async move {
                Ok(tokio::time::timeout(limit, shown.reached(created))
                    .await
                    .is_ok_and(|reached| reached.is_ok()))
            });
            ordered.line = reached.await.is_ok_and(|reached| reached).then(|| hub.listing(&dir));
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
        let opening = session::open(Arc::clone(&self.link), Arc::clone(&self.sessions), options.clone());
        self.link.runtime.run(opening).await
    }

    async fn close(&self) -> Result<()> {
        let shutdown = self.shutdown();
        self.link
            .runtime
            .run(async move {
                shutdown.await;
                Ok(())
            })
            .await
    }
}

fn check_code(check: &Check) -> Option<(&'static str, u64)> {
    match check {
        Check::Absent(_) => Some(("A", 0)),
        Check::Exists(_) => Some(("E", 0)),
        Check::Version(_, version) => Some(("V", version.get())),
        Check::Created(_, created) => Some(("R", created.get())),
        _ => None,
    }
}

fn op_code(op: &Op) -> Option<(&'static str, bool)> {
    match op {
        Op::Create { lifetime, .. } => Some(("C", *lifetime == Lifetime::Session)),
        Op::Update { .. } => Some(("U", false)),
        Op::Put { .. } => Some(("P", false)),
        Op::Delete { .. } => Some(("D", false)),
        _ => None,
    }
}

/// The checks and writes as arguments of the script; nothing is put if one is of a kind that it does not know.
fn encode(txn: &Txn) -> Result<Cmd> {
    let unknown = || Error::invalid("a kind of check or write that this backend does not know");
    let mut args = Cmd::new();
    args.arg(txn.checks().len());
    for check in txn.checks() {
        let (code, number) = check_code(check).ok_or_else(unknown)?;
        args.arg(code).arg(check.key().as_str()).arg(number);
    }
    args.arg(txn.ops().len());
    for op in txn.ops() {
        let (code, ephemeral) = op_code(op).ok_or_else(unknown)?;
        args.arg(code).arg(op.key().as_str()).arg(op.value()).arg(u8::from(ephemeral));
    }
    Ok(args)
}

fn read_outcome(reply: Value, txn: &Txn) -> Result<TxnOutcome> {
    let reply = array(reply)?;
    let [applied, what, rest @ ..] = reply.as_slice() else {
        return Err(malformed("a reply of the server has another number of parts"));
    };
    if number(applied)? == 1 {
        let at = revision(what)?;
        let written = Written::new(Revision::new(at), Version::new(at));
        let deletes = |op: &Op| matches!(op, Op::Delete { .. });
        return Ok(TxnOutcome::Committed(Commit::new(
            txn.ops().iter().map(|op| (!deletes(op)).then_some(written)).collect(),
        )));
    }
    let index = rest.first().map(number).transpose()?.and_then(|index| usize::try_from(index).ok());
    let failed = index.map(|index| match what {
        Value::BulkString(kind) if kind == b"C" => Failed::Check(index),
        _ => Failed::Op(index),
    });
    Ok(TxnOutcome::Rejected(Rejection::new(failed)))
}
