//! Every kind with TLS, asked with the `openssl` program.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::{net::SocketAddr, path::Path, process::Stdio};

use common::{soon, start_with};
use coord_testbed::{Kind, ServerOptions, TlsFiles};
use tokio::{io::AsyncWriteExt, process::Command};

/// What the server answers to `say`, or nothing if the handshake fails.
async fn ask(addr: SocketAddr, ca: &Path, client: Option<(&Path, &Path)>, say: &str) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-verify_return_error", "-connect", &addr.to_string()]);
    command.arg("-verify_ip").arg(addr.ip().to_string()).arg("-CAfile").arg(ca);
    if let Some((cert, key)) = client {
        command.arg("-cert").arg(cert).arg("-key").arg(key);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // Kept open: the end of the input would end the client before the answer is there. A server
    // that refuses closes before all is written.
    let mut input = child.stdin.take().unwrap();
    let _ = input.write_all(say.as_bytes()).await;
    let output = soon("an answer", child.wait_with_output()).await.unwrap();
    drop(input);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn question(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::ZooKeeper | Kind::ZooKeeper38 => ("srvr", "Zookeeper version"),
        Kind::Etcd => ("GET /health HTTP/1.0\r\n\r\n", "\"health\":\"true\""),
        _ => ("PING\r\nQUIT\r\n", "PONG"),
    }
}

async fn tls(kind: Kind) {
    let files = TlsFiles::generate().await.unwrap();
    let (say, answer) = question(kind);

    let server = start_with(kind, ServerOptions::new().tls(files.clone())).await;
    assert_eq!(server.url(), format!("{}://{}", kind.tls_scheme(), server.addr()));
    assert!(ask(server.addr(), &files.ca, None, say).await.contains(answer));
    assert_eq!(ask(server.addr(), &files.other_ca, None, say).await, "");
    let proxy = server.proxied().await.unwrap();
    assert!(proxy.url().starts_with(kind.tls_scheme()));
    assert!(ask(proxy.addr(), &files.ca, None, say).await.contains(answer));
    server.stop().await.unwrap();

    let options = ServerOptions::new().tls(files.clone()).require_client_cert(true);
    let server = start_with(kind, options).await;
    let client = Some((files.client_cert.as_path(), files.client_key.as_path()));
    let other = Some((files.other_client_cert.as_path(), files.other_client_key.as_path()));
    assert!(ask(server.addr(), &files.ca, client, say).await.contains(answer));
    assert!(!ask(server.addr(), &files.ca, other, say).await.contains(answer));
    assert!(!ask(server.addr(), &files.ca, None, say).await.contains(answer));
}

#[tokio::test]
async fn tls_of_zookeeper() {
    tls(Kind::ZooKeeper).await;
}

#[tokio::test]
async fn tls_of_zookeeper_38() {
    tls(Kind::ZooKeeper38).await;
}

#[tokio::test]
async fn tls_of_etcd() {
    tls(Kind::Etcd).await;
}

#[tokio::test]
async fn tls_of_redis() {
    tls(Kind::Redis).await;
}

#[tokio::test]
async fn tls_of_valkey() {
    tls(Kind::Valkey).await;
}

#[tokio::test]
async fn the_files_go_with_the_last_clone() {
    let files = TlsFiles::generate().await.unwrap();
    let (ca, copy) = (files.ca.clone(), files.clone());
    drop(files);
    assert!(ca.is_file());
    drop(copy);
    assert!(!ca.exists());
}
