//! What a case is given, and how it waits.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, Session, SessionState};
use tokio::time::Instant;

use crate::{Client, Failure, Fixture, Link, Rig};

/// How long a condition may take to become true; far above what any store needs, and not above [`Cx::LONG`]: what goes
/// with its session only is not there in time.
const PATIENCE: Duration = Duration::from_secs(20);

/// The surroundings of one run of one case.
#[derive(Debug)]
pub struct Cx {
    fixture: Arc<dyn Fixture>,
    namespace: String,
}

impl Cx {
    /// A ttl for sessions that the case lets die: short, and taken by every store.
    pub const SHORT: Duration = Duration::from_secs(2);
    /// A ttl for sessions that must live through the case, also on a loaded machine.
    pub const LONG: Duration = Duration::from_secs(20);
    /// How late a call may be that was given a time-out: room for a loaded machine, and less than the time that a call
    /// without one is given.
    pub const SLACK: Duration = Duration::from_secs(3);
    /// A ttl for sessions that must live through a restart of the server: a JVM on a loaded machine takes its time. Not
    /// longer, as a store that forgets tells a session of its end with the next renewal.
    pub const OVER_A_RESTART: Duration = Duration::from_secs(30);

    pub(crate) fn new(fixture: Arc<dyn Fixture>, case: &str) -> Self {
        // Unique also across runs against a server that keeps its data.
        let unique: u64 = rand::random();
        let namespace = format!("/conformance/{}-{unique:016x}", case.replace("::", "-"));
        Self { fixture, namespace }
    }

    /// A new handle of its own on the case's namespace.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub async fn coord(&self) -> Result<Coord, Failure> {
        Ok(self.fixture.connect(&self.namespace).await?)
    }

    /// A new handle on a directory of the case's namespace, as a namespace of its own.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub async fn coord_in(&self, dir: &str) -> Result<Coord, Failure> {
        Ok(self.fixture.connect(&format!("{}{dir}", self.namespace)).await?)
    }

    /// A new handle with a session that lives through the case.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub async fn session(&self) -> Result<Session, Failure> {
        Ok(self.coord().await?.session(Self::LONG).await?)
    }

    /// A store of the case's own that may be broken.
    ///
    /// # Errors
    /// If it cannot be made.
    pub async fn rig(&self) -> Result<Arc<dyn Rig>, Failure> {
        self.fixture.rig().await
    }

    /// A handle on a rig, over a link of its own.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub async fn client(&self, rig: &Arc<dyn Rig>) -> Result<Client, Failure> {
        rig.client(&self.namespace).await
    }

    /// Which store this is, for messages only.
    #[must_use]
    pub fn name(&self) -> &str {
        self.fixture.name()
    }
}

/// Waits until `condition` is true; fails after a generous deadline.
///
/// # Errors
/// A failure that names `what` if it never becomes true.
pub async fn eventually(
    what: &str,
    mut condition: impl AsyncFnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if condition().await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(Failure(format!("never happened: {what}")))
}

/// Cuts a link for as long as it takes `session` to notice, and heals it: a break that the session survives.
///
/// # Errors
/// If the session does not notice the break, or its end.
pub async fn cut_briefly(link: &dyn Link, session: &Session) -> Result<(), Failure> {
    let mut states = session.states();
    link.blackhole().await;
    within("suspended", states.wait_for(|state| *state == SessionState::Suspended)).await?.expect("alive");
    link.heal().await;
    within("live again", states.wait_for(|state| *state == SessionState::Live)).await?.expect("alive");
    Ok(())
}

/// Awaits a future that must end soon; fails after a generous deadline.
///
/// # Errors
/// A failure that names `what` if it does not end.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> Result<T, Failure> {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => Ok(value),
        Err(_) => Err(Failure(format!("did not end: {what}"))),
    }
}
