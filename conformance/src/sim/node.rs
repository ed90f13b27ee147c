//! A client: its own process, link and handle on the store.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use coord_api::{
    Error, Freshness, Result, Revision,
    kit::{Gate, Runtime},
};
use coord_backend_memory::MemoryBackend;
use coord_recipes::planted::{Bug, planted};
use tokio::{sync::oneshot, time::Instant};

use super::{
    faults::{Faults, Kind},
    gate::Pause,
    link::{Fate, Link, PATIENCE},
    rng::Rng,
    run::Sweep,
    world::{World, lock},
};
use crate::checkers::What;

/// One client.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: u32,
    pub(crate) world: Arc<World>,
    pub(crate) runtime: Runtime,
    /// The store's end of the client's connection.
    pub(crate) server: MemoryBackend,
    pause: Arc<Pause>,
    dead: AtomicBool,
    /// What is recorded when it dies: what it had open is closed then.
    last_words: Mutex<Vec<What>>,
    sweep: Sweep,
    /// Calls to the store so far.
    calls: AtomicU64,
    /// Calls of the recipe that may be dropped, so far.
    droppable: AtomicU64,
    link: Mutex<Link>,
    /// How far it has seen the store to be.
    seen: AtomicU64,
}

/// Whether a request may arrive twice. No network repeats one by itself; drivers and proxies that send again do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twice {
    /// It may not.
    Never,
    /// It may, and its caller gets no reply: whoever sends again has not seen one.
    Unanswered,
    /// It may, and does nothing the second time.
    Harmless,
}

/// Streams of random numbers, beside those of the plan.
const LINKS: u64 = 1000;
const RUNTIMES: u64 = 2000;
const RENEWALS: u64 = 4000;

impl Node {
    pub(crate) fn new(
        world: &Arc<World>,
        id: u32,
        seed: u64,
        faults: Faults,
        sweep: Sweep,
    ) -> Result<Arc<Self>> {
        let pause = Arc::new(Pause::default());
        let gate: Arc<dyn Gate> = Arc::<Pause>::clone(&pause);
        let own_seed = Rng::new(seed, RUNTIMES + u64::from(id)).next();
        let runtime = Runtime::current()?.with_seed(own_seed).with_gate(gate);
        let link = Link::new(
            faults,
            Rng::new(seed, LINKS + u64::from(id)),
            Rng::new(seed, RENEWALS + u64::from(id)),
        );
        Ok(Arc::new(Self {
            id,
            world: Arc::clone(world),
            server: MemoryBackend::new(world.store(), runtime.clone()),
            runtime,
            pause,
            dead: AtomicBool::new(false),
            last_words: Mutex::default(),
            sweep,
            calls: AtomicU64::new(0),
            droppable: AtomicU64::new(0),
            link: Mutex::new(link),
            seen: AtomicU64::new(0),
        }))
    }

