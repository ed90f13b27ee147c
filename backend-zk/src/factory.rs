//! Opening a store by its URL.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    Backend, BackendFactory, Config, Dir, Error, ErrorKind, OptionSpec, Result, Retry, kit::Backoff,
};
use tokio::time::{Instant, timeout_at};

use crate::{
    backend::ZkBackend,
    base::Base,
    driver::{Conn, Fault},
    handle::Core,
    probe::{no_session, probe},
    settings::{OPTIONS, Settings},
};

const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// Opens ZooKeeper ensembles: `zk://host:2181,host:2181/chroot`, and `zks://` for TLS (feature `tls`).
///
/// A user and password become a `digest` identity of every session. The chroot is created if it is missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZkFactory;

#[async_trait]
impl BackendFactory for ZkFactory {
    fn schemes(&self) -> &'static [&'static str] {
        &["zk", "zks"]
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let settings = Settings::read(config)?;
        // A little less than what whoever called allows, so that the error says what it was.
        let deadline = Instant::now() + settings.connect_timeout.mul_f64(0.9);
        let mut facts = probe(&settings, deadline).await?;
        let base = open(&settings, deadline).await?;
        if facts.standalone.is_none() {
            facts.standalone = ensemble(&base, deadline).await;
        }
        let core = Core::new(settings, facts, base);
        // The handle ends what was opened if the rest fails.
        let backend = ZkBackend::new(core);
        backend.enter_chroot(deadline).await?;
        Ok(Arc::new(backend))
    }
}

impl ZkBackend {
    /// Creates the chroot if it is missing. Without one there is nothing to do.
    async fn enter_chroot(&self, deadline: Instant) -> Result<()> {
        let core = self.core();
        let root = core.settings.paths.dir(&Dir::root());
        let conn = core.base.conn(deadline).await?;
        let about = |e: Error| e.with_context("chroot", &root);
        if exists(&conn, deadline, &root).await.map_err(about)? {
            return Ok(());
        }
        let inside = format!("{root}/x");
        core.make_parents(&conn, deadline, &inside).await.map_err(about)
    }
}

/// Opens the base connection; an ensemble that elects its leader just now gets until the deadline.
async fn open(settings: &Settings, deadline: Instant) -> Result<Arc<Base>> {
    let mut backoff = Backoff::new(BACKOFF_MAX);
    loop {
        let open = Base::open(settings.connector.clone(), settings.base_ttl);
        match timeout_at(deadline, open).await {
            Ok(Ok(base)) => return Ok(base),
            Ok(Err(error)) => {
                let delay = backoff.next_delay(&settings.connector.runtime);
                if error.retry() != Retry::Safe || Instant::now() + delay >= deadline {
                    return Err(no_session(error));
                }
                tokio::time::sleep(delay).await;
            }
            Err(_) => return Err(no_session(Error::unavailable("no answer within connect_timeout"))),
        }
    }
}

/// `Some(false)` if the server's configuration names several servers. That it names none proves nothing.
async fn ensemble(base: &Base, deadline: Instant) -> Option<bool> {
    let conn = base.conn(deadline).await.ok()?;
    let (config, _) = conn.get(deadline, "/zookeeper/config".to_owned(), false).await.ok()?;
    let servers = String::from_utf8_lossy(&config).lines().filter(|line| line.starts_with("server.")).count();
    (servers > 1).then_some(false)
}

async fn exists(conn: &Conn, deadline: Instant, path: &str) -> Result<bool> {
    match conn.stat(deadline, path.to_owned()).await {
        Ok(node) => Ok(node.is_some()),
        // Newer servers ask the ACL, and only of a node that is there. What we may do inside shows later.
        Err(Fault::Error(error)) if error.kind() == ErrorKind::PermissionDenied => Ok(true),
        Err(fault) => Err(fault.into_error()),
    }
}
