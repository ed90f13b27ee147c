//! As much of HTTP as it takes to give out one page.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Longest head of a request, in bytes.
const HEAD_MAX: usize = 8 * 1024;
/// Longest that a client may take, from connecting to having read the page.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most clients at once; others wait.
const CLIENTS_MAX: usize = 16;

/// Serves what `page` gives at `/metrics`, in Prometheus' text format, until the future is dropped.
///
/// # Cancel safety
/// Safe: connections are closed.
pub async fn serve<P, F>(listener: TcpListener, page: P)
where
    P: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = String> + Send,
{
    let page = Arc::new(page);
    let mut clients = JoinSet::new();
    loop {
        while clients.try_join_next().is_some() {}
        if clients.len() >= CLIENTS_MAX {
            clients.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let page = Arc::clone(&page);
                clients.spawn(async move {
                    // A client that goes away or is too slow is its own affair.
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &*page)).await;
                });
            }
            // Of the system, such as too many open files: it may pass.
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer<P, F>(mut stream: TcpStream, page: &P) -> io::Result<()>
where
    P: Fn() -> F + Sync,
    F: Future<Output = String> + Send,
{
    let head = match head(&mut stream).await? {
        Some(head) => head,
        None => return reply(&mut stream, "431 Request Header Fields Too Large", "", "", true).await,
    };
    let mut words = head.split([' ', '\r', '\n']);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let body = page().await;
            let format = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n";
            reply(&mut stream, "200 OK", format, &body, method == "GET").await
        }
        ("GET" | "HEAD", _) => {
            reply(&mut stream, "404 Not Found", "", "the page is /metrics\n", method == "GET").await
        }
        _ => reply(&mut stream, "405 Method Not Allowed", "Allow: GET, HEAD\r\n", "", true).await,
    }
}

/// The head of the request; `None` if it is too long.
async fn head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        let read = stream.read(&mut part).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..read]);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
        if head.len() > HEAD_MAX {
            return Ok(None);
        }
    }
}

async fn reply(
    stream: &mut TcpStream,
    status: &str,
    headers: &str,
    body: &str,
    with_body: bool,
) -> io::Result<()> {
    let head =
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    if with_body {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}
