//! Which directories have a hub, and for how long.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use tokio::sync::watch;

use super::Hub;
use crate::{Dir, Key, Start, WatchStream};

/// How long a hub outlives its last user: long enough for the next waiter of a busy lock to find it.
const LINGER: Duration = Duration::from_secs(5);

/// The hubs of one backend handle, by directory, reference-counted.
#[derive(Clone, Debug, Default)]
pub struct Hubs(Arc<Mutex<HashMap<Dir, Slot>>>);

#[derive(Debug)]
struct Slot {
    hub: Arc<Hub>,
    users: watch::Sender<usize>,
}

impl Hubs {
    /// The hub of `dir` if there is one. Does not start one.
    #[must_use]
    pub fn live(&self, dir: &Dir) -> Option<HubRef> {
        let slots = self.lock();
        slots.get(dir).map(HubRef::new)
    }

    /// The hub whose directory is or holds `dir`, the nearest of them.
    #[must_use]
    pub fn covering(&self, dir: &Dir) -> Option<HubRef> {
        let slots = self.lock();
        if slots.is_empty() {
            return None;
        }
        let mut above = dir.clone();
        loop {
            if let Some(slot) = slots.get(&above) {
                return Some(HubRef::new(slot));
            }
            if above.is_root() {
                return None;
            }
            above = Key::from_store(above.as_str()).parent();
        }
    }

    /// The hub of `dir`; `start` begins its feed if it is new.
    ///
    /// The feed must end when [`Hubs::unused`] returns for its hub.
    pub fn get_or_start(&self, dir: &Dir, new: impl FnOnce() -> Hub, start: impl FnOnce(Arc<Hub>)) -> HubRef {
        let mut slots = self.lock();
        let mut fresh = None;
        let slot = slots.entry(dir.clone()).or_insert_with(|| {
            let hub = Arc::new(new());
            fresh = Some(Arc::clone(&hub));
            Slot { hub, users: watch::Sender::new(0) }
        });
        let found = HubRef::new(slot);
        drop(slots);
        if let Some(hub) = fresh {
            start(hub);
        }
        found
    }

    /// Returns once nobody has used `hub` for a while; it is then no longer found, and its feed must end.
    pub async fn unused(&self, hub: &Arc<Hub>) {
        let Some(mut users) = self.users_of(hub) else { return };
        loop {
            if users.wait_for(|users| *users == 0).await.is_err() {
                return;
            }
            tokio::select! {
                biased;
                // An error means that it was closed or forgotten, and that its last user is gone since.
                came = users.wait_for(|users| *users > 0) => if came.is_err() {
                    return;
                },
                () = tokio::time::sleep(LINGER) => {
                    let mut slots = self.lock();
                    // Looked at under the lock: a user may have come while the timer fired.
                    if slots.get(hub.dir()).is_none_or(|slot| !Arc::ptr_eq(&slot.hub, hub) || *slot.users.borrow() == 0) {
                        remove(&mut slots, hub);
                        return;
                    }
                }
            }
        }
    }

    /// Forgets `hub`, whose feed ended by itself; the next user starts a new one.
    pub fn forget(&self, hub: &Arc<Hub>) {
        remove(&mut self.lock(), hub);
    }

    /// Ends all hubs with an error for those who still use them.
    pub fn close(&self, error: impl Fn() -> crate::Error) {
        let slots = std::mem::take(&mut *self.lock());
        for slot in slots.into_values() {
            slot.hub.fail(error());
        }
    }

