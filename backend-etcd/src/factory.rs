//! Opening an etcd store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{Backend, BackendFactory, Config, Error, ErrorKind, OptionSpec, Result, Retry, kit::Runtime};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    EtcdBackend,
    endpoints::Endpoints,
    error::{Call, Failure},
    facts::Facts,
    paths::Paths,
    settings::{OPTIONS, Settings},
    store::Store,
};

/// How long a server may take to show by its first byte whether it speaks TLS.
const SNIFF: Duration = Duration::from_millis(500);
/// The head of a minimal TLS 1.2 greeting: record, handshake, version; 32 bytes of randomness follow.
const HELLO_HEAD: [u8; 11] = [0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
/// Its tail: no session, one cipher suite, no compression.
const HELLO_TAIL: [u8; 7] = [0, 0, 2, 0xc0, 0x2f, 1, 0];

/// Opens etcd stores: the schemes `etcd` and, with the cargo feature `tls`, `etcds`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EtcdFactory;

#[async_trait]
impl BackendFactory for EtcdFactory {
    fn schemes(&self) -> &'static [&'static str] {
        &["etcd", "etcds"]
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let settings = Settings::read(config).await?;
        let runtime = Runtime::library()?;
        let endpoints = Arc::new(Endpoints::new(&settings, runtime.clone())?);
        reach(&endpoints, &settings).await?;
        let facts = Facts::read(&endpoints).await;
        let store = Store::new(endpoints, Paths::new(&settings.root), runtime, facts.orders_progress());
        Ok(Arc::new(EtcdBackend::new(store, facts.info())))
    }
}

/// Makes one real call: the driver connects lazily and would tell of nothing.
async fn reach(endpoints: &Arc<Endpoints>, settings: &Settings) -> Result<()> {
    let probe = Paths::new(&settings.root).range(&coord_api::Dir::root()).start;
    let reading = endpoints.call(Call::Read, move |connection| {
        let probe = probe.clone();
        async move { connection.kv().get(probe, None).await }
    });
    let failure = match reading.await {
        Ok(_) => return Ok(()),
        // Reached and known; what may be read is a matter of each call.
        Err(failure) if failure.error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        Err(failure) => failure,
    };
    let host = endpoints.host(endpoints.current()).to_owned();
    Err(explain(failure, &host, settings.tls.is_some()).await.with_context("host", host))
}

/// The failure to connect, final unless the server may come yet.
///
/// What a broken handshake leaves behind says nothing, so the server is asked.
async fn explain(failure: Failure, host: &str, secure: bool) -> Error {
    let source = std::error::Error::source(&failure.error).map(ToString::to_string).unwrap_or_default();
    let silent = source.contains("tcp connect error") || source.contains("Timeout expired");
    if failure.inconclusive && !silent {
        if secure {
            let why =
                "the TLS handshake failed: the server may want a client certificate, or does not speak TLS";
            return Error::new(ErrorKind::Tls, why).with_source(source);
        }
        if speaks_tls(host).await {
            return Error::new(ErrorKind::Tls, "the server speaks TLS: use etcds://");
        }
    }
    match failure.error.kind() {
        // Nothing of the caller's was sent, and the server may come.
        ErrorKind::Unavailable => failure.error.with_retry(Retry::Safe),
        _ => failure.error.with_retry(Retry::Never),
    }
}

/// Whether what listens there answers a TLS greeting, be it by an alert.
///
/// An etcd server with TLS just closes the connection when it is spoken to in plain HTTP/2.
async fn speaks_tls(host: &str) -> bool {
    let sniff = async {
        let mut stream = TcpStream::connect(host).await.ok()?;
        let hello = [&HELLO_HEAD[..], &[0; 32], &HELLO_TAIL].concat();
        stream.write_all(&hello).await.ok()?;
        // An alert or a handshake record.
        stream.read_u8().await.ok().map(|first| matches!(first, 0x15 | 0x16))
    };
    tokio::time::timeout(SNIFF, sniff).await.ok().flatten().unwrap_or(false)
}
