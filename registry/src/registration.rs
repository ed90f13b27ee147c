//! One instance that this process has registered.

use std::{
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use coord_api::{Error, ErrorKind, Key, Result};
use coord_recipes::{PersistentEphemeral, RegistrationState, SessionKeeper};
use futures::FutureExt;
use serde::Serialize;

use crate::{
    Instance, Registry, Status, permanent,
    registry::{not_holder, too_late},
};

/// An instance in the registry, registered by this process.
///
/// An ephemeral one is registered again with each new session of its keeper, and when somebody deletes it, with what it
/// said last; it ends by [`Registration::close`] or, in the background, when this is dropped. A permanent one is left
/// alone by both, and ends by [`Registration::unregister`].
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use std::time::Duration;
/// use coord_api::SessionOptions;
/// use coord_recipes::SessionKeeper;
/// use coord_registry::{Instance, Registry, Status};
///
/// let registry = Registry::new(&store, "/services")?;
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let me = registry.register(&keeper, Instance::new("billing", "b1", "10.0.0.7", 8080)).await?;
/// me.set_weight(10).await?;
///
/// // The process is told to stop: first no new requests, then none at all.
/// me.drain(Duration::from_millis(10)).await?;
/// assert!(registry.instances("billing").await?.instances.is_empty());
/// # Ok(())
/// # });
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends an ephemeral registration: bind it to a name (`let me`); `let _` drops it at once"]
pub struct Registration {
    registry: Registry,
    latest: Mutex<Latest>,
}

/// What the instance says now, and where.
#[derive(Debug)]
struct Latest {
    instance: Instance,
    /// Grows with every change, so that a refused one does not undo a later one.
    changes: u64,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Ephemeral(SessionKeeper, PersistentEphemeral),
    Permanent(Key),
}

/// An update that was handed over.
type Writing = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

impl Place {
    fn key(&self) -> &Key {
        match self {
            Self::Ephemeral(_, entry) => entry.key(),
            Self::Permanent(key) => key,
        }
    }
}

impl Registration {
    pub(crate) fn ephemeral(
        registry: Registry,
        keeper: SessionKeeper,
        entry: PersistentEphemeral,
        instance: Instance,
    ) -> Self {
        Self::new(registry, instance, Place::Ephemeral(keeper, entry))
    }

    pub(crate) fn permanent(registry: Registry, key: Key, instance: Instance) -> Self {
        Self::new(registry, instance, Place::Permanent(key))
    }

    fn new(registry: Registry, instance: Instance, place: Place) -> Self {
        Self { registry, latest: Mutex::new(Latest { instance, changes: 0, place }) }
    }

    /// What the instance says, by the last update that was not refused; the store may not have it yet.
    #[must_use]
    pub fn instance(&self) -> Instance {
        self.lock().instance.clone()
    }

    /// The key in the store.
    #[must_use]
    pub fn key(&self) -> Key {
        self.lock().place.key().clone()
    }

    /// Whether others surely see it, by what was last seen and the local clock. Of a permanent instance nothing is
    /// asked: it was there when it was registered.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.entry().is_none_or(|entry| entry.is_registered())
    }

    /// Where the registration is; a permanent one counts as registered.
    #[must_use]
    pub fn state(&self) -> RegistrationState {
        self.entry().map_or(RegistrationState::Registered, |entry| entry.state())
    }

    /// Returns once the state is no longer `seen`, at once if it is not now; gives the new one. That of a permanent
    /// instance never changes.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn changed(&self, seen: RegistrationState) -> RegistrationState {
        match self.entry() {
            Some(entry) => entry.changed(seen).await,
            None if seen == RegistrationState::Registered => std::future::pending().await,
            None => RegistrationState::Registered,
        }
    }

    /// Waits until it is registered, however long.
    ///
    /// # Errors
    /// What the store refuses for good; [`Closed`](ErrorKind::Closed) after the end.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn registered(&self) -> Result<()> {
        let Some(entry) = self.entry() else { return Ok(()) };
        loop {
            entry.registered().await?;
            if entry.is_registered() {
                return Ok(());
            }
            // With a session that is over: the registration is about to hear of it.
            entry.changed(RegistrationState::Registered).await;
        }
    }

    /// Replaces what the instance says, now and after each new session; returns once the store has it.
    ///
    /// Name, id and kind stay what they are, and so does the time of registration. Of several calls the last one counts.
    /// While there is no session, it waits for one. Costs two round trips, on ZooKeeper up to four requests.
    ///
    /// # Errors
    /// Those of [`Instance::validate`], and [`InvalidArgument`](ErrorKind::InvalidArgument) for another name, id or kind:
    /// nothing changes. What the store refuses for good: it stays as it was. [`NotHolder`](ErrorKind::NotHolder) if the
    /// key is somebody else's now: what is said is remembered for later. [`Closed`](ErrorKind::Closed) after the end.
    ///
    /// # Cancel safety
    /// Safe: once polled, the update is made also if the future is dropped, and only a permanent instance may then be
    /// left as it was.
    pub async fn update(&self, instance: Instance) -> Result<()> {
        self.change(|old| {
            let identity = |it: &Instance| (it.name().to_owned(), it.id().to_owned(), it.kind());
            if identity(&instance) != identity(&old) {
                return Err(Error::invalid("an update keeps the name, the id and the kind")
                    .with_context("service", old.name())
                    .with_context("id", old.id()));
            }
            Ok(instance.with_registered_at(old.registered_at()))
        })
        .await
    }

    /// Says that the instance takes requests, drains, or is disabled.
    ///
    /// # Errors
    /// As [`Registration::update`].
    ///
    /// # Cancel safety
    /// As [`Registration::update`].
    pub async fn set_status(&self, status: Status) -> Result<()> {
        self.change(|instance| Ok(instance.with_status(status))).await
    }

    /// Changes the share of requests that it should get; 0 for none.
    ///
    /// # Errors
    /// As [`Registration::update`].
    ///
    /// # Cancel safety
    /// As [`Registration::update`].
    pub async fn set_weight(&self, weight: u32) -> Result<()> {
        self.change(|instance| Ok(instance.with_weight(weight))).await
    }

    /// Changes the payload.
    ///
    /// # Errors
    /// As [`Registration::update`] and [`Instance::with_payload`].
    ///
    /// # Cancel safety
    /// As [`Registration::update`].
    pub async fn set_payload(&self, payload: &(impl Serialize + Sync)) -> Result<()> {
        self.change(|instance| instance.with_payload(payload)).await
    }

    /// Leaves in good order: says [`Status::Draining`], waits until `bound` has passed since the call, so that consumers
    /// have seen it and sent their last requests, and closes.
    ///
    /// If the store does not answer, it leaves all the same when the time is over. A permanent instance stays, draining.
    ///
    /// # Errors
    /// As [`Registration::close`], and what the store refuses for good when told that we drain: it is closed also then.
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves the instance registered and, once polled, draining.
    pub async fn drain(&self, bound: Duration) -> Result<()> {
        let until = tokio::time::Instant::now() + bound;
        let told = tokio::time::timeout_at(until, self.set_status(Status::Draining)).await;
        if matches!(told, Ok(Ok(()))) {
            tokio::time::sleep_until(until).await;
        }
        self.close().await?;
        match told {
            // Nobody has heard of it, or there was nothing to leave: it is closed, which is what counts.
            Err(_) | Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error),
        }
    }

    /// Ends an ephemeral registration: deletes the key if it is ours. A permanent instance stays.
    ///
    /// # Errors
    /// [`Timeout`](ErrorKind::Timeout) after three seconds if the store does not answer: deleting goes on in the
    /// background, and the key goes with its session at the latest. [`SessionLost`](ErrorKind::SessionLost) if the session
    /// ended meanwhile: the key goes with it.
    ///
    /// # Cancel safety
    /// Safe: closing goes on in the background once it was polled.
    pub async fn close(&self) -> Result<()> {
        match self.entry() {
            Some(entry) => entry.close().await,
            None => Ok(()),
        }
    }

    /// Removes the instance, also a permanent one; `false` if a permanent one was not there any more.
    ///
    /// # Errors
    /// As [`Registration::close`]; for a permanent instance what the store refuses.
    ///
    /// # Cancel safety
    /// As [`Registration::close`]; a permanent instance may have been removed.
    pub async fn unregister(self) -> Result<bool> {
        let place = self.lock().place.clone();
        match place {
            Place::Ephemeral(_, entry) => entry.close().await.map(|()| true),
            Place::Permanent(key) => permanent::unregister(&self.registry, &key).await,
        }
    }

    /// Waits until it is registered, and refuses an id that is somebody else's.
    pub(crate) async fn settled(&self) -> Result<()> {
        match self.entry() {
            Some(entry) => settled(&entry, "register").await,
            None => Ok(()),
        }
    }

    /// Ends a registration whose time is over; says why it did not come about.
    pub(crate) async fn give_up(self) -> Error {
        let (key, taken) = (self.key(), self.state() == RegistrationState::Taken);
        match self.close().await {
            Err(error) => error,
            Ok(()) if taken => taken_by_others(&key, "register"),
            Ok(()) => too_late(&key),
        }
    }

    async fn change(&self, change: impl FnOnce(Instance) -> Result<Instance> + Send) -> Result<()> {
        let (writing, before, mine) = {
            let mut latest = self.lock();
            let instance = change(latest.instance.clone())?;
            let before = (latest.instance.clone(), latest.place.clone());
            let mut writing = self.hand_over(&mut latest.place, &instance)?;
            latest.instance = instance;
            latest.changes += 1;
            // The first poll hands it over, and is made under the lock: two updates reach the store in the order in
            // which they were made here.
            let at_once = (&mut writing).now_or_never();
            let writing = async move {
                match at_once {
                    Some(answer) => answer,
                    None => writing.await,
                }
            };
            (Box::pin(writing), before, latest.changes)
        };
        let answer = writing.await;
        let stays = matches!(&before.1, Place::Ephemeral(_, entry) if *entry.key() == self.key());
        match &answer {
            Ok(()) => {}
            // Remembered, and written when the key is ours again.
            Err(error) if error.kind() == ErrorKind::NotHolder && stays => {}
            Err(_) => {
                let mut latest = self.lock();
                if latest.changes == mine {
                    (latest.instance, latest.place) = before;
                }
            }
        }
        answer
    }

    /// What writes `instance` to the store; at another place, if the layout says so.
    fn hand_over(&self, place: &mut Place, instance: &Instance) -> Result<Writing> {
        let (key, value) = self.registry.write(instance)?;
        let old = place.clone();
        match old {
            Place::Ephemeral(_, entry) if *entry.key() == key => {
                Ok(Box::pin(async move { entry.set(value).await }))
            }
            Place::Ephemeral(keeper, old) => {
                let next = PersistentEphemeral::new(&keeper, key, value)?;
                *place = Place::Ephemeral(keeper, next.clone());
                Ok(Box::pin(async move {
                    // First the new key, then the old one: consumers always see the instance.
                    settled(&next, "update").await?;
                    if let Err(error) = old.close().await {
                        tracing::debug!(key = %old.key(), %error, "the old key of an instance goes later");
                    }
                    Ok(())
                }))
            }
            Place::Permanent(old) => {
                *place = Place::Permanent(key.clone());
                let registry = self.registry.clone();
                Ok(Box::pin(async move { permanent::update(&registry, &old, &key, value).await }))
            }
        }
    }

    fn entry(&self) -> Option<PersistentEphemeral> {
        match &self.lock().place {
            Place::Ephemeral(_, entry) => Some(entry.clone()),
            Place::Permanent(_) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until `entry` is registered; closes it if the key is somebody else's.
async fn settled(entry: &PersistentEphemeral, operation: &'static str) -> Result<()> {
    match entry.changed(RegistrationState::Pending).await {
        RegistrationState::Taken => {
            entry.close().await?;
            Err(taken_by_others(entry.key(), operation))
        }
        _ => entry.registered().await,
    }
}

fn taken_by_others(key: &Key, operation: &'static str) -> Error {
    not_holder(key, "somebody else has this id in the service").with_operation(operation)
}

#[cfg(test)]
#[path = "registration_tests.rs"]
mod tests;
