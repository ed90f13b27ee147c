//! What a case runs on: a store to share, and a lab of its own for faults.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use coord_api::{Config, Coord, Error, Result};
use futures::future::BoxFuture;

/// The promise does not hold, or could not be tried: what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(format!("{error:?}"))
    }
}

/// What a case needs besides a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Store,
    /// A store of its own, with links that can be cut.
    Link,
    /// The same, with a server that can be killed and paused.
    Server,
}

/// A store under test.
#[async_trait]
pub trait Fixture: fmt::Debug + Send + Sync + 'static {
    /// The name in reports, such as `etcd`.
    fn name(&self) -> &str;

    /// Opens a handle of its own on the shared store, inside the namespace of a case.
    async fn connect(&self, namespace: &str) -> Result<Coord>;

    /// Whether cases with this need can run here; `Err` is the reason, for people.
    fn offers(&self, need: Need) -> std::result::Result<(), String>;

    /// A store of the case's own, whose links and server can be made to fail.
    async fn rig(&self) -> std::result::Result<Arc<dyn Rig>, Failure>;
}

/// A store that one case owns and may break.
#[async_trait]
pub trait Rig: fmt::Debug + Send + Sync {
    /// Opens a handle over a link of its own.
    async fn client(&self, namespace: &str) -> std::result::Result<Client, Failure>;

    /// Kills the server as by a power cut. Data on its disk stays.
    async fn kill(&self) -> std::result::Result<(), Failure>;

    /// Starts the killed server again, at the same address and on the same data.
    async fn restart(&self) -> std::result::Result<(), Failure>;

    /// Stops the server's process where it is; its sockets stay open.
    async fn pause(&self) -> std::result::Result<(), Failure>;

    /// Lets the paused server go on.
    async fn resume(&self) -> std::result::Result<(), Failure>;
}

/// A handle and the link that it runs over.
#[derive(Debug)]
pub struct Client {
    /// The handle.
    pub coord: Coord,
    /// Its link.
    pub link: Arc<dyn Link>,
}

/// The way between one client and its server.
#[async_trait]
pub trait Link: fmt::Debug + Send + Sync {
    /// Nothing passes any more, and nobody is told: a partition.
    async fn blackhole(&self);

    /// Everything passes again.
    async fn heal(&self);

    /// Open connections break at once; new ones are taken.
    async fn reset(&self) -> std::result::Result<(), Failure>;

    /// The nth request from now on (1 is the next) is applied, and its reply is lost with the connection.
    async fn lose_reply(&self, nth: u64) -> std::result::Result<(), Failure>;
}

/// Opens a store the way its users do, layers included.
pub type Opener = fn(Config) -> BoxFuture<'static, Result<Coord>>;

/// A store at a URL.
#[derive(Debug)]
pub struct UrlFixture {
    name: String,
    url: String,
    open: Opener,
    lab: Option<Arc<dyn Lab>>,
}

/// Makes rigs.
#[async_trait]
pub trait Lab: fmt::Debug + Send + Sync + 'static {
    /// As [`Fixture::offers`].
    fn offers(&self, need: Need) -> std::result::Result<(), String>;

    /// A new store with faults.
    async fn rig(&self) -> std::result::Result<Arc<dyn Rig>, Failure>;
}

impl UrlFixture {
    /// A store without faults.
    #[must_use]
    pub fn new(name: impl Into<String>, url: impl Into<String>, open: Opener) -> Self {
        Self { name: name.into(), url: url.into(), open, lab: None }
    }

    /// The same with faults.
    #[must_use]
    pub fn with_lab(mut self, lab: impl Lab) -> Self {
        self.lab = Some(Arc::new(lab));
        self
    }
}

#[async_trait]
impl Fixture for UrlFixture {
    fn name(&self) -> &str {
        &self.name
    }

    async fn connect(&self, namespace: &str) -> Result<Coord> {
        // A machine that runs eight cases at once is slow to answer, not away.
        let config = Config::from_url(&self.url)?.with_default("connect_timeout", "20s");
        (self.open)(config.with_default("namespace", namespace)).await
    }

    fn offers(&self, need: Need) -> std::result::Result<(), String> {
        match (&self.lab, need) {
            (_, Need::Store) => Ok(()),
            (Some(lab), need) => lab.offers(need),
            (None, _) => Err("a server given by URL is not ours to break".to_owned()),
        }
    }

    async fn rig(&self) -> std::result::Result<Arc<dyn Rig>, Failure> {
        match &self.lab {
            Some(lab) => lab.rig().await,
            None => Err(Failure("this fixture has no lab".to_owned())),
        }
    }
}
