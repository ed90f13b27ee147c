//! The task that keeps a key registered.

use std::{
    ops::ControlFlow,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use coord_api::{
    Check, Entry, Error, ErrorKind, Freshness, Key, Lifetime, Result, Retry, Revision, Seen, Session,
    SessionId, Txn, kit::Backoff,
};
use tokio::sync::{mpsc, oneshot, watch};

use super::{RegistrationState, Status, late};
use crate::planted::{Bug, planted};
use crate::{SessionKeeper, insist::RETRY_CAP};

/// What the handles ask for.
#[derive(Debug)]
pub(super) enum Command {
    Set(Bytes, oneshot::Sender<Result<()>>),
    Close(oneshot::Sender<Result<()>>),
}

/// Data that the key should have, and who waits for it.
struct Wanted {
    value: Bytes,
    told: Option<oneshot::Sender<Result<()>>>,
}

/// Whose key it is.
enum Found {
    /// Ours and up to date, last changed by this revision.
    Ours(Revision),
    /// Somebody else's.
    Others(Revision),
    /// It changed while we looked.
    Moved,
}

/// How it ended.
struct Farewell {
    /// Who closed it.
    told: Option<oneshot::Sender<Result<()>>>,
    left: Result<()>,
    /// The session of which a create may arrive late.
    late: Option<Session>,
}

/// A key that one of our lost sessions left behind.
struct Former {
    session: SessionId,
    created: Option<Revision>,
}

pub(super) struct Actor {
    keeper: SessionKeeper,
    key: Key,
    /// The last one counts. Those before are what counts again if the store refuses it.
    wanted: Vec<Wanted>,
    /// The revision that created our key in this session, once it is known.
    created: Option<Revision>,
    former: Vec<Former>,
    /// A create of this session may arrive late.
    ambiguous: bool,
    /// Whether the key was ever ours.
    was_ours: bool,
    status: watch::Sender<Status>,
    ended: Arc<OnceLock<Error>>,
}

impl Actor {
    pub(super) fn new(
        keeper: &SessionKeeper,
        key: Key,
        value: Bytes,
        status: watch::Sender<Status>,
        ended: Arc<OnceLock<Error>>,
    ) -> Result<Self> {
        if !keeper.claim(&key) {
            return Err(Error::new(ErrorKind::NotHolder, "another registration of this process has the key")
                .with_context("key", key));
        }
        Ok(Self {
            keeper: keeper.clone(),
            key,
            wanted: vec![Wanted { value, told: None }],
            created: None,
            former: Vec::new(),
            ambiguous: false,
            was_ours: false,
            status,
            ended,
        })
    }

    /// Runs until it is closed or its last handle is gone.
    pub(super) async fn run(self, commands: mpsc::UnboundedReceiver<Command>) {
        let (keeper, key) = (self.keeper.clone(), self.key.clone());
        let Some(farewell) = self.live(commands).await else { return };
        // Only now that the key is given back: the next registration of it may begin at once.
        if let Some(session) = farewell.late {
            late::delete_late(&session, &keeper, &key);
        }
        match (farewell.told, farewell.left) {
            (Some(told), left) => drop(told.send(left)),
            (None, Err(error)) => {
                tracing::debug!(%key, %error, "a key was not deleted; it goes with its session");
            }
            (None, Ok(())) => {}
        }
    }

    async fn live(mut self, mut commands: mpsc::UnboundedReceiver<Command>) -> Option<Farewell> {
        loop {
            let session = tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(Command::Set(value, told)) => {
                        self.want(value, told);
                        continue;
                    }
                    // What was ours went with its session.
                    Some(Command::Close(told)) => {
                        return Some(Farewell { told: Some(told), left: Ok(()), late: None });
                    }
                    None => return None,
                },
                session = self.keeper.session() => session,
            };
            let session = match session {
                Ok(session) => session,
                Err(error) => {
                    self.end(error);
                    return None;
                }
            };
            if let ControlFlow::Break(farewell) = self.serve(&session, &mut commands).await {
                return farewell;
            }
            self.tell(RegistrationState::Pending, None);
            self.former.push(Former { session: session.id().clone(), created: self.created.take() });
            self.ambiguous = false;
            if planted(Bug::NotRegisteredAgain) {
                return std::future::pending().await;
            }
        }
    }

    /// Keeps the key registered as long as the session lives.
    async fn serve(
        &mut self,
        session: &Session,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> ControlFlow<Option<Farewell>> {
        let coord = session.coord();
        let mut backoff = Backoff::new(RETRY_CAP);
        loop {
            let seen = match self.ensure(session).await {
                Ok(Found::Ours(modified)) => {
                    self.written(session);
                    backoff.reset();
                    Some(modified)
                }
                Ok(Found::Others(modified)) => {
                    self.taken();
                    backoff.reset();
                    Some(modified)
                }
                Ok(Found::Moved) => None,
                Err(error) => {
                    self.tell(RegistrationState::Pending, None);
                    if self.refused(error).is_break() {
                        return ControlFlow::Break(None);
                    }
                    None
                }
            };
            let moved = async {
                match seen {
                    Some(_) if planted(Bug::DeletionUnseen) => std::future::pending().await,
                    Some(modified) if coord.wait(&Seen::Value(self.key.clone(), modified)).await.is_ok() => {}
                    _ => backoff.sleep(&coord.runtime()).await,
                }
            };
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(Command::Set(value, told)) => self.want(value, told),
                    Some(Command::Close(told)) => return ControlFlow::Break(Some(self.leave(session, Some(told)).await)),
                    None => return ControlFlow::Break(Some(self.leave(session, None).await)),
                },
                () = session.lost() => return ControlFlow::Continue(()),
                () = moved => {}
            }
        }
    }

    /// Looks whose the key is, and makes it ours and up to date unless it is somebody else's.
    async fn ensure(&mut self, session: &Session) -> Result<Found> {
        session.ensure_valid()?;
        let coord = session.coord();
        let value = self.value();
        let Some(entry) = self.look(session).await? else {
            let forgotten = planted(Bug::DataForgotten) && !self.former.is_empty();
            let value = if forgotten { Bytes::new() } else { value };
            self.created = None;
            let created = coord.create(&self.key, value, Lifetime::Session).await.inspect_err(|error| {
                self.ambiguous |= error.retry() == Retry::Ambiguous;
            })?;
            self.created = created.map(|written| written.revision);
            return Ok(created.map_or(Found::Moved, |written| Found::Ours(written.revision)));
        };
        if entry.meta.owner.as_ref() == Some(session.id()) {
            self.created = Some(entry.meta.created);
            if entry.value == value {
                return Ok(Found::Ours(entry.meta.modified));
            }
            let mut update = self.guarded(&entry).update(&self.key, value);
            if !planted(Bug::LateUpdateUndoes) {
                // An update that arrives late is refused: it would undo a later one, until we see it.
                update = update.check_version(&self.key, entry.meta.version);
            }
            let written = coord.commit(update).await?.committed().and_then(|commit| commit.first());
            return Ok(written.map_or(Found::Moved, |written| Found::Ours(written.revision)));
        }
        if self.former.iter().any(|former| former.left(&entry)) {
            // Its session is lost to us: the store would delete it under our feet.
            let _ = coord.commit(self.guarded(&entry).delete(&self.key)).await?;
            return Ok(Found::Moved);
        }
        Ok(Found::Others(entry.meta.modified))
    }

    /// Deletes the key if it is ours. Tries until the store answers or the session is over, with which the key goes.
    async fn leave(&self, session: &Session, told: Option<oneshot::Sender<Result<()>>>) -> Farewell {
        self.tell(RegistrationState::Closed, None);
        let mut backoff = Backoff::new(RETRY_CAP);
        let left = loop {
            match self.delete_own(session).await {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(error) if error.retry() == Retry::Never || !session.is_valid() => break Err(error),
                Err(_) => backoff.sleep(&session.coord().runtime()).await,
            }
        };
        Farewell { told, left, late: self.ambiguous.then(|| session.clone()) }
    }

    /// `true` if the key is surely not ours any more.
    async fn delete_own(&self, session: &Session) -> Result<bool> {
        match self.look(session).await? {
            Some(entry) if entry.meta.owner.as_ref() == Some(session.id()) => {
                Ok(session.coord().commit(self.guarded(&entry).delete(&self.key)).await?.is_committed())
            }
            _ => Ok(true),
        }
    }

    async fn look(&self, session: &Session) -> Result<Option<Entry>> {
        session.coord().clone().with_freshness(Freshness::Latest).get(&self.key).await
    }

    /// A transaction that applies only to this incarnation of the key.
    fn guarded(&self, entry: &Entry) -> Txn {
        Txn::new().check(Check::Created(self.key.clone(), entry.meta.created))
    }

    fn value(&self) -> Bytes {
        self.wanted.last().map(|wanted| wanted.value.clone()).unwrap_or_default()
    }

    fn want(&mut self, value: Bytes, told: oneshot::Sender<Result<()>>) {
        self.wanted.push(Wanted { value, told: Some(told) });
    }

    /// The key is ours with the last value: all earlier ones are history.
    fn written(&mut self, session: &Session) {
        self.tell(RegistrationState::Registered, Some(session));
        self.was_ours = true;
        self.former.clear();
        let last = self.wanted.len().saturating_sub(1);
        for wanted in &mut self.wanted {
            if let Some(told) = wanted.told.take() {
                let _ = told.send(Ok(()));
            }
        }
        self.wanted.drain(..last);
    }

    fn taken(&mut self) {
        self.tell(RegistrationState::Taken, None);
        for told in self.wanted.iter_mut().filter_map(|wanted| wanted.told.take()) {
            let _ = told.send(Err(Error::new(
                ErrorKind::NotHolder,
                "the key is somebody else's; the data is remembered",
            )
            .with_context("key", &self.key)));
        }
    }

    /// A try failed. Ends the registration if the store refuses the first data that it ever had.
    fn refused(&mut self, error: Error) -> ControlFlow<()> {
        use ControlFlow::{Break, Continue};
        let waits = error.retry() != Retry::Never || error.kind() == ErrorKind::SessionLost;
        if waits {
            return Continue(());
        }
        if error.kind() == ErrorKind::Closed || (!self.was_ours && self.wanted.len() == 1) {
            self.end(error);
            return Break(());
        }
        tracing::warn!(key = %self.key, %error, "the store refuses to register a key");
        if self.wanted.len() > 1
            && let Some(told) = self.wanted.pop().and_then(|wanted| wanted.told)
        {
            let _ = told.send(Err(error));
        }
        Continue(())
    }

    fn end(&self, error: Error) {
        let _ = self.ended.set(error);
    }

    fn tell(&self, state: RegistrationState, session: Option<&Session>) {
        self.status.send_if_modified(|status| {
            let before = status.state;
            *status = Status { state, session: session.cloned() };
            before != state
        });
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.keeper.unclaim(&self.key);
        // Receivers may outlive us, and must not keep the session.
        self.tell(RegistrationState::Closed, None);
    }
}

impl Former {
    fn left(&self, entry: &Entry) -> bool {
        entry.meta.owner.as_ref() == Some(&self.session)
            && self.created.is_none_or(|created| created == entry.meta.created)
    }
}