    fn users_of(&self, hub: &Arc<Hub>) -> Option<watch::Receiver<usize>> {
        let slots = self.lock();
        slots.get(hub.dir()).filter(|slot| Arc::ptr_eq(&slot.hub, hub)).map(|slot| slot.users.subscribe())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Dir, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove(slots: &mut HashMap<Dir, Slot>, hub: &Arc<Hub>) {
    if slots.get(hub.dir()).is_some_and(|slot| Arc::ptr_eq(&slot.hub, hub)) {
        slots.remove(hub.dir());
    }
}

/// A use of a hub: the feed runs at least as long.
#[derive(Debug)]
pub struct HubRef {
    hub: Arc<Hub>,
    users: watch::Sender<usize>,
}

impl HubRef {
    fn new(slot: &Slot) -> Self {
        slot.users.send_modify(|users| *users += 1);
        Self { hub: Arc::clone(&slot.hub), users: slot.users.clone() }
    }

    /// Streams the hub's changes; the stream is a use of the hub.
    #[must_use]
    pub fn into_watch(self, start: Start) -> WatchStream {
        let changes = Arc::clone(&self.hub).watch(start);
        changes.inspect(move |_| _ = &self).boxed()
    }
}

impl Deref for HubRef {
    type Target = Hub;
    fn deref(&self) -> &Hub {
        &self.hub
    }
}

impl Drop for HubRef {
    fn drop(&mut self) {
        self.users.send_modify(|users| *users -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Child, Error, ErrorKind, Revision, kit::Rank};

    fn no_places(key: &Key, _: Revision) -> (Rank, Child) {
        (Rank::Other, Child::new(key.clone(), None, None))
    }

    /// A hub with one user, and the end of its feed.
    fn in_use(hubs: &Hubs) -> (HubRef, tokio::task::JoinHandle<()>) {
        let dir = Dir::parse("/d").unwrap();
        let mut feed = None;
        let used = hubs.get_or_start(
            &dir,
            || Hub::new(dir.clone(), no_places),
            |hub| {
                let hubs = hubs.clone();
                feed = Some(tokio::spawn(async move { hubs.unused(&hub).await }));
            },
        );
        (used, feed.unwrap())
    }

    /// In real time: a feed that spins would keep a paused clock from moving.
    async fn ends(feed: tokio::task::JoinHandle<()>) {
        tokio::time::timeout(Duration::from_secs(2), feed).await.expect("the feed ends").unwrap();
    }

    #[tokio::test]
    async fn the_feed_of_a_closed_hub_ends_with_its_last_user() {
        let hubs = Hubs::default();
        let (used, feed) = in_use(&hubs);
        tokio::task::yield_now().await;
        hubs.close(|| Error::new(ErrorKind::Closed, "closed"));
        drop(used);
        ends(feed).await;
    }

    #[tokio::test]
    async fn the_feed_of_a_forgotten_hub_ends_with_its_last_user() {
        let hubs = Hubs::default();
        let (used, feed) = in_use(&hubs);
        tokio::task::yield_now().await;
        hubs.forget(&used.hub);
        drop(used);
        ends(feed).await;
    }

    #[test]
    fn the_nearest_hub_is_found_and_no_neighbours() {
        let hubs = Hubs::default();
        let dir = |path| Dir::parse(path).unwrap();
        let made = ["/a", "/a/b/c"]
            .map(|path| hubs.get_or_start(&dir(path), || Hub::new(dir(path), no_places), |_| {}));
        for (path, nearest) in [
            ("/a", Some("/a")),
            ("/a/b", Some("/a")),
            ("/a/b/c/d", Some("/a/b/c")),
            ("/a/b/cd", Some("/a")),
            ("/ab", None),
            ("/", None),
        ] {
            let found = hubs.covering(&dir(path)).map(|hub| hub.dir().clone());
            assert_eq!(found, nearest.map(dir), "{path}");
        }
        drop(made);
        let all = hubs.get_or_start(&Dir::root(), || Hub::new(Dir::root(), no_places), |_| {});
        assert_eq!(hubs.covering(&dir("/ab")).unwrap().dir(), all.dir());
    }

    #[tokio::test(start_paused = true)]
    async fn a_hub_lingers_for_the_next_user() {
        let hubs = Hubs::default();
        let dir = Dir::parse("/d").unwrap();
        let (used, feed) = in_use(&hubs);
        drop(used);
        tokio::time::sleep(LINGER / 2).await;
        let again = hubs.live(&dir).expect("it lingers");
        tokio::time::sleep(LINGER * 2).await;
        assert!(hubs.live(&dir).is_some(), "in use");
        drop(again);
        feed.await.unwrap();
        assert!(hubs.live(&dir).is_none());
    }
}
