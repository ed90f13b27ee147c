//! The one seam for spawning and randomness.

use std::{
    fmt,
    future::{Future, poll_fn},
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::{Context, Poll, ready},
    thread,
    time::SystemTime,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{runtime::Handle, task::JoinHandle};

use super::Here;
use crate::{Error, ErrorKind, Nonce, Result};

/// Where work runs that must outlive its caller, and where its randomness comes from.
///
/// Real stores use [`Runtime::library`], a runtime that the process owns: a caller who blocks or shuts down its own
/// runtime stops no keepalive and cancels no write (promises G9 and G11). The memory backend uses
/// [`Runtime::current`], so that a test under a paused clock sees everything happen in order.
#[derive(Clone, Debug)]
pub struct Runtime {
    handle: Handle,
    /// Whether it is the library's own, whose threads renew sessions.
    library: bool,
    /// `None` means the operating system's randomness.
    seeded: Option<Arc<Mutex<StdRng>>>,
    gate: Option<Arc<dyn Gate>>,
}

/// Says when the tasks of a [`Runtime`] may go on.
///
/// For simulations, in which a whole process stands still while the clock runs: its timers fire late then, as after a
/// stop signal or a suspended machine.
pub trait Gate: fmt::Debug + Send + Sync + 'static {
    /// Ready while tasks may be polled; else wakes the caller's task as soon as they may.
    fn poll_open(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl Runtime {
    /// The library's own runtime; started on first use and never stopped. Two threads, and one where the process may
    /// use no more than two processors.
    ///
    /// # Errors
    /// [`Unexpected`](ErrorKind::Unexpected) if the system gives no threads.
    pub fn library() -> Result<Self> {
        static LIBRARY: OnceLock<std::io::Result<tokio::runtime::Runtime>> = OnceLock::new();
        let runtime = LIBRARY.get_or_init(|| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(library_threads())
                .thread_name("coord-io")
                .enable_all()
                .build()
        });
        match runtime {
            Ok(runtime) => {
                Ok(Self { handle: runtime.handle().clone(), library: true, seeded: None, gate: None })
            }
            Err(e) => Err(Error::new(ErrorKind::Unexpected, "the system gives no threads")
                .with_context("cause", e.kind())),
        }
    }

    /// The caller's runtime.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) outside of a tokio runtime.
    pub fn current() -> Result<Self> {
        let handle =
            Handle::try_current().map_err(|_| Error::invalid("this needs a tokio runtime around it"))?;
        Ok(Self { handle, library: false, seeded: None, gate: None })
    }

    /// The same, with randomness from a seed: the same seed gives the same run.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seeded = Some(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))));
        self
    }

    /// The same, with every task behind `gate`.
    #[must_use]
    pub fn with_gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Runs `work` whether or not anybody waits for it. Never blocks; works from any thread.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        match &self.gate {
            None => self.handle.spawn(work),
            Some(gate) => self.handle.spawn(behind(Arc::clone(gate), work)),
        }
    }

    /// Runs `work` to its end also if the returned future is dropped.
    ///
    /// # Errors
    /// Those of `work`, and ambiguous if the runtime was shut down under it.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self.spawn(work).await {
            Ok(result) => result,
            Err(e) => Err(Error::ambiguous("the task that did it is gone").with_source(e)),
        }
    }

    /// Runs `work` in the caller's task, and to its end also if the returned future is dropped once it was polled.
    ///
    /// For drivers whose own tasks read the replies. Where a caller that stands still could hold up a shared
    /// connection, use [`Runtime::run`].
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |coord| {
    /// let runtime = coord.runtime();
    /// let (done, told) = tokio::sync::oneshot::channel();
    /// let mut write = Box::pin(runtime.run_here(async move {
    ///     tokio::task::yield_now().await; // a request on its way
    ///     done.send("applied").ok();
    /// }));
    /// assert!(futures::poll!(write.as_mut()).is_pending());
    /// drop(write); // the caller goes away, the write does not
    /// assert_eq!(told.await?, "applied");
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// None of its own: the output is that of `work`.
    ///
    /// # Cancel safety
    /// Dropped before its first poll, nothing has begun and nothing will; dropped later, `work` goes on to its end in a
    /// task of this runtime.
    pub fn run_here<F>(&self, work: F) -> Here<F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Here::new(self.clone(), work)
    }

    /// Runs code of the program, which may block: on a thread that renews no session (promise G11).
    ///
    /// On [`Runtime::current`] it runs at once in the caller's task: the program holds up nobody but itself there, and a
    /// simulation sees everything happen in order.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |coord| {
    /// let port = coord.runtime().run_blocking(|| "4711".parse::<u16>()).await??;
    /// assert_eq!(port, 4711);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`Unexpected`](ErrorKind::Unexpected) if it panicked.
    ///
    /// # Cancel safety
    /// Once polled, the code runs to its end; what it gives is lost if the future is dropped.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        code: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let done = match self.library {
            true => self.handle.spawn_blocking(code).await.ok(),
            false => catch_unwind(AssertUnwindSafe(code)).ok(),
        };
        done.ok_or_else(|| Error::new(ErrorKind::Unexpected, "code of the program panicked"))
    }

    /// Enters the runtime, for drivers that spawn by themselves.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// A fresh nonce.
    #[must_use]
    pub fn nonce(&self) -> Nonce {
        Nonce::new(self.with_rng(|rng| rng.random(), || rand::rng().random()))
    }

    /// A fresh nonce that tells when it was drawn ([`Nonce::drawn_at`]); with a seed one that does not, because the same
    /// seed must give the same run.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "for people to read; nothing is decided by it")]
    pub fn dated_nonce(&self) -> Nonce {
        if self.seeded.is_some() {
            return self.nonce();
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Nonce::dated(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), rand::rng().random())
    }

    /// A number from 0 up to 1, for jitter.
    #[must_use]
    pub fn unit(&self) -> f64 {
        self.with_rng(|rng| rng.random(), || rand::rng().random())
    }

    fn with_rng<T>(&self, seeded: impl FnOnce(&mut StdRng) -> T, system: impl FnOnce() -> T) -> T {
        match &self.seeded {
            Some(rng) => seeded(&mut rng.lock().unwrap_or_else(PoisonError::into_inner)),
            None => system(),
        }
    }
}

