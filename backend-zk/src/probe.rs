//! A look at the servers before the driver is let loose: it reports every trouble as a timeout.

use std::time::Duration;

use coord_api::{Error, ErrorKind, Result, Retry};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use crate::settings::Settings;

/// How much of an answer is read: `srvr` says less.
const ANSWER_MAX: u64 = 4096;
/// How long one server may take to say what it is; it need not, the port being open is what counts.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// What a server says about itself; parts that it does not tell are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerFacts {
    pub(crate) version: Option<(u32, u32, u32)>,
    pub(crate) standalone: Option<bool>,
}

impl ServerFacts {
    pub(crate) fn name(&self) -> String {
        self.version.map_or_else(String::new, |(a, b, c)| format!("ZooKeeper {a}.{b}.{c}"))
    }

    /// Whether one session may hold watches of several modes on one path: broken before 3.9.
    pub(crate) fn mixes_watch_modes(&self) -> bool {
        self.version.is_some_and(|version| version >= (3, 9, 0))
    }
}

/// Connects to all servers at once; returns what the first that answers says.
///
/// # Errors
/// [`Tls`](ErrorKind::Tls) or [`Unavailable`](ErrorKind::Unavailable), if none can be reached.
pub(crate) async fn probe(settings: &Settings, deadline: Instant) -> Result<ServerFacts> {
    let mut looks: FuturesUnordered<_> =
        settings.hosts.iter().map(|(name, port)| look(settings, name, *port, deadline)).collect();
    let mut failed: Option<Error> = None;
    while let Some(seen) = looks.next().await {
        match seen {
            Ok(facts) => return Ok(facts),
            // A broken handshake says more than a server that is down.
            Err(error) => {
                if failed
                    .as_ref()
                    .is_none_or(|known| !matches!(known.kind(), ErrorKind::Tls | ErrorKind::Config))
                {
                    failed = Some(error);
                }
            }
        }
    }
    Err(failed.unwrap_or_else(|| Error::unavailable("no server to connect to")))
}

async fn look(settings: &Settings, name: &str, port: u16, deadline: Instant) -> Result<ServerFacts> {
    let about = |e: Error| e.with_context("server", format!("{name}:{port}"));
    let stream = timeout_at(deadline, TcpStream::connect((name, port)))
        .await
        .map_err(|_| about(Error::unavailable("no answer to connecting within connect_timeout")))?
        .map_err(|e| about(Error::unavailable("cannot connect").with_source(e)))?;
    match &settings.connector.tls {
        None => Ok(ask(stream, deadline).await.unwrap_or_default()),
        #[cfg(feature = "tls")]
        Some(files) => {
            let stream = timeout_at(deadline, tls::handshake(files, name, stream))
                .await
                .map_err(|_| about(tls::error("the server did not answer the TLS handshake")))?
                .map_err(about)?;
            match ask(stream, deadline).await {
                // With TLS 1.3 the server refuses a missing certificate only now.
                Err(e) if e.get_ref().is_some_and(|e| e.is::<rustls::Error>()) => {
                    Err(about(tls::error("the server refused the TLS connection").with_source(e)))
                }
                answer => Ok(answer.unwrap_or_default()),
            }
        }
        #[cfg(not(feature = "tls"))]
        Some(_) => Err(Error::config("TLS is not compiled in")),
    }
}

/// Asks what the server is. It may be told not to say.
async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    deadline: Instant,
) -> std::io::Result<ServerFacts> {
    let mut answer = Vec::new();
    let asked = async {
        stream.write_all(b"srvr").await?;
        stream.flush().await?;
        stream.take(ANSWER_MAX).read_to_end(&mut answer).await
    };
    match timeout_at(deadline.min(Instant::now() + ANSWER_TIME), asked).await {
        // What came before the server hung up counts.
        Ok(Err(e)) if answer.is_empty() => Err(e),
        _ => Ok(read(&String::from_utf8_lossy(&answer))),
    }
}

