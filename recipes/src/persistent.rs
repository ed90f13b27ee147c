//! A key that is registered again after each new session, and when somebody deletes it.

mod actor;
mod late;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use coord_api::{Error, ErrorKind, IntoKey, Key, Result, Session};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{SessionKeeper, keeper::again};
use actor::{Actor, Command};

/// How long [`PersistentEphemeral::close`] waits for a store that does not answer.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// Where a registration is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistrationState {
    /// Not in the store, or not known to be: there is no session, or the store does not answer.
    #[default]
    Pending,
    /// The key is there, ours, with the latest data.
    Registered,
    /// The key is there and somebody else's. It is taken when it is free.
    Taken,
    /// Ended: closed, or refused for good.
    Closed,
}

/// An ephemeral key that outlives its sessions: after a loss it is registered again with the next session, with the
/// *latest* data, and so it is when somebody deletes it.
///
/// It never touches a key that is somebody else's: it waits until it is free. A key of one of its own lost sessions,
/// which the store has not given up yet, it knows by session and revision, and replaces it. What others write over our
/// own key is written over again.
///
/// Clones share the registration. It ends by [`PersistentEphemeral::close`], or in the background when the last clone
/// is dropped, and deletes its own key only.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_api::SessionOptions;
/// # use coord_recipes::{PersistentEphemeral, SessionKeeper};
///
/// let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// let me = PersistentEphemeral::new(&keeper, "/services/billing/10.0.0.7", "starting")?;
/// me.registered().await?;
/// me.set("ready").await?;
///
/// keeper.session().await?.close().await?; // as an expired session ends
/// while !me.is_registered() {
///     tokio::time::sleep(std::time::Duration::from_millis(10)).await;
/// }
/// assert_eq!(store.get("/services/billing/10.0.0.7").await?.expect("again").value, "ready");
/// me.close().await?;
/// assert!(store.get("/services/billing/10.0.0.7").await?.is_none());
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct PersistentEphemeral(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    key: Key,
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<Status>,
    /// Why it ended.
    ended: Arc<OnceLock<Error>>,
}

/// The state, and the session it is owed to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    state: RegistrationState,
    session: Option<Session>,
}

impl Status {
    pub(crate) fn is_registered(&self) -> bool {
        self.state == RegistrationState::Registered && self.session.as_ref().is_some_and(Session::is_valid)
    }
}

impl PersistentEphemeral {
    /// Starts to register the key, in the background.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the key is malformed;
    /// [`NotHolder`](ErrorKind::NotHolder) if another registration of this keeper has it.
    pub fn new(keeper: &SessionKeeper, key: impl IntoKey, value: impl Into<Bytes>) -> Result<Self> {
        let key = key.into_key()?;
        let (commands, received) = mpsc::unbounded_channel();
        let (told, status) = watch::channel(Status::default());
        let ended = Arc::new(OnceLock::new());
        let actor = Actor::new(keeper, key.clone(), value.into(), told, Arc::clone(&ended))?;
        keeper.coord().runtime().spawn(actor.run(received));
        Ok(Self(Arc::new(Inner { key, commands, status, ended })))
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// The state as it was last seen.
    #[must_use]
    pub fn state(&self) -> RegistrationState {
        self.0.status.borrow().state
    }

    /// Returns once the state is no longer `seen`, at once if it is not now; gives the new one.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn changed(&self, seen: RegistrationState) -> RegistrationState {
        let mut status = self.0.status.clone();
        match status.wait_for(|status| status.state != seen).await {
            Ok(status) => status.state,
            Err(_) => RegistrationState::Closed,
        }
    }

    /// Whether the key is surely there and ours, by what was last seen and the local clock.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.0.status.borrow().is_registered()
    }

    /// Waits until the key is registered, however long.
    ///
    /// # Errors
    /// What the store refuses for good; [`Closed`](ErrorKind::Closed) after the end.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn registered(&self) -> Result<()> {
        let mut status = self.0.status.clone();
        let settled = |state| matches!(state, RegistrationState::Registered | RegistrationState::Closed);
        match status.wait_for(|status| settled(status.state)).await {
            Ok(status) if status.state == RegistrationState::Registered => Ok(()),
            _ => Err(self.why_ended()),
        }
    }

    /// Makes this the data, now and after each new session; returns once the store has it.
    ///
    /// Of several calls the last one counts. While there is no session, it waits for one.
    ///
    /// # Errors
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) and what else the store refuses for good: the data stays as it was.
    /// [`NotHolder`](ErrorKind::NotHolder) if the key is somebody else's now: the data is remembered for later.
    /// [`Closed`](ErrorKind::Closed) after the end.
    ///
    /// # Cancel safety
    /// Safe: the data is remembered and written also if the future is dropped once it was polled.
    pub async fn set(&self, value: impl Into<Bytes>) -> Result<()> {
        let (told, answer) = oneshot::channel();
        if self.0.commands.send(Command::Set(value.into(), told)).is_err() {
            return Err(self.why_ended());
        }
        answer.await.unwrap_or_else(|_| Err(self.why_ended()))
    }

    /// Deletes the key if it is ours, and registers no more.
    ///
    /// # Errors
    /// [`Timeout`](ErrorKind::Timeout) after three seconds if the store does not answer: deleting goes on in the
    /// background, and the key goes with its session at the latest.
    ///
    /// # Cancel safety
    /// Safe: closing goes on in the background once it was polled.
    pub async fn close(&self) -> Result<()> {
        let (told, answer) = oneshot::channel();
        if self.0.commands.send(Command::Close(told)).is_err() {
            return Ok(()); // closed already
        }
        match tokio::time::timeout(CLOSE_WITHIN, answer).await {
            Ok(closed) => closed.unwrap_or(Ok(())),
            Err(_) => Err(Error::new(ErrorKind::Timeout, "the key could not be deleted yet")
                .with_operation("close")
                .with_context("key", &self.0.key)),
        }
    }

    /// The state and its changes, for those who must not keep the registration.
    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.0.status.clone()
    }

    fn why_ended(&self) -> Error {
        match self.0.ended.get() {
            Some(error) => again(error),
            None => Error::new(ErrorKind::Closed, "the registration was closed"),
        }
        .with_context("key", &self.0.key)
    }
}
