//! How a commit wakes other processes: whoever commits reads one byte of the small file beside the store's, and the
//! kernel tells those who listen of the read.
//!
//! A read and not a write: it costs the disk nothing. The store's own files would not do, since a commit becomes visible
//! by a store to shared memory, of which the kernel tells nobody.

use std::sync::Arc;

use crate::store::Store;

/// Listens until it is dropped.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Ears {
    events: Arc<std::os::fd::OwnedFd>,
    watch: i32,
}

#[cfg(target_os = "linux")]
impl Drop for Ears {
    fn drop(&mut self) {
        // The thread is told of that too, and ends.
        let _ = rustix::fs::inotify::remove_watch(&self.events, self.watch);
    }
}

#[cfg(target_os = "linux")]
impl Ears {
    /// Nudges the reader at every commit; `None` where the kernel cannot tell, and the reader looks by itself.
    pub(crate) fn listen(store: &Arc<Store>) -> Option<Self> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

        let opened = init(CreateFlags::CLOEXEC).and_then(|events| {
            let watch = add_watch(&events, store.presence.path(), WatchFlags::ACCESS)?;
            Ok(Self { events: Arc::new(events), watch })
        });
        let started = opened.map_err(std::io::Error::from).and_then(|ears| {
            let (events, store) = (Arc::clone(&ears.events), Arc::clone(store));
            let thread = std::thread::Builder::new().name("coord-sqlite-e".to_owned());
            thread.spawn(move || hear(&events, &store)).map(|_| ears)
        });
        match started {
            Ok(ears) => Some(ears),
            Err(error) => {
                tracing::info!(%error, "commits of other processes are seen by looking alone");
                None
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn hear(events: &std::os::fd::OwnedFd, store: &Store) {
    use rustix::fs::inotify::{ReadFlags, Reader};

    let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
    let mut reader = Reader::new(events, &mut buffer);
    loop {
        match reader.next().map(|event| event.events()) {
            // Nobody listens any more, or the file went.
            Ok(what) if what.contains(ReadFlags::IGNORED) => return,
            Ok(_) if !reader.is_buffer_empty() => {}
            Ok(_) => store.reads.nudge(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Elsewhere the reader looks by itself.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Ears;

#[cfg(not(target_os = "linux"))]
impl Ears {
    pub(crate) fn listen(_: &Arc<Store>) -> Option<Self> {
        None
    }
}
