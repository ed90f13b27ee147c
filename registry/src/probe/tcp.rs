//! Does it take connections?

use async_trait::async_trait;
use coord_api::{Error, Result};
use tokio::net::TcpStream;

use super::Probe;
use crate::Instance;

/// Passes if the instance takes a TCP connection.
///
/// Of an instance without plain port, its TLS port is asked. The operating system takes connections for a process that
/// hangs, as long as its backlog is not full: to notice that, ask by [`HttpProbe`](crate::HttpProbe).
///
/// ```
/// use std::time::Duration;
/// use coord_registry::{Probing, TcpProbe};
///
/// let probing = Probing::new(TcpProbe::new(), Duration::from_secs(5));
/// # let _ = probing;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpProbe {
    port: Option<u16>,
}

impl TcpProbe {
    /// Asks the instance's own port.
    #[must_use]
    pub const fn new() -> Self {
        Self { port: None }
    }

    /// Asks another port, the same of all instances.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }
}

#[async_trait]
impl Probe for TcpProbe {
    async fn probe(&self, instance: &Instance) -> Result<()> {
        let plain = Some(instance.port()).filter(|port| *port != 0);
        connect(instance, self.port.or(plain).or(instance.tls_port())).await.map(drop)
    }
}

/// Connects to a port of an instance.
pub(super) async fn connect(instance: &Instance, port: Option<u16>) -> Result<TcpStream> {
    let Some(port) = port else { return Err(Error::invalid("the instance has no port to ask")) };
    TcpStream::connect((instance.address(), port)).await.map_err(|cause| {
        Error::unavailable("the instance takes no connection").with_context("port", port).with_source(cause)
    })
}
