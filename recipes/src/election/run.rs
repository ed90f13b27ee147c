//! Doing something as long as we lead, term after term.

use std::{
    any::Any, future::pending, ops::ControlFlow, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration,
};

use coord_api::{Error, ErrorKind, Result, Session};
use futures::FutureExt;
use tokio::{sync::oneshot, time::Instant};

use super::{Candidate, Leadership};

/// How late a body may be stopped before it is said.
const SLACK: Duration = Duration::from_millis(100);
/// What a bound means that is too large for the clock.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

impl Candidate {
    /// Runs `body` whenever we lead, and stands again after each term, until a body breaks.
    ///
    /// A body that returns [`ControlFlow::Continue`] resigns: the next in line leads, and we stand at the end.
    /// [`ControlFlow::Break`] resigns and ends the run with its value. For a leader that stays, let the body work for ever.
    ///
    /// When the leadership is lost, [`Leadership::ending`] tells the body. It may then stop by itself within
    /// [`CandidateOptions::stop_within`](super::CandidateOptions::stop_within) and is dropped after that, at its next
    /// await point; so a body that awaits has stopped before another leads. One that blocks its thread cannot be
    /// stopped: the log says so, at level error, and only its epoch tells it from the leader.
    ///
    /// The body runs in the caller's task. What it spawns is its own to stop.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// use std::ops::ControlFlow;
    /// use coord_api::SessionOptions;
    /// # use coord_recipes::{Candidate, SessionKeeper};
    ///
    /// let keeper = SessionKeeper::new(&store, SessionOptions::default());
    /// let candidate = Candidate::new(&keeper, "/elections/scheduler", "node-1")?;
    /// let epoch = candidate
    ///     .run_while_leader(|leadership| async move {
    ///         println!("leading with epoch {}", leadership.epoch());
    ///         ControlFlow::Break(leadership.epoch())
    ///     })
    ///     .await?;
    /// assert!(!candidate.is_leader());
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// As [`Candidate::leadership`]; [`Unexpected`](ErrorKind::Unexpected) if the body panicked, after resigning.
    ///
    /// # Cancel safety
    /// Safe: dropping the future drops the body and resigns in the background.
    pub async fn run_while_leader<T, F, B>(&self, mut body: F) -> Result<T>
    where
        F: FnMut(Arc<Leadership>) -> B,
        B: Future<Output = ControlFlow<T>>,
    {
        loop {
            let leadership = Arc::new(self.leadership().await?);
            let outcome = self.term(&leadership, async { body(Arc::clone(&leadership)).await }).await;
            // Not by dropping: the body may have kept a clone.
            if let Err(error) = leadership.end().await {
                tracing::debug!(epoch = %leadership.epoch(), %error, "resigning was not confirmed");
            }
            if let Some(ControlFlow::Break(value)) = outcome? {
                return Ok(value);
            }
        }
    }

    /// One term: `None` if the body was stopped.
    async fn term<T>(
        &self,
        leadership: &Leadership,
        body: impl Future<Output = ControlFlow<T>>,
    ) -> Result<Option<ControlFlow<T>>> {
        let bound = self.options().stop_within.unwrap_or(leadership.session().ttl() / 20);
        let _watched = watch_over(leadership, bound);
        let mut body = pin!(AssertUnwindSafe(body).catch_unwind());
        let ended = tokio::select! {
            biased;
            // First: a body that was frozen with us must not take another step in a term that is over.
            () = self.over(leadership) => {
                leadership.tell_ending();
                let stop_by = stop_by(leadership.session(), bound);
                if stop_by <= Instant::now() {
                    return Ok(None);
                }
                match tokio::time::timeout_at(stop_by, &mut body).await {
                    Ok(ended) => ended,
                    Err(_) => return Ok(None),
                }
            }
            ended = &mut body => ended,
        };
        ended.map(Some).map_err(|panic| panicked(&*panic))
    }

    /// Returns once the term is over, or should be.
    async fn over(&self, leadership: &Leadership) {
        let outranked = async {
            if !self.options().yields_leadership || leadership.outranked().await.is_err() {
                pending().await
            }
        };
        tokio::select! {
            biased;
            () = leadership.lost() => {}
            () = outranked => {}
        }
    }
}

/// Until when a body may stop by itself: `bound` from now, or from the deadline that passed while nobody looked.
fn stop_by(session: &Session, bound: Duration) -> Instant {
    let now = Instant::now();
    let after = |at: Instant| at.checked_add(bound).unwrap_or(now + FOREVER);
    if session.is_valid() {
        return after(now);
    }
    // A lost session tells when its last renewal was sent; its deadline was nine tenths of the ttl later.
    let deadline = session.valid_until() + (session.ttl() - session.ttl() / 10);
    after(deadline.min(now))
}

/// Says loudly, from another thread where the store's runtime has one, that a body goes on after its leadership was
/// lost. Stops watching when the returned half is dropped.
fn watch_over(leadership: &Leadership, bound: Duration) -> oneshot::Sender<()> {
    let (sender, stopped) = oneshot::channel();
    let (hold, id) = (leadership.shared_hold(), leadership.id().to_owned());
    leadership.session().coord().runtime().spawn(async move {
        let overdue = async {
            hold.lost().await;
            tokio::time::sleep(bound.saturating_add(SLACK)).await;
        };
        tokio::select! {
            biased;
            _ = stopped => {}
            () = overdue => tracing::error!(
                candidate = id,
                epoch = %hold.token(),
                "the leadership is lost and its body still runs: it blocks its thread, and another may lead beside it"
            ),
        }
    });
    sender
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    Error::new(ErrorKind::Unexpected, "the body of a leader panicked")
        .with_operation("run_while_leader")
        .with_context("panic", said.unwrap_or_default())
}
