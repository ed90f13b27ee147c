//! Work that runs in its caller's task, and outlives it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::Runtime;

/// The future of [`Runtime::run_here`].
///
/// It is polled in the caller's task, with the runtime entered, so that its timers are the runtime's. What a dropped
/// caller left unfinished moves to a task of the runtime: a call that was begun is never cancelled. A task for every
/// call would cost a change of threads each way, which is more than a fast store takes to answer.
pub struct Here<F: Future + Send + 'static>
where
    F::Output: Send + 'static,
{
    runtime: Runtime,
    /// `None` once it has ended.
    work: Option<Pin<Box<F>>>,
    begun: bool,
}

impl<F: Future + Send + 'static> Here<F>
where
    F::Output: Send + 'static,
{
    pub(super) fn new(runtime: Runtime, work: F) -> Self {
        Self { runtime, work: Some(Box::pin(work)), begun: false }
    }
}

impl<F: Future + Send + 'static> Future for Here<F>
where
    F::Output: Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let Some(work) = this.work.as_mut() else { return Poll::Pending };
        this.begun = true;
        let output = {
            let _entered = this.runtime.handle().enter();
            ready!(work.as_mut().poll(cx))
        };
        this.work = None;
        Poll::Ready(output)
    }
}

impl<F: Future + Send + 'static> Drop for Here<F>
where
    F::Output: Send + 'static,
{
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| self.begun) {
            self.runtime.spawn(work);
        }
    }
}

impl<F: Future + Send + 'static> fmt::Debug for Here<F>
where
    F::Output: Send + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Here").field("begun", &self.begun).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_was_begun_ends_also_if_the_caller_goes_away() {
        let runtime = Runtime::library().unwrap();
        let (go, gate) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel::<()>();
        let mut work = runtime.run_here(async move {
            let _ = gate.await;
            let _ = done.send(());
        });
        assert!((&mut work).now_or_never().is_none());
        drop(work);
        go.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_was_not_begun_never_begins() {
        let runtime = Runtime::library().unwrap();
        let (done, ended) = oneshot::channel::<()>();
        drop(runtime.run_here(async move {
            let _ = done.send(());
        }));
        assert!(ended.await.is_err());
    }

    /// The caller's clock may stand still; the work's does not.
    #[tokio::test(start_paused = true)]
    async fn timers_are_those_of_the_runtime() {
        let runtime = Runtime::library().unwrap();
        runtime.run_here(tokio::time::sleep(Duration::from_millis(5))).await;
    }
}
