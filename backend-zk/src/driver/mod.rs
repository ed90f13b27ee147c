//! Everything that knows the `zookeeper-client` crate, so that another driver can take its place.
//!
//! The driver sends a request when its method is called, not when its future is polled, and dropping the future
//! does not take the request back. It waits without bound while it is disconnected, queues without bound, and
//! panics in the calling task on some malformed replies. [`Conn`] bounds, times and contains all of that.

mod calls;
mod connect;
mod errors;
mod flight;
mod multi;
mod watches;

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use coord_api::{Error, ErrorKind, Meta, Result, Retry, Revision, SessionId, Version, kit::Runtime};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, timeout_at},
};
use zookeeper_client as zk;

#[cfg(feature = "tls")]
pub(crate) use self::connect::crypto;
pub(crate) use self::{
    calls::{Children, NodeKind},
    connect::{Connector, NodeAcl, TlsFiles},
    errors::Fault,
    multi::{Multi, MultiFault, MultiResult},
    watches::{DirWatch, NodeWatch, WatchEvent},
};

/// Requests of one session that may be under way at once; the driver's own queue has no bound.
const IN_FLIGHT_MAX: usize = 1024;

/// The sum of watched path bytes that one session may hold: beyond 128 KiB the driver's chunked renewal after a
/// reconnect fails until the session dies.
const WATCHED_BYTES_MAX: usize = 100 * 1024;

/// What a connection is for: it decides what the end of its session means to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Calls without a session; replaced when it ends.
    Base,
    /// One session of the application.
    Session,
}

/// Whether a request changes the store: a lost reply is ambiguous only then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Read,
    Write,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    /// Disconnected; the driver tries to reconnect in the same session.
    Down,
    /// The session is over, for good.
    Ended(End),
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Expired,
    AuthFailed,
    Closed,
}

/// What the server keeps about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) created: Revision,
    pub(crate) modified: Revision,
    /// The last change of the set of children.
    pub(crate) children_modified: Revision,
    pub(crate) version: i32,
    pub(crate) owner: i64,
    pub(crate) children: i32,
}

impl Node {
    fn from_stat(stat: &zk::Stat) -> Self {
        Self {
            created: revision(stat.czxid),
            modified: revision(stat.mzxid),
            children_modified: revision(stat.pzxid),
            version: stat.version,
            owner: stat.ephemeral_owner,
            children: stat.num_children,
        }
    }

    pub(crate) fn meta(&self) -> Meta {
        let owner = (self.owner != 0).then(|| session_id(self.owner));
        Meta::new(self.created, self.modified, coord_version(self.version), owner)
    }
}

/// A zxid as a revision; -1 (unknown) as zero.
pub(crate) fn revision(zxid: i64) -> Revision {
    Revision::new(u64::try_from(zxid).unwrap_or(0))
}

/// A data version as coord shows it. After 2^31 writes the server counts through negative numbers.
pub(crate) fn coord_version(version: i32) -> Version {
    Version::new(u64::from(version.cast_unsigned()))
}

/// The name of a session, as ZooKeeper's own tools print it.
pub(crate) fn session_id(id: i64) -> SessionId {
    SessionId::new(format!("{id:#x}"))
}

/// One client of the driver, and so one session.
pub(crate) struct Conn {
    /// A number of its own in this process.
    id: u64,
    role: Role,
    session: i64,
    ttl: Duration,
    client: Mutex<Option<zk::Client>>,
    link: watch::Receiver<Link>,
    closing: watch::Sender<bool>,
    permits: Arc<Semaphore>,
    watched: Mutex<watches::Watched>,
    runtime: Runtime,
}

