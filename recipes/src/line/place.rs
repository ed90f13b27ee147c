//! A place in the line: join, ask for the verdict, wait, leave.

use std::{
    future::poll_fn,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use bytes::Bytes;
use coord_api::{
    Check, Coord, Dir, Entry, Error, ErrorKind, FencingToken, Freshness, Key, Lifetime, Listing, Nonce,
    OrderedCreate, Result, Retry, Revision, Seen, Session, Tag, Txn, events::TurnReport, kit::Backoff,
};

use super::{Rule, Verdict, stragglers::sweep};
use crate::planted::{Bug, planted};
use crate::{
    Hold,
    insist::{RETRY_CAP, insist},
};

/// The longest pause between two looks at what we wait for, in ttls of our session.
const RARELY: u32 = 16;

/// An entry in the line of a directory.
#[derive(Debug)]
pub(crate) struct Place {
    session: Session,
    dir: Dir,
    key: Key,
    created: Revision,
    /// The line as joining showed it, until it is used.
    line: Option<Listing>,
    /// Set if a try to join was ambiguous: a second entry of ours may turn up late.
    nonce_to_sweep: Option<Nonce>,
    /// Cleared when somebody took over leaving.
    armed: AtomicBool,
    /// For those who listen, where there may be some.
    report: Option<Box<TurnReport>>,
}

/// Joins the line of `dir`.
///
/// # Cancel safety
/// Safe: if the future is dropped, the join ends or is undone in the background.
pub(crate) async fn join(
    session: &Session,
    dir: &Dir,
    tag: Tag,
    value: Bytes,
    lifetime: Lifetime,
) -> Result<Place> {
    session.ensure_valid()?;
    let runtime = session.coord().runtime();
    let request = OrderedCreate { dir: dir.clone(), tag, nonce: runtime.dated_nonce(), value, lifetime };
    // Alive as long as this future: the task stops trying for a caller who went away.
    let caller = Arc::new(());
    if planted(Bug::JoinDiesWithCaller) {
        return join_task(session.clone(), request, Arc::downgrade(&caller)).await;
    }
    let joined = runtime.run(join_task(session.clone(), request, Arc::downgrade(&caller))).await;
    drop(caller);
    joined
}

async fn join_task(session: Session, mut request: OrderedCreate, caller: Weak<()>) -> Result<Place> {
    let coord = session.coord().clone();
    let mut backoff = Backoff::new(RETRY_CAP);
    let mut ambiguous = false;
    let error = loop {
        if planted(Bug::FreshNonce) {
            request.nonce = coord.runtime().nonce();
        }
        let error = match coord.create_ordered(request.clone()).await {
            Ok(ordered) => {
                return Ok(Place {
                    dir: request.dir,
                    key: ordered.key,
                    created: ordered.created,
                    line: ordered.line,
                    nonce_to_sweep: ambiguous.then_some(request.nonce),
                    session,
                    armed: AtomicBool::new(true),
                    report: None,
                });
            }
            Err(error) => error,
        };
        ambiguous |= error.retry() == Retry::Ambiguous;
        let gone = caller.strong_count() == 0;
        if error.retry() == Retry::Never || gone || !session.is_valid() {
            break error;
        }
        backoff.sleep(&coord.runtime()).await;
    };
    if ambiguous {
        // The entry may stand in the line without anybody who knows it.
        sweep(&session, &request.dir, request.nonce).await;
    }
    Err(session.ensure_valid().err().unwrap_or(error))
}

impl Place {
    /// The key of the entry.
    pub(crate) const fn key(&self) -> &Key {
        &self.key
    }

    /// The revision that created the entry: the fence of this place.
    pub(crate) const fn created(&self) -> Revision {
        self.created
    }

    /// The session that owns the entry.
    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// Tells by `report` what becomes of this place.
    pub(crate) fn tell(&mut self, report: TurnReport) {
        self.report = Some(Box::new(report));
    }

    /// It is our turn, and we hold with this token.
    pub(crate) fn acquired(&mut self, token: FencingToken) {
        if let Some(report) = &mut self.report {
            report.acquired(token);
        }
    }

    /// We give back what we hold.
    pub(crate) fn released(&self) {
        if let Some(report) = &self.report {
            report.released();
        }
    }

    /// What we hold is lost.
    pub(crate) fn lost(&self) {
        if let Some(report) = &self.report {
            report.lost();
        }
    }

    /// Asks the rule once.
    pub(crate) async fn verdict(&mut self, rule: &impl Rule) -> Result<Verdict> {
        let mut line = match self.line.take() {
            Some(line) => line,
            None => self.look().await?,
        };
        if planted(Bug::OrderByName) {
            line.children.sort_by(|a, b| a.key.cmp(&b.key));
        }
        let verdict = match line.position(&self.key) {
            None if planted(Bug::OwnEntryUnchecked) => Ok(Verdict::Granted),
            Some(at) => rule.judge(self, &line.children, at).await,
            None => Err(self.gone()),
        };
        if self.nonce_to_sweep.is_some() && matches!(verdict, Ok(Verdict::Granted)) {
            self.still_ours().await?;
        }
        // Only now, also behind what the rule asked the store: the verdict must not be older than the proof that our
        // session lives.
        if !planted(Bug::NoSessionProof) && !planted(Bug::OwnEntryUnchecked) {
            self.session.ensure_valid()?;
        }
        verdict
    }

    /// Fails if the entry is not the one that we joined with. Somebody deleted that one, and a request of ours that was
    /// late made another under the same key, further back in the line.
    async fn still_ours(&self) -> Result<()> {
        match self.read(&self.key, Freshness::Latest).await? {
            Some(entry) if entry.meta.created == self.created => Ok(()),
            _ => Err(self.gone()),
        }
    }

    /// The condition that the entry that we joined with is there.
    pub(crate) fn stands(&self) -> Check {
        let key = self.key.clone();
        match self.nonce_to_sweep {
            // Existence is identity: a name is used once, by one request.
            None => Check::Exists(key),
            // A request of ours that is late makes the entry again if somebody deleted it, further back in the line.
            Some(_) => Check::Created(key, self.created),
        }
    }

    fn gone(&self) -> Error {
        Error::new(ErrorKind::LockLost, "our entry in the line is gone: somebody deleted it")
            .with_context("key", &self.key)
    }

    /// Gives the entry a value, if it is the one that we joined with.
    ///
    /// # Cancel safety
    /// If the future is dropped, the value was set or not.
    pub(crate) async fn set(&self, value: &'static str) -> Result<()> {
        // Sent again after a lost reply, it changes nothing.
        let txn = Txn::new().check(self.stands()).update(&self.key, value);
        let set = insist(&self.session, || self.session.coord().commit(txn.clone())).await;
        self.session.ensure_valid()?;
        if set?.is_committed() { Ok(()) } else { Err(self.gone()) }
    }

    /// Waits until the rule grants.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed; the place stays until it is dropped.
    pub(crate) async fn turn(&mut self, rule: &impl Rule) -> Result<()> {
        loop {
            let verdict = self.verdict(rule).await?;
            if let (Verdict::Behind(_) | Verdict::Until(_), Some(report)) = (&verdict, &mut self.report) {
                report.waiting();
            }
            match verdict {
                Verdict::Granted => return Ok(()),
                Verdict::Behind(ahead) => {
                    self.wait_for(ahead.into_iter().map(Seen::Exists).collect()).await?
                }
                Verdict::Until(seen) => self.wait_for(seen).await?,
            }
            if planted(Bug::GrantOnWake) {
                return Ok(());
            }
        }
    }

    /// Waits until the rule grants, and holds.
    pub(crate) async fn hold(mut self, rule: &impl Rule) -> Result<Hold> {
        self.turn(rule).await?;
        Ok(Hold::new(self))
    }

    /// Asks the rule once, and holds; leaves if it is not our turn.
    pub(crate) async fn try_hold(mut self, rule: &impl Rule) -> Result<Option<Hold>> {
        match self.verdict(rule).await? {
            Verdict::Granted => Ok(Some(Hold::new(self))),
            _ if planted(Bug::TryTakesAnyway) => Ok(Some(Hold::new(self))),
            _ if planted(Bug::TryLeavesEntry) => {
                self.armed.store(false, Ordering::Relaxed);
                Ok(None)
            }
            Verdict::Behind(_) | Verdict::Until(_) => {
                self.leave().await?;
                Ok(None)
            }
        }
    }

    /// Waits until one of `seen` is no longer true, and no longer than our own entry and session last.
    async fn wait_for(&self, mut seen: Vec<Seen>) -> Result<()> {
        if planted(Bug::WaitsForNobody) {
            seen.clear();
        }
        seen.push(Seen::Exists(self.key.clone()));
        let ttl = self.session.ttl();
        let mut pause = ttl.mul_f64(1.0 + self.session.coord().runtime().unit());
        let passed = async {
            loop {
                tokio::time::sleep(pause).await;
                if self.passed_by(&seen).await? {
                    return Ok(());
                }
                pause = (pause * 2).min(ttl * RARELY);
            }
        };
        // A look that the store does not answer holds up neither the word that our session is over nor a wake-up.
        tokio::select! {
            biased;
            () = self.session.lost() => self.session.ensure_valid(),
            woken = self.woken(&seen) => woken,
            passed = passed => passed,
        }
    }

    /// Whether an entry that we wait for is another by now, that stands behind us.
    ///
    /// Who waits for a key does not see it go if it is back before the wait begins. An entry comes back when it was
    /// deleted by hand while its owner's request to join was still being sent: behind us, and waiting for us, while we
    /// would wait for it. That is rare, so we look rarely, and at nothing but what we wait for.
    async fn passed_by(&self, seen: &[Seen]) -> Result<bool> {
        for seen in seen {
            let Seen::Exists(ahead) = seen else { continue };
            if *ahead == self.key || ahead.parent() != self.dir {
                continue;
            }
            match self.read(ahead, Freshness::Session).await? {
                Some(entry) if entry.meta.created < self.created => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    async fn woken(&self, seen: &[Seen]) -> Result<()> {
        let coord = self.session.coord();
        let mut backoff = Backoff::new(RETRY_CAP);
        loop {
            match wait_any(coord, seen).await {
                Err(error) if error.retry() != Retry::Never => backoff.sleep(&coord.runtime()).await,
                woken => return woken,
            }
        }
    }

    async fn look(&self) -> Result<Listing> {
        insist(&self.session, || self.session.coord().list(&self.dir)).await
    }

    /// Reads a key that a rule asks about.
    pub(crate) async fn read(&self, key: &Key, freshness: Freshness) -> Result<Option<Entry>> {
        let coord = self.session.coord().clone().with_freshness(freshness);
        insist(&self.session, || coord.get(key)).await
    }

    /// Leaves the line and reports; goes on in the background if the future is dropped.
    ///
    /// # Errors
    /// `SessionLost` if the session ended before the store confirmed: the entry goes with the session.
    pub(crate) async fn leave(&self) -> Result<()> {
        self.armed.store(false, Ordering::Relaxed);
        let leaving = self.leaving();
        self.session.coord().runtime().run(leaving).await
    }

    /// Leaves the entry in the line for good. For entries that outlive their session.
    pub(crate) fn stay(self) {
        self.armed.store(false, Ordering::Relaxed);
    }

    /// The work of leaving, independent of this value.
    fn leaving(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        let (session, dir, key, nonce) =
            (self.session.clone(), self.dir.clone(), self.key.clone(), self.nonce_to_sweep);
        async move {
            delete_surely(&session, &key).await?;
            if let Some(nonce) = nonce {
                sweep(&session, &dir, nonce).await;
            }
            Ok(())
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.armed.load(Ordering::Relaxed) && !planted(Bug::DroppedPlaceStays) {
            let (leaving, key) = (self.leaving(), self.key.clone());
            self.session.coord().runtime().spawn(async move {
                if let Err(error) = leaving.await {
                    tracing::debug!(%key, %error, "an entry was not deleted; it goes with its session");
                }
            });
        }
    }
}

/// Returns once one of `seen` is no longer true.
async fn wait_any(coord: &Coord, seen: &[Seen]) -> Result<()> {
    let mut waits: Vec<_> = seen.iter().map(|seen| Box::pin(coord.wait(seen))).collect();
    // Polled in the order of the line, so that runs of the simulation repeat.
    poll_fn(|cx| {
        for wait in &mut waits {
            if let Poll::Ready(woken) = wait.as_mut().poll(cx) {
                return Poll::Ready(woken);
            }
        }
        Poll::Pending
    })
    .await
}

/// Deletes an entry of ours; tries until the store confirms or the session is over, with which the entry goes.
pub(crate) async fn delete_surely(session: &Session, key: &Key) -> Result<()> {
    // Rejected means that it is gone already, by an earlier try whose reply was lost. The entry's name is ours alone,
    // so deleting it again can hit nobody else's.
    if planted(Bug::ReleaseGivesUp) {
        return session.coord().commit(Txn::new().delete(key.clone())).await.map(drop);
    }
    insist(session, || session.coord().commit(Txn::new().delete(key.clone()))).await.map(drop)
}
