//! Certificates for tests, made by the `openssl` program.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use tempfile::TempDir;
use tokio::process::Command;

use crate::{Result, TestbedError};

/// A certificate authority made for one test, what it has signed, and a rival to be refused.
///
/// All are PEM files in a folder that goes when the last clone is dropped. Keys are on the curve
/// P-256, in PKCS#8. Each server started with this gets a certificate of its own, for its address,
/// `127.0.0.1` (where a [`Proxy`](crate::Proxy) listens) and `localhost`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The certificate of the authority: what clients must trust.
    pub ca: PathBuf,
    /// A server's certificate, for `localhost` and `127.0.0.1`.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// A client's certificate of the same authority, with the common name `client`.
    pub client_cert: PathBuf,
    /// Its key.
    pub client_key: PathBuf,
    /// The certificate of another authority with nothing to do with the first: a client that
    /// trusts only this must refuse the server.
    pub other_ca: PathBuf,
    /// A client's certificate of that other authority: a server must refuse it.
    pub other_client_cert: PathBuf,
    /// Its key.
    pub other_client_key: PathBuf,
    dir: Arc<TempDir>,
}

/// A certificate and its key for one server.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Identity {
    /// Key and certificate in one file, as ZooKeeper wants them.
    pub(crate) fn bundle(&self) -> PathBuf {
        self.key.with_extension("bundle.pem")
    }
}

impl TlsFiles {
    /// Makes a new set. Takes about 0.1 s.
    ///
    /// # Errors
    /// [`Setup`](TestbedError::Setup) if `openssl` is missing or refuses, with its message.
    pub async fn generate() -> Result<TlsFiles> {
        let dir = tempfile::Builder::new()
            .prefix("coord-testbed-tls-")
            .tempdir()
            .map_err(TestbedError::io("create a folder for certificates"))?;
        let path = dir.path();
        authority(path, "ca", "coord test authority").await?;
        authority(path, "other-ca", "coord other authority").await?;
        let server = sign(path, "ca", "server", "localhost", SERVER_NAMES).await?;
        let client = sign(path, "ca", "client", "client", "DNS:client").await?;
        let other = sign(path, "other-ca", "other-client", "client", "DNS:client").await?;
        Ok(TlsFiles {
            ca: path.join("ca.pem"),
            cert: server.cert,
            key: server.key,
            client_cert: client.cert,
            client_key: client.key,
            other_ca: path.join("other-ca.pem"),
            other_client_cert: other.cert,
            other_client_key: other.key,
            dir: Arc::new(dir),
        })
    }

    /// Signs a certificate for a server at this address.
    pub(crate) async fn issue(&self, ip: IpAddr) -> Result<Identity> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("server-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        sign(self.dir.path(), "ca", &name, "localhost", &format!("{SERVER_NAMES},IP:{ip}")).await
    }
}

const SERVER_NAMES: &str = "DNS:localhost,IP:127.0.0.1";

/// Enough for any test run; short, so that a key that escapes is worth nothing.
const DAYS: &str = "30";

const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

async fn authority(dir: &Path, name: &str, subject: &str) -> Result<()> {
    let (key, cert, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={subject}"));
    let mut args = vec!["req", "-x509"];
    args.extend(NEW_KEY);
    args.extend(["-keyout", &key, "-out", &cert, "-days", DAYS, "-subj", &subject]);
    openssl(dir, &args).await
}

async fn sign(dir: &Path, authority: &str, name: &str, subject: &str, names: &str) -> Result<Identity> {
    let file = |extension: &str| format!("{name}.{extension}");
    let (key, request, cert, extensions) = (file("key"), file("csr"), file("pem"), file("ext"));
    let subject = format!("/CN={subject}");
    let mut args = vec!["req", "-new"];
    args.extend(NEW_KEY);
    args.extend(["-keyout", &key, "-out", &request, "-subj", &subject]);
    openssl(dir, &args).await?;

    let write = TestbedError::io("write a certificate");
    let text = format!("subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n");
    tokio::fs::write(dir.join(&extensions), text).await.map_err(write)?;
    let (ca, ca_key) = (format!("{authority}.pem"), format!("{authority}.key"));
    // Not a serial file: two servers may start at once, and both would read the same number.
    static SERIAL: AtomicU32 = AtomicU32::new(1);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed).to_string();
    openssl(
        dir,
        &[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-set_serial",
            &serial,
            "-days",
            DAYS,
            "-extfile",
            &extensions,
            "-out",
            &cert,
        ],
    )
    .await?;

    let identity = Identity { cert: dir.join(cert), key: dir.join(key) };
    let read = async {
        let key = tokio::fs::read_to_string(&identity.key).await?;
        let cert = tokio::fs::read_to_string(&identity.cert).await?;
        tokio::fs::write(identity.bundle(), key + &cert).await
    };
    read.await.map_err(TestbedError::io("join key and certificate"))?;
    Ok(identity)
}

async fn openssl(dir: &Path, args: &[&str]) -> Result<()> {
    let what = || format!("openssl {}", args.first().copied().unwrap_or_default());
    let output = Command::new("openssl")
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| TestbedError::Setup { what: what(), message: error.to_string() })?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(TestbedError::Setup { what: what(), message })
}
