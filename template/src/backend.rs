//! The contract, over the client.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendInfo, Check, Commit, Config, Dir, Durability, Entry, Error, ErrorKind, Failed,
    Guarantees, Key, Lifetime, Limits, Listing, Op, OpContext, Ordered, OrderedCreate, Rejection, Result,
    Revision, Seen, SessionDriver, SessionOptions, Start, Txn, TxnOutcome, Version, WatchStream, Written,
    kit::{Hub, HubRef, Hubs, Runtime, Sessions},
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    SCHEME,
    client::{Client, ClientError, Wire, put},
    error::{Call, classify, closed, over},
    factory::Settings,
    feed::feed,
    line::{children, entry, order, place},
    server::{Answer, Expect, Write},
    session::{self, Granted},
};

/// A handle on the store.
#[derive(Debug)]
pub struct TemplateBackend {
    client: Client,
    settings: Settings,
    runtime: Runtime,
    sessions: Sessions<Granted>,
    hubs: Hubs,
    /// The newest revision that any reply told this handle: a copy behind it is not read.
    seen: AtomicU64,
    closed: AtomicBool,
}

impl TemplateBackend {
    /// Opens the store that the configuration names, without the usual layers.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) for an option that makes no sense, and [`Unavailable`](ErrorKind::Unavailable).
    ///
    /// # Cancel safety
    /// Safe: what was opened half-way is closed.
    pub async fn connect(config: &Config) -> Result<Self> {
        let settings = Settings::new(config)?;
        // The library's own runtime: a caller who blocks its threads loses no session.
        let runtime = Runtime::library()?;
        let client = Client::dial(config.url().path().as_str(), &runtime).await;
        Ok(Self {
            client: client.map_err(|e| classify(e, Call::Read))?,
            settings,
            runtime,
            sessions: Sessions::default(),
            hubs: Hubs::default(),
            seen: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// The way to the server, for tests that break it; works also while the handle is behind layers.
    #[must_use]
    pub fn wire(&self) -> Wire {
        self.client.wire()
    }

    fn ensure_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) { Err(closed()) } else { Ok(()) }
    }

    /// The number of the session of a call that needs one.
    fn owner(&self, ctx: &OpContext) -> Result<u64> {
        let id = ctx.session.as_ref();
        let id = id.ok_or_else(|| Error::invalid("an ephemeral or ordered key needs a session"))?;
        self.sessions.valid(id)?.map(|granted| granted.number).ok_or_else(|| over(id))
    }

    /// Sends a transaction, in a task: a write that was sent is not cancelled with its caller.
    async fn transact(
        &self,
        ctx: &OpContext,
        expected: Vec<(String, Expect)>,
        writes: Vec<Write>,
        read: Option<String>,
    ) -> Result<Answer> {
        self.ensure_open()?;
        let client = self.client.clone();
        let sent = async move { Ok(client.transact(expected, writes, read).await) };
        let answer = self.runtime.run(sent).await?.map_err(|e| {
            if let (ClientError::NoSession, Some(id)) = (e, &ctx.session) {
                self.sessions.lose(id);
            }
            classify(e, Call::Write)
        })?;
        self.saw(answer.revision);
        Ok(answer)
    }

    fn saw(&self, revision: u64) -> Revision {
        self.seen.fetch_max(revision, Ordering::SeqCst);
        Revision::new(revision)
    }

    /// The copy of `dir`, fed from now on if it is new; and how far it must be to be read.
    ///
    /// A copy that is behind what the caller saw would look changed, again and again until it is not.
    fn copy(&self, dir: &Dir) -> Result<(HubRef, Revision)> {
        self.ensure_open()?;
        let start = |hub: Arc<Hub>| {
            let (client, hubs, runtime) = (self.client.clone(), self.hubs.clone(), self.runtime.clone());
            self.runtime.spawn(feed(client, hubs, hub, runtime));
        };
        let copy = self.hubs.get_or_start(dir, || Hub::new(dir.clone(), order), start);
        Ok((copy, Revision::new(self.seen.load(Ordering::SeqCst))))
    }
}

/// What a transaction expects: its checks, then what its writes expect, each with the part that it is of.
fn expectations(txn: &Txn) -> Result<Vec<(Failed, String, Expect)>> {
    let unknown = || Error::invalid("a check or write that this backend does not know");
    let mut all = Vec::new();
    for (at, check) in txn.checks().iter().enumerate() {
        let expect = match check {
            Check::Absent(_) => Expect::Absent,
            Check::Exists(_) => Expect::Present,
            Check::Version(_, version) => Expect::Modified(version.get()),
            Check::Created(_, created) => Expect::Created(created.get()),
            _ => return Err(unknown()),
        };
        all.push((Failed::Check(at), check.key().as_str().to_owned(), expect));
    }
    for (at, op) in txn.ops().iter().enumerate() {
        let expect = match op {
            Op::Create { .. } => Expect::Absent,
            Op::Update { .. } | Op::Delete { .. } => Expect::Present,
            Op::Put { .. } => continue,
            _ => return Err(unknown()),
        };
        all.push((Failed::Op(at), op.key().as_str().to_owned(), expect));
    }
    Ok(all)
}

fn write(op: Op, owner: Option<u64>) -> Option<Write> {
    let text = |key: Key| key.as_str().to_owned();
    match op {
        Op::Create { key, value, lifetime } => {
            Some(put(text(key), value, owner.filter(|_| lifetime == Lifetime::Session)))
        }
        Op::Update { key, value } | Op::Put { key, value } => Some(put(text(key), value, None)),
        Op::Delete { key } => Some(Write::Delete { key: text(key) }),
        _ => None,
    }
}

#[async_trait]
impl Backend for TemplateBackend {
    fn info(&self) -> BackendInfo {
        // Declare what holds and not more: the suite asserts it.
        let guarantees =
            Guarantees { watch_resumes: false, durability: Durability::Process, ..Guarantees::STRONGEST };
        BackendInfo::new(SCHEME, String::new(), Limits::PORTABLE, guarantees)
    }

    fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    async fn get(&self, _: &OpContext, key: &Key) -> Result<Option<Entry>> {
        self.ensure_open()?;
        let found = self.client.get(key.as_str()).await.map_err(|e| classify(e, Call::Read))?;
        self.saw(found.0);
        Ok(found.1.as_ref().map(entry))
    }

    async fn list(&self, _: &OpContext, dir: &Dir) -> Result<Listing> {
        self.ensure_open()?;
        let found = self.client.below(&dir.prefix()).await.map_err(|e| classify(e, Call::Read))?;
        Ok(Listing::new(children(dir, &found.1), self.saw(found.0)))
    }

    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        let owner = if txn.needs_session() { Some(self.owner(ctx)?) } else { None };
        let expectations = expectations(&txn)?;
        let expected = expectations.iter().map(|(_, key, expect)| (key.clone(), *expect)).collect();
        let ops = txn.into_parts().1;
        let deletes: Vec<bool> = ops.iter().map(|op| matches!(op, Op::Delete { .. })).collect();
        let writes = ops.into_iter().filter_map(|op| write(op, owner)).collect();
        let answer = self.transact(ctx, expected, writes, None).await?;
        if let Some(failed) = answer.failed {
            let failed = expectations.get(failed).map(|(part, ..)| *part);
            return Ok(TxnOutcome::Rejected(Rejection::new(failed)));
        }
        let written = Written::new(Revision::new(answer.revision), Version::new(answer.revision));
        let written = deletes.into_iter().map(|deleted| (!deleted).then_some(written));
        Ok(TxnOutcome::Committed(Commit::new(written.collect())))
    }

    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered> {
        let owner = self.owner(ctx)?;
        let (name, dir) = (place(&req), req.dir);
        let session = (req.lifetime == Lifetime::Session).then_some(owner);
        // If it is there, an earlier try made it: the name holds the nonce. Either way the line comes with the answer.
        let expected = vec![(name.clone(), Expect::Absent)];
        let writes = vec![put(name.clone(), req.value, session)];
        let answer = self.transact(ctx, expected, writes, Some(dir.prefix())).await?;
        let Some(own) = answer.rows.iter().find(|row| row.key == name) else {
            return Err(Error::new(ErrorKind::Unexpected, "the entry is not in the line that came with it"));
        };
        let line = Listing::new(children(&dir, &answer.rows), Revision::new(answer.revision));
        Ok(Ordered::new(Key::from_store(&name), Revision::new(own.created), Some(line)))
    }

    async fn wait(&self, _: &OpContext, seen: &Seen) -> Result<()> {
        let (copy, seen_at) = self.copy(&seen.dir())?;
        copy.reached(seen_at).await?;
        copy.wait(seen).await
    }

    async fn watch(&self, _: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream> {
        let (copy, seen_at) = self.copy(dir)?;
        // Waited for in the stream: a watch may begin while the store is away.
        let ready = async move { copy.reached(seen_at).await.map(|()| copy.into_watch(start)) };
        Ok(stream::once(ready).try_flatten().boxed())
    }

    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>> {
        self.ensure_open()?;
        let (client, sessions, runtime) = (self.client.clone(), self.sessions.clone(), self.runtime.clone());
        let (settings, options) = (self.settings, options.clone());
        // In a task: a caller that goes away leaves a driver that is dropped, and so a session that ends.
        self.runtime
            .run(async move { session::open(client, sessions, settings, &options, runtime).await })
            .await
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        self.hubs.close(closed);
        let sessions = self.sessions.clone();
        self.runtime.run(async move { sessions.close_all().await }).await
    }
}

impl Drop for TemplateBackend {
    fn drop(&mut self) {
        self.hubs.close(closed);
        let sessions = self.sessions.clone();
        self.runtime.spawn(async move { sessions.close_all().await });
    }
}