impl Conn {
    /// Must be called on the library's runtime.
    fn new(client: zk::Client, role: Role, runtime: Runtime) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (sender, link) = watch::channel(Link::Up);
        let mut states = client.state_watcher();
        // The clone above swallowed what happened before it.
        sender.send_replace(link_of(client.state()));
        runtime.spawn(async move {
            loop {
                let link = link_of(states.changed().await);
                sender.send_replace(link);
                if matches!(link, Link::Ended(_)) {
                    return;
                }
            }
        });
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            role,
            session: client.session_id().0,
            ttl: client.session_timeout(),
            client: Mutex::new(Some(client)),
            link,
            closing: watch::Sender::new(false),
            permits: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            watched: Mutex::default(),
            runtime,
        })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether it has a successor once it is over.
    pub(crate) fn is_base(&self) -> bool {
        self.role == Role::Base
    }

    /// The session's id; zero would be a read-only server's, which is never accepted.
    pub(crate) fn session(&self) -> i64 {
        self.session
    }

    /// The session's time to live as granted.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    /// Whether the session is over, or being ended.
    pub(crate) fn is_over(&self) -> bool {
        *self.closing.borrow() || matches!(*self.link.borrow(), Link::Ended(_))
    }

    /// Ends the session and waits until the server has confirmed it, at most for `bound`.
    ///
    /// What is still under way fails. `Ok` if the server confirmed that the session is closed.
    pub(crate) async fn close(&self, bound: Duration) -> Result<()> {
        self.closing.send_replace(true);
        drop(self.client.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut link = self.link();
        let ended = async {
            // While it is down the driver gives up by itself, and the server hears nothing.
            let mut heard = true;
            loop {
                match *link.borrow_and_update() {
                    Link::Ended(end) => return heard.then_some(end),
                    Link::Up => heard = true,
                    Link::Down => heard = false,
                }
                if link.changed().await.is_err() {
                    return None;
                }
            }
        };
        match tokio::time::timeout(bound, ended).await {
            Ok(Some(End::Closed)) => Ok(()),
            _ => Err(Error::ambiguous(
                "the server did not confirm the end of the session; its keys go after its ttl at the latest",
            )),
        }
    }

    /// The error for a call that finds the session over before anything was sent.
    fn over(&self) -> Error {
        match (self.role, *self.link.borrow()) {
            (Role::Session, _) => Error::session_lost("the session is over"),
            (Role::Base, Link::Ended(End::AuthFailed)) => {
                Error::new(ErrorKind::Unauthenticated, "the server does not accept the credentials")
            }
            (Role::Base, _) => Error::unavailable("the connection is being replaced"),
        }
    }

    fn client(&self) -> Result<zk::Client> {
        if self.is_over() {
            return Err(self.over());
        }
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(|| self.over())
    }

    /// Waits until the connection is up: what is not sent is surely not applied.
    async fn ready(&self, deadline: Instant) -> Result<()> {
        if *self.link.borrow() == Link::Up && !*self.closing.borrow() {
            return Ok(());
        }
        let mut link = self.link();
        let mut closing = self.closing.subscribe();
        let up = async {
            loop {
                if *closing.borrow_and_update() {
                    return Err(self.over());
                }
                match *link.borrow_and_update() {
                    Link::Up => return Ok(()),
                    Link::Ended(_) => return Err(self.over()),
                    Link::Down => {}
                }
                tokio::select! {
                    biased;
                    _ = closing.changed() => {}
                    changed = link.changed() => if changed.is_err() {
                        return Err(self.over());
                    },
                }
            }
        };
        timeout_at(deadline, up).await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Timeout, "no connection to the server before the deadline")
                .with_retry(Retry::Safe))
        })
    }
}

fn link_of(state: zk::SessionState) -> Link {
    match state {
        zk::SessionState::SyncConnected | zk::SessionState::ConnectedReadOnly => Link::Up,
        zk::SessionState::Disconnected => Link::Down,
        zk::SessionState::Expired => Link::Ended(End::Expired),
        zk::SessionState::AuthFailed => Link::Ended(End::AuthFailed),
        zk::SessionState::Closed => Link::Ended(End::Closed),
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn")
            .field("session", &session_id(self.session))
            .field("link", &*self.link.borrow())
            .finish_non_exhaustive()
    }
}
