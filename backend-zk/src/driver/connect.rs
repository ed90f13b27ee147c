//! Opening a session.

use std::{fmt, sync::Arc, time::Duration};

use coord_api::{Error, Result, Secret, kit::Runtime};
use zookeeper_client as zk;

use super::{Conn, Effect, Role, errors::fault};

/// Who may do what with the nodes that we make.
#[derive(Clone, Debug)]
pub(crate) struct NodeAcl(Arc<[zk::Acl]>);

impl NodeAcl {
    /// Everybody everything.
    pub(crate) fn open() -> Self {
        Self(Arc::new([all(zk::AuthId::anyone())]))
    }

    /// The user that made a node everything; these others, by scheme and id, read.
    pub(crate) fn creator<'a>(readers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let readers = readers
            .into_iter()
            .map(|(scheme, id)| zk::Acl::new(zk::Permission::READ, zk::AuthId::new(scheme, id)));
        Self(std::iter::once(all(zk::AuthId::authed())).chain(readers).collect())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0
            .iter()
            .any(|acl| acl.permission() == zk::Permission::ALL && *acl.auth_id() == zk::AuthId::anyone())
    }

    pub(super) fn acls(&self) -> zk::Acls<'_> {
        zk::Acls::new(&self.0)
    }

    /// A generous bound on what the ACL adds to a request, in bytes. The server knows the creator by a longer name.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|acl| 64 + acl.scheme().len() + acl.id().len()).sum()
    }
}

fn all(id: zk::AuthId) -> zk::Acl {
    zk::Acl::new(zk::Permission::ALL, id)
}

/// PEM texts for TLS.
#[derive(Clone, Default)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "refused before it is read"))]
pub(crate) struct TlsFiles {
    /// Whom to trust.
    pub(crate) ca: String,
    /// Our certificate and its key.
    pub(crate) identity: Option<(String, Secret)>,
}

impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsFiles").field("identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

/// How to open sessions.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    /// `host:port,host:port`.
    pub(crate) hosts: String,
    /// `user:password`.
    pub(crate) digest: Option<Secret>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) runtime: Runtime,
}

impl Connector {
    /// Opens a session of about `ttl`: one pass over the servers.
    pub(crate) async fn open(&self, role: Role, ttl: Duration) -> Result<Arc<Conn>> {
        let this = self.clone();
        // The driver spawns its connection wherever it is polled: that must be the library's runtime.
        self.runtime.run(async move { this.open_here(role, ttl).await }).await
    }

    async fn open_here(&self, role: Role, ttl: Duration) -> Result<Arc<Conn>> {
        let mut connector = zk::Client::connector()
            .with_session_timeout(ttl)
            .with_connection_timeout(silence(ttl))
            .with_fail_eagerly();
        if let Some(digest) = &self.digest {
            connector = connector.with_auth("digest", digest.expose().as_bytes());
        }
        let opened = match &self.tls {
            None => connector.connect(&self.hosts).await,
            Some(files) => secure(connector, files, &self.hosts).await?,
        };
        let client = opened.map_err(|e| fault(e, role, Effect::Read).into_error())?;
        Ok(Conn::new(client, role, self.runtime.clone()))
    }
}

/// How long a connection may be silent before it counts as lost.
///
/// A fifth of the ttl leaves time for several attempts; very short sessions get more, or a busy machine would
/// look like a broken network.
fn silence(ttl: Duration) -> Duration {
    (ttl / 5).max((ttl * 2 / 5).min(Duration::from_millis(400)))
}

/// The cryptography of this process.
///
/// The driver takes the process's default, and panics where several are compiled in and none was chosen.
#[cfg(feature = "tls")]
pub(crate) fn crypto() -> Arc<rustls::crypto::CryptoProvider> {
    use rustls::crypto::{CryptoProvider, ring};
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread was first: its choice is as good.
        let _ = ring::default_provider().install_default();
    }
    CryptoProvider::get_default().map_or_else(|| Arc::new(ring::default_provider()), Arc::clone)
}

#[cfg(feature = "tls")]
async fn secure(
    connector: zk::Connector,
    files: &TlsFiles,
    hosts: &str,
) -> Result<std::result::Result<zk::Client, zk::Error>> {
    crypto();
    // Not the driver's own text, which may quote the file.
    let bad = |what| move |_| Error::config(what);
    let mut options =
        zk::TlsOptions::new().with_pem_ca(&files.ca).map_err(bad("tls_ca holds no certificate in PEM"))?;
    if let Some((cert, key)) = &files.identity {
        options = options
            .with_pem_identity(cert, key.expose())
            .map_err(bad("tls_cert and tls_key are no certificate and key in PEM"))?;
    }
    Ok(connector.with_tls(options).secure_connect(hosts).await)
}

#[cfg(not(feature = "tls"))]
async fn secure(
    _: zk::Connector,
    _: &TlsFiles,
    _: &str,
) -> Result<std::result::Result<zk::Client, zk::Error>> {
    std::future::ready(Err(Error::config("TLS is not compiled in: build with the feature tls"))).await
}
