//! What the parts of one handle share.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use coord_api::{Error, ErrorKind, Result, kit::Runtime};
use tokio::sync::{oneshot, watch};

use crate::{
    call::{ReadJob, WriteJob},
    error::closed,
    file::{self, Identity, Opened},
    host::BootClock,
    presence::Presence,
    queue::Queue,
    reader::Reader,
    settings::{Settings, Synchronous},
    state::Limit,
    writer::Writer,
};

/// One handle's way to the file. Its two threads end once it is closed.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) runtime: Runtime,
    pub(crate) identity: Identity,
    pub(crate) presence: Presence,
    pub(crate) clock: BootClock,
    pub(crate) limit: Limit,
    pub(crate) poll: Duration,
    pub(crate) synchronous: Synchronous,
    pub(crate) writes: Queue<WriteJob>,
    pub(crate) reads: Queue<ReadJob>,
    closed: watch::Sender<bool>,
    /// Threads that have the file open.
    threads: watch::Sender<usize>,
    #[cfg(feature = "faults")]
    pub(crate) plan: crate::faults::Plan,
}

impl Store {
    /// Opens the file on a thread of its own.
    pub(crate) async fn open(settings: Settings, runtime: Runtime) -> Result<Arc<Self>> {
        let (reply, opened) = oneshot::channel();
        let opening = move || {
            let opened = file::open(&settings).and_then(|opened| Self::start(opened, &settings, runtime));
            if let Err(Ok(store)) = reply.send(opened) {
                store.close(); // the caller went away
            }
        };
        spawn("coord-sqlite-open", opening)?;
        opened.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unexpected, "opening the file panicked")))
    }

    fn start(opened: Opened, settings: &Settings, runtime: Runtime) -> Result<Arc<Self>> {
        let store = Arc::new(Self {
            runtime,
            identity: opened.identity,
            presence: opened.presence,
            clock: BootClock::new(),
            limit: Limit::new(settings),
            poll: settings.poll,
            synchronous: settings.synchronous,
            writes: Queue::new(),
            reads: Queue::new(),
            closed: watch::Sender::new(false),
            threads: watch::Sender::new(2),
            #[cfg(feature = "faults")]
            plan: crate::faults::Plan::default(),
        });
        let (writer, reader) =
            (Writer::new(opened.write, Arc::clone(&store)), Reader::new(opened.read, Arc::clone(&store)));
        let (a, b) = (Arc::clone(&store), Arc::clone(&store));
        // The last connection of a file takes SQLite's log along. Of two that close at once each sees the other and leaves
        // it, so the writer's is closed when the reader's is.
        let (reading, reader_ends) = mpsc::channel::<()>();
        let write = move || {
            writer.run();
            let _ = reader_ends.recv();
            drop(writer);
        };
        let read = move || {
            reader.run();
            drop(reading);
        };
        let started = spawn("coord-sqlite-w", move || a.ends_after(write))
            .and_then(|()| spawn("coord-sqlite-r", move || b.ends_after(read)));
        if started.is_err() {
            store.close();
        }
        started.map(|()| store)
    }

    fn ends_after(&self, work: impl FnOnce()) {
        work();
        self.threads.send_modify(|count| *count -= 1);
    }

    /// Fails once the handle is closed.
    pub(crate) fn ensure_open(&self) -> Result<()> {
        if *self.closed.borrow() { Err(closed()) } else { Ok(()) }
    }

    /// No more calls; those that wait are still done. Never blocks.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
        self.writes.close();
        self.reads.close();
    }

    /// Returns once the handle is closed.
    pub(crate) async fn closed(&self) {
        let mut closed = self.closed.subscribe();
        // An error means that the store is gone.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// Returns once the file is closed too.
    pub(crate) async fn ended(&self) {
        let mut threads = self.threads.subscribe();
        let _ = threads.wait_for(|count| *count == 0).await;
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let refused = |cause: io::Error| {
        Error::new(ErrorKind::Unexpected, "the system gives no threads").with_context("cause", cause)
    };
    thread::Builder::new().name(name.to_owned()).spawn(work).map(|_| ()).map_err(refused)
}
