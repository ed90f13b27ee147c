//! Standing in an election.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use coord_api::{Error, ErrorKind, FencingToken, IntoDir, Result, Session, events::Recipe, kit::Backoff};
use tokio::sync::watch;

use super::{Election, Leadership, TAG, giveway};
use crate::planted::{Bug, planted};
use crate::{
    Hold, SessionKeeper,
    insist::RETRY_CAP,
    line::{Line, first_in_line},
};

/// Where a candidate is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CandidateState {
    /// Not in the line.
    #[default]
    Out,
    /// In the line, or about to join it with the next session.
    Waiting,
    /// It leads, with this epoch.
    Leading(FencingToken),
}

/// How a candidate behaves.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CandidateOptions {
    /// Candidates let those of higher priority behind them pass, as long as they wait. 0, the lowest, if not set.
    pub priority: u32,
    /// Whether [`Candidate::run_while_leader`] also ends a leadership for a candidate of higher priority.
    pub yields_leadership: bool,
    /// How long the body of [`Candidate::run_while_leader`] may take to stop by itself before it is dropped.
    ///
    /// Without it half of the time between our deadline and the moment when the store can let in another: a twentieth
    /// of the session's ttl. What is longer than twice that may run beside the next leader.
    pub stop_within: Option<Duration>,
}

impl CandidateOptions {
    /// The same with this priority.
    #[must_use]
    pub const fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// The same, giving also leadership to higher priorities.
    #[must_use]
    pub const fn yielding_leadership(mut self) -> Self {
        self.yields_leadership = true;
        self
    }

    /// The same with this bound for a body to stop.
    #[must_use]
    pub const fn with_stop_within(mut self, bound: Duration) -> Self {
        self.stop_within = Some(bound);
        self
    }
}

/// One who stands in an election, again after each lost session.
///
/// Stands when asked to: by [`Candidate::leadership`] once, by [`Candidate::run_while_leader`] again and again. Clones
/// are the same candidate, so that any part of the program can ask [`Candidate::is_leader`].
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_api::{SessionOptions, Txn};
/// # use coord_recipes::{Candidate, SessionKeeper};
///
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let candidate = Candidate::new(&keeper, "/elections/scheduler", "node-1")?;
/// let leadership = candidate.leadership().await?;
/// assert!(candidate.is_leader());
/// // Applied only while we lead: a leader of the past changes nothing.
/// leadership.commit(Txn::new().put("/scheduler/plan", "7")).await?;
/// leadership.resign().await?;
/// assert!(!candidate.is_leader());
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Candidate(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    keeper: SessionKeeper,
    pub(super) election: Election,
    pub(super) id: String,
    pub(super) options: CandidateOptions,
    state: watch::Sender<CandidateState>,
    standing: AtomicBool,
    leading: Mutex<Weak<Hold>>,
}

