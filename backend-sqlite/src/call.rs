//! From a caller's task to a thread of the handle, and back.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use coord_api::{Error, ErrorKind, OpContext, Result, Retry};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    error::{Fault, closed},
    reader::Reader,
    state::State,
    store::Store,
};

/// How long a call may take that has no deadline of its own.
const PATIENCE: Duration = Duration::from_secs(8);

/// Whose turn a job is: its thread begins it, or its caller withdraws it. Whoever comes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim(Arc<AtomicBool>);

impl Claim {
    /// `false` if the other side was first.
    pub(crate) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

/// Something to write, together with others in one transaction.
pub(crate) trait Write: Send {
    /// Does it. An error of the driver undoes the whole transaction; what is refused has written nothing.
    fn apply(&mut self, state: &mut State<'_>) -> rusqlite::Result<()>;

    /// Tells the caller what became of it.
    fn settle(self: Box<Self>, committed: Result<(), &Error>);
}

/// A job of the writer's.
pub(crate) struct WriteJob {
    pub(crate) claim: Claim,
    pub(crate) work: Box<dyn Write>,
}

/// A job of the reader's.
pub(crate) struct ReadJob {
    pub(crate) claim: Claim,
    pub(crate) work: Box<dyn FnOnce(&mut Reader) + Send>,
}

impl fmt::Debug for WriteJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteJob").field("claim", &self.claim).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadJob").field("claim", &self.claim).finish_non_exhaustive()
    }
}

struct Pending<T, F> {
    work: Option<F>,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Write for Pending<T, F>
where
    T: Send,
    F: FnOnce(&mut State<'_>) -> Result<T, Fault> + Send,
{
    fn apply(&mut self, state: &mut State<'_>) -> rusqlite::Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        self.outcome = match work(state) {
            Ok(value) => Some(Ok(value)),
            Err(Fault::Refused(error)) => Some(Err(error)),
            Err(Fault::Driver(error)) => return Err(error),
        };
        Ok(())
    }

    fn settle(self: Box<Self>, committed: Result<(), &Error>) {
        let outcome = match (committed, self.outcome) {
            (Ok(()), Some(outcome)) => outcome,
            (Ok(()), None) => return, // it has not begun, and its caller sees the reply dropped
            (Err(error), _) => Err(error.again()),
        };
        // The caller may have gone away; what was written stays.
        let _ = self.reply.send(outcome);
    }
}

/// Until when a call may take.
pub(crate) fn until(ctx: &OpContext) -> Instant {
    ctx.deadline.unwrap_or_else(|| Instant::now() + PATIENCE)
}

impl Store {
    /// Writes: `work` runs in a transaction, to its end also if the caller goes away.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        until: Instant,
        work: impl FnOnce(&mut State<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let claim = Claim::default();
        let pending = Pending { work: Some(work), outcome: None, reply };
        self.writes.push(WriteJob { claim: claim.clone(), work: Box::new(pending) });
        self.answer(until, answer, claim, true).await
    }

    /// Reads: `work` runs on the thread that reads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        until: Instant,
        work: impl FnOnce(&mut Reader) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let claim = Claim::default();
        let work = |reader: &mut Reader| {
            let found = work(reader).map_err(Fault::into_error);
            let _ = reply.send(found);
        };
        self.reads.push(ReadJob { claim: claim.clone(), work: Box::new(work) });
        self.answer(until, answer, claim, false).await
    }

    async fn answer<T: Send + 'static>(
        &self,
        until: Instant,
        answer: oneshot::Receiver<Result<T>>,
        claim: Claim,
        writes: bool,
    ) -> Result<T> {
        // On the library's clock: the caller's may stand still.
        let answer = self.runtime.run_here(async move { tokio::time::timeout_at(until, answer).await });
        let answer = match answer.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(closed()),
            Err(_) if claim.take() => {
                let late = "the file was not free before the deadline";
                Err(Error::new(ErrorKind::Timeout, late).with_retry(Retry::Safe))
            }
            Err(_) => {
                let retry = if writes { Retry::Ambiguous } else { Retry::Safe };
                Err(Error::new(ErrorKind::Timeout, "the disk did not answer before the deadline")
                    .with_retry(retry))
            }
        };
        answer.map_err(|error| error.with_context("file", self.identity.path().display()))
    }
}
