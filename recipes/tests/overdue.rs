//! A leader's body that cannot be stopped is told of, loudly.

use std::{
    fmt::{Debug, Write},
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use coord_api::{Coord, SessionOptions, kit::Runtime};
use coord_backend_memory::{MemoryBackend, MemoryStore};
use coord_recipes::{Candidate, CandidateOptions, SessionKeeper};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Keeps what is logged at level error.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().expect("no panic").push(text.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// BB-017 (cilium#42920): a shutdown hook outlived its lease, and nobody said so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_blocks_its_thread_after_the_loss_is_logged_as_an_error() {
    let errors = Errors::default();
    tracing::subscriber::set_global_default(errors.clone()).unwrap();
    let runtime = Runtime::current().unwrap();
    let store = MemoryStore::new(&runtime);
    let coord = Coord::new(Arc::new(MemoryBackend::new(&store, runtime)));
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(Duration::from_secs(10)));
    let options = CandidateOptions::default().with_stop_within(Duration::from_millis(20));
    let candidate = Candidate::with_options(&keeper, "/e", "stubborn", options).unwrap();

    let (blocked, let_go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let run = tokio::spawn({
        let (blocked, let_go) = (Arc::clone(&blocked), Arc::clone(&let_go));
        async move {
            let body = async |blocked: Arc<AtomicBool>, let_go: Arc<AtomicBool>| {
                // A worker's newest task waits for the worker's next await point, and cannot be taken over before.
                tokio::task::yield_now().await;
                blocked.store(true, Ordering::SeqCst);
                while !let_go.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                ControlFlow::Break(())
            };
            candidate.run_while_leader(|_| body(Arc::clone(&blocked), Arc::clone(&let_go))).await
        }
    });
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    let tick = || async {
        if tokio::time::Instant::now() > deadline {
            let_go.store(true, Ordering::SeqCst); // a blocked worker would keep the test from failing
            panic!("it never happened");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    while !blocked.load(Ordering::SeqCst) {
        tick().await;
    }
    keeper.session().await.unwrap().close().await.unwrap();
    while !errors
        .0
        .lock()
        .unwrap()
        .iter()
        .any(|text| text.contains("still runs") && text.contains("stubborn"))
    {
        tick().await;
    }
    let_go.store(true, Ordering::SeqCst);
    run.await.unwrap().unwrap();
}