impl Candidate {
    /// The candidate `id` in the election `name`. Does not stand yet; talks to nobody.
    ///
    /// The id is what others see. Give every candidate its own: [`Leadership::hand_over`] finds its target by it.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the name is no directory, or the root, or the id is empty.
    pub fn new(keeper: &SessionKeeper, name: impl IntoDir, id: impl Into<String>) -> Result<Self> {
        Self::with_options(keeper, name, id, CandidateOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Candidate::new`].
    pub fn with_options(
        keeper: &SessionKeeper,
        name: impl IntoDir,
        id: impl Into<String>,
        options: CandidateOptions,
    ) -> Result<Self> {
        let election = Election::new(keeper.coord(), name)?;
        let id = id.into();
        if id.is_empty() {
            return Err(Error::invalid("a candidate needs an id"));
        }
        election.notes()?;
        Ok(Self(Arc::new(Inner {
            keeper: keeper.clone(),
            election,
            id,
            options,
            state: watch::Sender::default(),
            standing: AtomicBool::new(false),
            leading: Mutex::default(),
        })))
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// How it behaves.
    pub(super) fn options(&self) -> &CandidateOptions {
        &self.0.options
    }

    /// The election as others see it.
    #[must_use]
    pub fn election(&self) -> &Election {
        &self.0.election
    }

    /// Whether this candidate surely leads, by the local clock. Asks nobody and costs next to nothing.
    ///
    /// False before another can lead (promise G2). A process that was frozen past its deadline gets `false` on its
    /// first question.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.epoch().is_some()
    }

    /// The epoch with which this candidate surely leads; `None` if it does not. As [`Candidate::is_leader`].
    #[must_use]
    pub fn epoch(&self) -> Option<FencingToken> {
        let hold = self.0.leading().upgrade()?;
        (hold.is_valid() || planted(Bug::LeaderForEver)).then(|| hold.token())
    }

    /// The state and its changes: the place for listeners.
    ///
    /// A signal, which may come late: before you act as the leader, ask [`Candidate::is_leader`].
    #[must_use]
    pub fn states(&self) -> watch::Receiver<CandidateState> {
        self.0.state.subscribe()
    }

    /// Joins the line and waits until we lead, however long. Joins again with the next session if one is lost, and
    /// after somebody deleted our entry.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if this candidate stands already or still leads; those of
    /// [`SessionKeeper::session`]; what the store refuses for good.
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the line, also if the store had not answered yet.
    pub async fn leadership(&self) -> Result<Leadership> {
        let stand = Stand::begin(&self.0)?;
        let mut backoff = Backoff::new(RETRY_CAP);
        loop {
            let session = self.0.keeper.session().await?;
            match self.0.campaign(&session).await {
                Ok(Some(hold)) => return Ok(Leadership::begin(stand, hold)),
                Ok(None) => {} // gave way: to the end of the line
                Err(error) if matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::LockLost) => {
                    tracing::debug!(candidate = self.0.id, %error, "lost the place in the line; standing again");
                    backoff.sleep(&session.coord().runtime()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Inner {
    /// Stands once: `None` if we gave way to somebody behind us.
    async fn campaign(&self, session: &Session) -> Result<Option<Hold>> {
        let line = Line::new(session, &self.election.dir, TAG)?.told_as(Recipe::Leadership);
        let mut place = line.join(Bytes::from(self.id.clone())).await?;
        let (key, notes) = (place.key().clone(), self.election.notes()?);
        tokio::select! {
            biased;
            turn = place.turn(&first_in_line) => turn?,
            () = giveway::asked(session, &self.election.dir, &notes, &key, self.options.priority) => {
                place.leave().await?;
                return Ok(None);
            }
        }
        Ok(Some(Hold::new(place)))
    }

    fn leading(&self) -> MutexGuard<'_, Weak<Hold>> {
        self.leading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn began(&self, hold: &Arc<Hold>) {
        *self.leading() = Arc::downgrade(hold);
        self.state.send_replace(CandidateState::Leading(hold.token()));
    }

    /// The leadership of this epoch is over. A later one is not touched.
    pub(super) fn ended(&self, epoch: FencingToken) {
        self.state.send_if_modified(|state| {
            let ours = *state == CandidateState::Leading(epoch);
            if ours {
                *state = CandidateState::Out;
            }
            ours
        });
    }
}

/// The right of a candidate to stand, which it has once.
#[derive(Debug)]
pub(super) struct Stand {
    candidate: Arc<Inner>,
    over: AtomicBool,
}

impl Stand {
    fn begin(candidate: &Arc<Inner>) -> Result<Self> {
        if candidate.standing.swap(true, Ordering::AcqRel) {
            return Err(
                Error::invalid("this candidate stands already").with_context("candidate", &candidate.id)
            );
        }
        candidate.state.send_replace(CandidateState::Waiting);
        Ok(Self { candidate: Arc::clone(candidate), over: AtomicBool::new(false) })
    }

    pub(super) fn candidate(&self) -> &Arc<Inner> {
        &self.candidate
    }

    /// Gives the right back.
    pub(super) fn end(&self) {
        if self.over.swap(true, Ordering::AcqRel) {
            return;
        }
        *self.candidate.leading() = Weak::new();
        self.candidate.state.send_if_modified(|state| std::mem::take(state) != CandidateState::Out);
        self.candidate.standing.store(false, Ordering::Release);
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.end();
    }
}
