//! Does it answer a request?

use async_trait::async_trait;
use coord_api::{Error, ErrorKind, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Probe, tcp::connect};
use crate::Instance;

/// Longest status line that is read.
const LINE_MAX: usize = 1_024;

/// Passes if the instance answers `GET` with a status from 200 to 399, over plain HTTP/1.1.
///
/// Reads the first line of the answer and no more, whatever the instance sends. Follows no redirects and speaks no TLS.
///
/// ```
/// use std::time::Duration;
/// use coord_registry::{HttpProbe, Probing};
///
/// let probing = Probing::new(HttpProbe::new("/health?deep=1")?.with_port(9_000), Duration::from_secs(5));
/// # let _ = probing;
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpProbe {
    path: String,
    port: Option<u16>,
}

impl HttpProbe {
    /// Asks for `path` on the instance's own port.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the path does not begin with a slash, or has blanks or what is
    /// not printable ASCII in it: percent-encode those.
    pub fn new(path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        // Whoever could put a line break here could send a request of their own.
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                Error::invalid("a path begins with a slash and has no blanks").with_context("path", path)
            );
        }
        Ok(Self { path, port: None })
    }

    /// Asks another port, the same of all instances.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    fn request(&self, host: &str) -> String {
        let path = &self.path;
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: coord\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )
    }
}

#[async_trait]
impl Probe for HttpProbe {
    async fn probe(&self, instance: &Instance) -> Result<()> {
        let address = instance.address();
        if !address.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid("an address that cannot stand in a request"));
        }
        let port = self.port.or(Some(instance.port()).filter(|port| *port != 0));
        let mut stream = connect(instance, port).await?;
        let host = host(address, port.unwrap_or_default());
        stream.write_all(self.request(&host).as_bytes()).await.map_err(broke_off)?;
        match status(&line(&mut stream).await?) {
            Some(200..=399) => Ok(()),
            Some(status) => {
                Err(Error::unavailable("the instance says that it is not well")
                    .with_context("status", status))
            }
            None => Err(Error::new(ErrorKind::Malformed, "the answer is no HTTP")),
        }
    }
}

/// The value of the header `Host`.
fn host(address: &str, port: u16) -> String {
    // An IPv6 address has colons of its own.
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// The first line of the answer, or what there is of it.
async fn line(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut line = Vec::with_capacity(LINE_MAX);
    let mut stream = stream.take(u64::try_from(LINE_MAX).unwrap_or(u64::MAX));
    while !line.contains(&b'\n') {
        if stream.read_buf(&mut line).await.map_err(broke_off)? == 0 {
            break;
        }
    }
    if line.is_empty() { Err(Error::unavailable("the instance gave no answer")) } else { Ok(line) }
}

/// The status in a line such as `HTTP/1.1 200 OK`.
fn status(line: &[u8]) -> Option<u16> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let rest = line.strip_prefix(b"HTTP/1.0 ").or_else(|| line.strip_prefix(b"HTTP/1.1 "))?;
    let (digits, after) = rest.split_at_checked(3)?;
    let ends = after.first().is_none_or(|byte| matches!(byte, b' ' | b'\r'));
    let digits =
        std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|_| ends)
}

fn broke_off(cause: std::io::Error) -> Error {
    Error::unavailable("the instance broke off").with_source(cause)
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
