//! A relay on a link that counts the bytes of both directions.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Passes everything on, and counts it. Dropping it closes all connections.
#[derive(Debug)]
pub(crate) struct Relay {
    addr: SocketAddr,
    bytes: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Starts a relay before `upstream`, on a free port of 127.0.0.1.
    pub(crate) async fn start(upstream: SocketAddr) -> io::Result<Relay> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (addr, bytes) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let accepting = tokio::spawn(accept(listener, upstream, Arc::clone(&bytes)));
        Ok(Relay { addr, bytes, accepting })
    }

    /// Where clients connect.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many bytes have gone through, there and back.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, bytes: Arc<AtomicU64>) {
    // Ends with this task.
    let mut links = JoinSet::new();
    // A listener that fails is seen by the clients, which no longer get through.
    while let Ok((client, _)) = listener.accept().await {
        let bytes = Arc::clone(&bytes);
        links.spawn(async move {
            let server = TcpStream::connect(upstream).await?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            tokio::try_join!(pass(from_client, to_server, &bytes), pass(from_server, to_client, &bytes))
                .map(drop)
        });
        while links.try_join_next().is_some() {}
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    bytes: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        bytes.fetch_add(read as u64, Ordering::SeqCst);
        to.write_all(&buffer[..read]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_of_both_directions_are_counted() {
        let upstream = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let relay = Relay::start(upstream.local_addr().unwrap()).await.unwrap();
        let mut client = TcpStream::connect(relay.addr()).await.unwrap();
        let (mut server, _) = upstream.accept().await.unwrap();
        client.write_all(b"question").await.unwrap();
        let mut question = [0; 8];
        server.read_exact(&mut question).await.unwrap();
        server.write_all(b"answers").await.unwrap();
        drop(server);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!((answer.as_str(), relay.bytes()), ("answers", 15));
    }
}