fn read(answer: &str) -> ServerFacts {
    let after = |label: &str| answer.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    let version = after("Zookeeper version:").and_then(|text| {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    ServerFacts { version, standalone: after("Mode:").map(|mode| mode == "standalone") }
}

/// What is risky about this set-up, one sentence each.
pub(crate) fn warnings(settings: &Settings, facts: &ServerFacts) -> Vec<String> {
    let mut warnings = Vec::new();
    if facts.standalone == Some(true) {
        warnings.push("this is a single ZooKeeper server: if its disk is lost, so is everything".to_owned());
    } else if settings.hosts.len() == 1 {
        warnings
            .push("the URL names one server: name all, or its loss lasts longer than sessions do".to_owned());
    }
    if settings.acl.is_open() {
        warnings.push(
            "acl=open: every client of the server may read and change the nodes; see the option acl"
                .to_owned(),
        );
    }
    if let Some(version) = facts.version {
        let name = facts.name();
        if version < (3, 6, 0) {
            warnings.push(format!("{name} has no recursive watches: 3.6 or newer is needed"));
        }
        if version < (3, 8, 4) || ((3, 9, 0)..(3, 9, 2)).contains(&version) {
            warnings.push(format!("{name} tells watchers of children that their ACL hides (CVE-2024-23944)"));
        }
        if ((3, 9, 0)..(3, 9, 4)).contains(&version) {
            warnings.push(format!(
                "{name} can lose committed data on a resync of followers (ZOOKEEPER-4925): use 3.9.4"
            ));
        }
    }
    warnings
}

#[cfg(feature = "tls")]
mod tls {
    use std::sync::Arc;

    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::{Error, ErrorKind, Result, Retry, TcpStream};
    use crate::driver::{TlsFiles, crypto};

    pub(super) fn error(message: &'static str) -> Error {
        Error::new(ErrorKind::Tls, message).with_retry(Retry::Never)
    }

    pub(super) async fn handshake(
        files: &TlsFiles,
        name: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>> {
        let config = config(files)?;
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Error::config("the host is no name that a certificate can have"))?;
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .map_err(|e| error("the TLS handshake failed").with_source(e))
    }

    fn config(files: &TlsFiles) -> Result<rustls::ClientConfig> {
        let bad_ca = |_| Error::config("tls_ca holds no certificate in PEM");
        let mut roots = rustls::RootCertStore::empty();
        for cert in CertificateDer::pem_slice_iter(files.ca.as_bytes()) {
            roots
                .add(cert.map_err(bad_ca)?)
                .map_err(|_| Error::config("tls_ca holds a broken certificate"))?;
        }
        if roots.is_empty() {
            return Err(Error::config("tls_ca holds no certificate in PEM"));
        }
        let builder = rustls::ClientConfig::builder_with_provider(crypto())
            .with_safe_default_protocol_versions()
            .map_err(|e| error("no TLS version").with_source(e))?
            .with_root_certificates(roots);
        let Some((cert, key)) = &files.identity else { return Ok(builder.with_no_client_auth()) };
        // Not the errors' own texts, which may quote the files.
        let chain = CertificateDer::pem_slice_iter(cert.as_bytes())
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|_| Error::config("tls_cert holds no certificate in PEM"))?;
        let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes())
            .map_err(|_| Error::config("tls_key holds no key in PEM"))?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|_| Error::config("tls_cert and tls_key do not belong together"))
    }
}

/// The driver's answer when it could not open a session although the port is open.
pub(crate) fn no_session(error: Error) -> Error {
    if error.kind() == ErrorKind::Unavailable {
        return Error::new(
            ErrorKind::Unavailable,
            "the port is open, but no ZooKeeper session could be opened there",
        )
        .with_retry(Retry::Safe)
        .with_source(error);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_read_and_junk_is_not() {
        let answer = "Zookeeper version: 3.9.3-1+deb13u1, built on 2025\nLatency min/avg/max: 0/0/0\nMode: standalone\n";
        assert_eq!(read(answer), ServerFacts { version: Some((3, 9, 3)), standalone: Some(true) });
        assert_eq!(read("Zookeeper version: 3.8.0-5a02a05\nMode: follower\n").standalone, Some(false));
        for junk in [
            "",
            "HTTP/1.1 400 Bad Request\r\n",
            "srvr is not executed because it is not in the whitelist.",
            "Zookeeper version: x.y\n",
            "Zookeeper version: 99999999999.0.0\n",
        ] {
            assert_eq!(read(junk), ServerFacts::default(), "{junk}");
        }
    }
}
