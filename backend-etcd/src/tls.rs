//! TLS material for the driver.

use coord_api::Result;
use etcd_client::ConnectOptions;

use crate::settings::Tls;

/// The options with TLS.
#[cfg(feature = "tls")]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as without the feature")]
pub(crate) fn apply(options: ConnectOptions, tls: &Tls) -> Result<ConnectOptions> {
    use etcd_client::{Certificate, Identity, TlsOptions};
    let mut material = TlsOptions::new().ca_certificate(Certificate::from_pem(&tls.ca));
    if let Some((cert, key)) = &tls.identity {
        material = material.identity(Identity::from_pem(cert, key));
    }
    if let Some(name) = &tls.name {
        material = material.domain_name(name);
    }
    Ok(options.with_tls(material))
}

/// Never a plaintext connection instead.
#[cfg(not(feature = "tls"))]
pub(crate) fn apply(_: ConnectOptions, _: &Tls) -> Result<ConnectOptions> {
    Err(coord_api::Error::config("this program was built without TLS for etcd"))
}
