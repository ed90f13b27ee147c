//! What the program of a client can do: the verbs that scenarios are written in.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use coord_api::{Coord, Error, Retry, Session, kit::Backoff};

use super::{backend::SimBackend, faults::Kind, node::Node, rng::Rng, world::lock};
use crate::{checkers::What, sweep::drop_after};

/// A client, as its program sees it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    node: Arc<Node>,
    /// What the program itself draws.
    rng: Arc<Mutex<Rng>>,
    steps: u32,
    clients: u32,
    coord: Coord,
}

/// How long the sessions of the simulation live.
pub(crate) const TTL: Duration = Duration::from_secs(3);
/// The stream of random numbers of a program.
const PROGRAMS: u64 = 3000;

impl Client {
    pub(crate) fn new(node: &Arc<Node>, seed: u64, steps: u32, clients: u32) -> Self {
        Self {
            node: Arc::clone(node),
            rng: Arc::new(Mutex::new(Rng::new(seed, PROGRAMS + u64::from(node.id)))),
            steps,
            clients,
            coord: Coord::new(Arc::new(SimBackend(Arc::clone(node)))),
        }
    }

    /// Its number, from 1.
    pub(crate) fn id(&self) -> u32 {
        self.node.id
    }

    /// How many times it should do its work.
    pub(crate) const fn steps(&self) -> u32 {
        self.steps
    }

    /// How many clients there are.
    pub(crate) const fn clients(&self) -> u32 {
        self.clients
    }

    /// The store, behind the client's link.
    pub(crate) const fn coord(&self) -> &Coord {
        &self.coord
    }

    pub(crate) fn record(&self, what: impl Into<What>) {
        self.node.world.record(self.node.id, what);
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// An id that is unique in the run.
    pub(crate) fn next_id(&self) -> u64 {
        self.node.world.recorder().next_id()
    }

    pub(crate) fn range(&self, from: u64, to: u64) -> u64 {
        lock(&self.rng).range(from, to)
    }

    /// True with this probability, in thousandths.
    pub(crate) fn chance(&self, thousandths: u64) -> bool {
        lock(&self.rng).chance(thousandths)
    }

    /// Writes to a resource that compares tokens; the write travels and may be late, which the client cannot know.
    pub(crate) fn write_fenced(&self, token: u128) {
        let (node, travel) = (Arc::clone(&self.node), self.node.link().travel());
        self.node.world.network().spawn(async move {
            tokio::time::sleep(travel).await;
            node.world.recorder().fenced_write(token);
        });
    }

    /// Says that something is not as promised, unless `held`.
    pub(crate) fn expect(&self, held: bool, what: impl FnOnce() -> String) {
        if !held {
            let message = format!("client {}: {}", self.id(), what());
            self.node.world.recorder().complain(message);
        }
    }

    /// Lets some time pass, in milliseconds.
    pub(crate) async fn idle(&self, from: u64, to: u64) {
        tokio::time::sleep(Duration::from_millis(self.range(from, to))).await;
    }

    /// Waits for a moment of the run.
    pub(crate) async fn until(&self, moment: Duration) {
        let now = self.node.world.recorder().now();
        tokio::time::sleep(moment.saturating_sub(now)).await;
    }

    /// A session; tries until there is one.
    pub(crate) async fn session(&self) -> Session {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        loop {
            if let Ok(session) = self.coord.session(TTL).await
                && session.is_valid()
            {
                return session;
            }
            backoff.sleep(&self.node.runtime).await;
        }
    }

    /// `session` while it is valid, and then a new one.
    pub(crate) async fn fresh(&self, session: &mut Session) {
        if !session.is_valid() {
            *session = self.session().await;
        }
    }

    /// Runs `work`, and sometimes drops it before its end, where the run has that fault; `None` then.
    pub(crate) async fn perhaps_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (cancels, after) = (self.chance(200), self.range(0, 400));
        let done = match self.node.next_drop() {
            (Some(polls), _) => drop_after(work, polls).await,
            (None, Some(time)) => tokio::time::timeout(time, work).await.ok(),
            (None, None) if cancels && self.node.link().strikes(Kind::Cancel, 1000) => {
                tokio::time::timeout(Duration::from_millis(after), work).await.ok()
            }
            (None, None) => return Some(work.await),
        };
        if done.is_none() {
            self.node.fired(Kind::Cancel);
        }
        done
    }

    /// Runs `call` until it ends with something other than an error that may pass.
    pub(crate) async fn until_answered<T, F>(&self, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        loop {
            match call().await {
                Err(error) if error.retry() != Retry::Never => backoff.sleep(&self.node.runtime).await,
                answered => return answered,
            }
        }
    }
}
