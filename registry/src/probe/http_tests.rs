use std::{net::Ipv4Addr, time::Duration};

use tokio::{net::TcpListener, task::JoinHandle};

use super::*;
use crate::{Probing, TcpProbe};

/// Plenty for what answers, and more than the misbehaving ones are given.
const PLENTY: Duration = Duration::from_secs(20);

/// Serves one connection, after its request, in its own way.
async fn server<F>(serve: impl FnOnce(TcpStream) -> F + Send + 'static) -> (Instance, JoinHandle<String>)
where
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut request).await.unwrap_or_default() == 0 {
                break;
            }
        }
        serve(stream).await;
        String::from_utf8(request).unwrap()
    });
    (Instance::new("billing", "b1", "127.0.0.1", port), served)
}

/// A server that says this and closes.
async fn saying(answer: &'static [u8]) -> Instance {
    server(async move |mut stream| stream.write_all(answer).await.unwrap()).await.0
}

async fn ask(instance: &Instance, within: Duration) -> Result<()> {
    let probing = Probing::new(HttpProbe::new("/health").unwrap(), PLENTY).with_timeout(within);
    tokio::time::timeout(PLENTY + PLENTY, probing.ask(instance)).await.expect("a probe ends in time")
}

#[tokio::test]
async fn an_instance_that_answers_well_passes() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..],
        b"HTTP/1.0 204\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n\r\n",
        b"HTTP/1.1 399 \n\n",
    ] {
        ask(&saying(answer).await, PLENTY).await.unwrap();
    }
}

#[tokio::test]
async fn the_request_is_what_servers_expect() {
    let (instance, served) =
        server(async |mut stream| stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap()).await;
    ask(&instance, PLENTY).await.unwrap();
    let request = served.await.unwrap();
    let mut lines = request.split("\r\n");
    assert_eq!(lines.next(), Some("GET /health HTTP/1.1"));
    assert_eq!(lines.next(), Some(format!("Host: 127.0.0.1:{}", instance.port()).as_str()));
    assert!(request.contains("\r\nConnection: close\r\n"), "{request}");
    assert_eq!(host("::1", 80), "[::1]:80");
}

#[tokio::test]
async fn one_that_is_not_well_or_speaks_no_http_fails_with_the_reason() {
    let not_well = ErrorKind::Unavailable;
    for (answer, kind) in [
        (&b"HTTP/1.1 503 Service Unavailable\r\n\r\n"[..], not_well),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", not_well),
        (b"HTTP/1.1 199 Odd\r\n\r\n", not_well),
        (b"", not_well),
        (b"SSH-2.0-OpenSSH_9.2\r\n", ErrorKind::Malformed),
        (b"\x16\x03\x01\x02\x00\x01\x00\xff\xfe\n", ErrorKind::Malformed),
        (b"HTTP/1.1 2", ErrorKind::Malformed),
        (b"HTTP/1.1 2000 OK\r\n", ErrorKind::Malformed),
        (b"HTTP/1.1 +20 OK\r\n", ErrorKind::Malformed),
        (b"HTTP/2 200\r\n", ErrorKind::Malformed),
        (b"\nHTTP/1.1 200 OK\r\n", ErrorKind::Malformed),
    ] {
        let error = ask(&saying(answer).await, PLENTY).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("service=billing, id=b1"), "{error}");
    }
}

#[tokio::test]
async fn one_that_never_answers_or_drips_is_given_up_in_time() {
    let short = Duration::from_millis(200);
    let (silent, _) = server(async |_stream| std::future::pending().await).await;
    assert_eq!(ask(&silent, short).await.unwrap_err().kind(), ErrorKind::Timeout);
    let (dripping, _) = server(async |mut stream| {
        while stream.write_all(b"H").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(ask(&dripping, short).await.unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn of_an_endless_answer_only_the_first_line_is_read() {
    let endless = |first: &'static [u8]| {
        server(async move |mut stream| {
            stream.write_all(first).await.unwrap();
            // Ends when the probe hangs up: it must not read on.
            while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
        })
    };
    let (well, served) = endless(b"HTTP/1.1 200 OK\r\n").await;
    ask(&well, PLENTY).await.unwrap();
    tokio::time::timeout(PLENTY, served).await.expect("the probe hung up").unwrap();
    let (no_line, served) = endless(b"HTTP/1.1 ").await;
    assert_eq!(ask(&no_line, PLENTY).await.unwrap_err().kind(), ErrorKind::Malformed);
    tokio::time::timeout(PLENTY, served).await.expect("the probe hung up").unwrap();
}

#[tokio::test]
async fn where_nobody_listens_both_probes_fail() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let instance = Instance::new("billing", "b1", "127.0.0.1", port);
    let tcp = Probing::new(TcpProbe::new(), PLENTY).with_timeout(PLENTY);
    tcp.ask(&instance).await.unwrap();
    let elsewhere = Instance::new("billing", "b1", "127.0.0.1", 1);
    Probing::new(TcpProbe::new().with_port(port), PLENTY).with_timeout(PLENTY).ask(&elsewhere).await.unwrap();
    let secure = Instance::new("billing", "b1", "127.0.0.1", 0).with_tls_port(port);
    tcp.ask(&secure).await.unwrap();
    assert_eq!(ask(&secure, PLENTY).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(listener);
    assert_eq!(tcp.ask(&instance).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let error = ask(&instance, PLENTY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&format!("port={port}")), "{error}");
}

#[tokio::test]
async fn what_would_forge_a_request_is_refused() {
    for path in ["", "health", "/a b", "/a\r\nHost: evil", "/\u{e9}"] {
        assert_eq!(HttpProbe::new(path).unwrap_err().kind(), ErrorKind::InvalidArgument, "{path:?}");
    }
    let hostile = Instance::new("billing", "b1", "10.0.0.7\r\nX: y", 80);
    assert_eq!(ask(&hostile, PLENTY).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}