/// Where processors are scarce, a second thread is woken for nothing with most of the replies: the first takes them all
/// before it gets a turn.
fn library_threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    if processors > 2 { 2 } else { 1 }
}

/// `work`, polled only while the gate is open.
async fn behind<F: Future>(gate: Arc<dyn Gate>, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|cx| {
        ready!(gate.poll_open(cx));
        work.as_mut().poll(cx)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[derive(Debug, Default)]
    struct Shut(AtomicBool, Mutex<Option<std::task::Waker>>);

    impl Gate for Shut {
        fn poll_open(&self, cx: &mut Context<'_>) -> Poll<()> {
            if self.0.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            *self.1.lock().unwrap() = Some(cx.waker().clone());
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_behind_a_shut_gate_stand_still_until_it_opens() {
        let gate = Arc::new(Shut::default());
        let done = Arc::new(Notify::new());
        let tell = Arc::clone(&done);
        let runtime = Runtime::current().unwrap().with_gate(Arc::<Shut>::clone(&gate));
        let task = runtime.spawn(async move { tell.notify_one() });
        let waited = tokio::time::timeout(std::time::Duration::from_secs(10), done.notified()).await;
        assert!(waited.is_err(), "it went on behind the gate");
        gate.0.store(true, Ordering::SeqCst);
        gate.1.lock().unwrap().take().unwrap().wake();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn a_nonce_tells_its_time_unless_a_run_must_be_the_same_again() {
        let runtime = Runtime::current().unwrap();
        // Later than this was written, and no two are the same.
        let (one, two) = (runtime.dated_nonce(), runtime.dated_nonce());
        assert!(one.drawn_at().is_some_and(|at| at > 1_700_000_000_000) && one != two, "{one} {two}");
        let seeded = || runtime.clone().with_seed(7);
        assert_eq!(seeded().dated_nonce(), seeded().nonce());
    }

    #[tokio::test]
    async fn code_that_blocks_holds_up_no_task_of_the_library() {
        let runtime = Runtime::library().unwrap();
        // As many as the library has threads, and more.
        let all = (0..4).map(|_| {
            let (own, tasks) = (runtime.clone(), runtime.clone());
            let code = move || {
                let (done, told) = std::sync::mpsc::channel();
                tasks.spawn(async move { done.send(()) });
                told.recv_timeout(std::time::Duration::from_secs(10))
            };
            runtime.run(async move { own.run_blocking(code).await })
        });
        let all = futures::future::join_all(all).await;
        assert!(all.iter().all(|ran| matches!(ran, Ok(Ok(())))), "{all:?}");
    }

    #[tokio::test]
    async fn code_runs_at_once_on_the_callers_runtime_and_a_panic_is_an_error_on_either() {
        let current = Runtime::current().unwrap();
        let here = thread::current().id();
        let ran = futures::poll!(std::pin::pin!(current.run_blocking(|| thread::current().id())));
        assert!(matches!(ran, Poll::Ready(Ok(there)) if there == here), "{ran:?}");
        for runtime in [current, Runtime::library().unwrap()] {
            let error = runtime.run_blocking(|| panic!("on purpose")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unexpected);
        }
    }
}
