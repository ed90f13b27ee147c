//! Encrypted connections: what the options say, and what the driver needs.

use coord_api::{Error, Options, Result};
use redis::{Client, ConnectionInfo};

const OPTIONS: [&str; 3] = ["tls_ca", "tls_cert", "tls_key"];

/// The certificates of a `rediss` URL, read.
#[derive(Clone)]
pub(crate) struct Tls {
    #[cfg(feature = "tls")]
    certificates: redis::TlsCertificates,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// What the options ask for; `None` for plaintext.
    ///
    /// # Errors
    /// [`Config`](coord_api::ErrorKind::Config) for TLS options on a plaintext URL: whoever set them believes that
    /// the connection is encrypted.
    pub(crate) fn new(wanted: bool, options: &Options) -> Result<Option<Self>> {
        if wanted {
            return Self::read(options).map(Some);
        }
        match OPTIONS.iter().find(|name| options.get(name).is_some()) {
            Some(name) => Err(Error::config("a TLS option on a plaintext URL: write rediss://")
                .with_context("option", name)),
            None => Ok(None),
        }
    }

    #[cfg(not(feature = "tls"))]
    fn read(_: &Options) -> Result<Self> {
        Err(Error::config("rediss needs the cargo feature tls of coord-backend-redis"))
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn client(&self, _: ConnectionInfo) -> Result<Client> {
        Err(Error::config("rediss needs the cargo feature tls of coord-backend-redis"))
    }

    #[cfg(feature = "tls")]
    fn read(options: &Options) -> Result<Self> {
        let file = |name: &'static str| match options.get(name) {
            None => Ok(None),
            Some(path) => std::fs::read(path).map(Some).map_err(|e| {
                Error::config("cannot read a file of a TLS option")
                    .with_context("option", name)
                    .with_context("file", path)
                    .with_source(e)
            }),
        };
        let client_tls = match (file("tls_cert")?, file("tls_key")?) {
            (Some(client_cert), Some(client_key)) => Some(redis::ClientTlsConfig { client_cert, client_key }),
            (None, None) => None,
            _ => return Err(Error::config("tls_cert and tls_key go together")),
        };
        // The driver takes the process's provider, and panics if there is none and several could be meant.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Lost only against somebody who installed another at this moment: that one is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Self { certificates: redis::TlsCertificates { client_tls, root_cert: file("tls_ca")? } })
    }

    #[cfg(feature = "tls")]
    pub(crate) fn client(&self, info: ConnectionInfo) -> Result<Client> {
        Client::build_with_tls(info, self.certificates.clone())
            .map_err(|_| Error::config("a certificate or key of the TLS options cannot be used"))
    }
}
