//! What the tests share.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{net::SocketAddr, path::Path, time::Duration};

use coord_testbed::{Kind, Provider, Server, ServerOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

/// No test waits longer than this for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until the condition holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The outcome within the deadline.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// Whether the future is still not done after a while; for what must *not* happen.
pub(crate) async fn stays_pending<T>(future: impl Future<Output = T>) -> bool {
    timeout(Duration::from_millis(250), future).await.is_err()
}

/// The local programs, which `scripts/fetch-servers.sh` provides.
pub(crate) fn local(kind: Kind) -> Provider {
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(".servers").join("bin");
    assert!(bin.join(kind.binary()).is_file(), "no {}: run scripts/fetch-servers.sh", kind.binary());
    Provider::Local(bin)
}

pub(crate) async fn start(kind: Kind) -> Server {
    start_with(kind, ServerOptions::new()).await
}

pub(crate) async fn start_with(kind: Kind, options: ServerOptions) -> Server {
    Server::start(kind, &local(kind), options).await.unwrap_or_else(|error| panic!("{error}"))
}

/// A client of Redis, as small as can be.
pub(crate) struct Redis(TcpStream);

impl Redis {
    pub(crate) async fn connect(addr: SocketAddr) -> Redis {
        Redis(soon("a connection", TcpStream::connect(addr)).await.unwrap())
    }

    /// Sends a command of one line.
    pub(crate) async fn send(&mut self, command: &str) -> std::io::Result<()> {
        self.0.write_all(format!("{command}\r\n").as_bytes()).await
    }

    /// Reads one reply of one line; an end of the connection is an error.
    pub(crate) async fn line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(self.0.read_u8().await?);
        }
        line.truncate(line.len() - 2);
        Ok(String::from_utf8(line).unwrap())
    }

    pub(crate) async fn ask(&mut self, command: &str) -> std::io::Result<String> {
        self.send(command).await?;
        self.line().await
    }

    /// The value of a key, read on a connection of its own.
    pub(crate) async fn get(addr: SocketAddr, key: &str) -> String {
        let mut redis = Redis::connect(addr).await;
        let length = redis.ask(&format!("GET {key}")).await.unwrap();
        if length == "$-1" { String::new() } else { redis.line().await.unwrap() }
    }
}