    pub(crate) fn link(&self) -> MutexGuard<'_, Link> {
        lock(&self.link)
    }

    /// The client has seen the store at this revision: nothing that it reads may be older.
    pub(crate) fn saw(&self, revision: Revision) {
        self.seen.fetch_max(revision.get(), Ordering::SeqCst);
    }

    /// The server that answers a read: one that lags behind, if there is one, if the caller did not ask for the latest,
    /// and if the link says so.
    pub(crate) fn server_for(&self, freshness: Freshness) -> Option<Arc<MemoryBackend>> {
        let (strikes, dice) = {
            let mut link = self.link();
            (link.strikes(Kind::StaleRead, 400), link.range(0, u64::MAX))
        };
        let seen = Revision::new(self.seen.load(Ordering::SeqCst));
        let stale =
            (strikes && freshness != Freshness::Latest).then(|| self.world.lagging(seen, dice)).flatten();
        let (revision, server) = match stale {
            Some((revision, server)) => {
                self.fired(Kind::StaleRead);
                (revision, Some(server))
            }
            None => (self.world.store().revision(), None),
        };
        self.saw(revision);
        server
    }

    pub(crate) fn fired(&self, kind: Kind) {
        self.world.fired(kind, self.id);
    }

    /// All tasks of the client stand still.
    pub(crate) fn pause(&self) {
        self.pause.shut();
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pause.is_shut()
    }

    /// The client's tasks go on, unless it is dead.
    pub(crate) fn resume(&self) {
        if !self.is_dead() {
            self.pause.open();
        }
    }

    /// The client dies: its tasks never go on.
    pub(crate) fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.pause.shut();
        for what in std::mem::take(&mut *lock(&self.last_words)) {
            self.world.record(self.id, what);
        }
    }

    /// Records `what` if the client dies.
    pub(crate) fn if_killed(&self, what: impl Into<What>) {
        lock(&self.last_words).push(what.into());
    }

    /// From here on nothing of that is so.
    pub(crate) fn nothing_open(&self) {
        lock(&self.last_words).clear();
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// A call over the link.
    pub(crate) async fn call<T, F>(
        self: &Arc<Self>,
        writes: bool,
        twice: Twice,
        apply: impl Fn(Arc<Self>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.world.recorder().tally.calls += 1;
        let mut fate = self.link().fate(twice != Twice::Never);
        let nth = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if self.sweep.lose_reply == Some(nth) {
            fate.fault = Some(Kind::ReplyLost);
        }
        if fate.fault == Some(Kind::Refused) {
            self.fired(Kind::Refused);
            tokio::time::sleep(fate.there).await;
            return Err(Error::unavailable("the connection is down"));
        }
        let deadline = Instant::now() + PATIENCE;
        let (reply, answer) = oneshot::channel();
        let node = Arc::clone(self);
        self.world.network().spawn(async move { node.journey(fate, twice, apply, reply).await });
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok((answer, revision))) => {
                if writes {
                    self.saw(revision);
                }
                answer
            }
            // Lost on the way: nothing says so but the clock.
            _ => {
                tokio::time::sleep_until(deadline).await;
                if writes && !planted(Bug::SaysNotApplied) {
                    self.world.recorder().tally.unknown += 1;
                    Err(Error::ambiguous("the reply was lost"))
                } else {
                    Err(Error::unavailable("the reply was lost"))
                }
            }
        }
    }

    /// The way of a request to the store and of its reply back; goes on whatever becomes of the client.
    async fn journey<T, F>(
        self: Arc<Self>,
        fate: Fate,
        twice: Twice,
        apply: impl Fn(Arc<Self>) -> F + Send + 'static,
        reply: oneshot::Sender<(Result<T>, Revision)>,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        tokio::time::sleep(fate.there).await;
        // A late request sits in a buffer that outlives the partition.
        let closed = fate.fault != Some(Kind::Late) && self.link().closed_to_requests().is_some();
        match fate.fault {
            Some(Kind::RequestLost) => return self.fired(Kind::RequestLost),
            _ if closed => return,
            Some(Kind::Late) => self.fired(Kind::Late),
            _ => {}
        }
        self.world.keep_for_later();
        let answer = apply(Arc::clone(&self)).await;
        let revision = self.world.store().revision();
        if fate.fault == Some(Kind::Twice) {
            let (node, again) = (Arc::clone(&self), fate.again);
            self.world.network().spawn(async move {
                tokio::time::sleep(again).await;
                node.fired(Kind::Twice);
                // Nobody reads the second reply.
                let _ = apply(Arc::clone(&node)).await;
            });
            if twice == Twice::Unanswered {
                return;
            }
        }
        tokio::time::sleep(fate.back).await;
        if fate.fault == Some(Kind::ReplyLost) {
            return self.fired(Kind::ReplyLost);
        }
        if self.link().closed_to_replies().is_none() {
            // The caller may be gone.
            let _ = reply.send((answer, revision));
        }
    }

    /// Whether the next call of the recipe is to be dropped: after so many polls, or so much time.
    pub(crate) fn next_drop(&self) -> (Option<usize>, Option<Duration>) {
        let nth = self.droppable.fetch_add(1, Ordering::SeqCst) + 1;
        (self.sweep.drop_after.filter(|(call, _)| *call == nth).map(|(_, polls)| polls), self.sweep.drop_at)
    }

    /// A renewal was applied; where the link says so its reply is slow, and the last for a while.
    pub(crate) async fn last_reply(self: &Arc<Self>) {
        let Some((slow, cut)) = self.link().last_reply() else { return };
        self.fired(Kind::LastReply);
        tokio::time::sleep(slow).await;
        let node = Arc::clone(self);
        self.world.network().spawn(async move {
            // Behind the reply.
            tokio::time::sleep(Duration::from_millis(5)).await;
            node.link().cut(Instant::now() + cut);
        });
    }

    /// A message to or from a wait or watch: it travels, and stands still while the link is closed.
    pub(crate) async fn pass(&self) {
        let travel = self.link().travel();
        tokio::time::sleep(travel).await;
        loop {
            let closed = self.link().closed_to_replies();
            let Some(until) = closed else { return };
            // The client finds out that the link is open again when it tries to connect.
            let late = self.link().range(0, 100);
            tokio::time::sleep_until(until + Duration::from_millis(late)).await;
        }
    }
}
