//! Opening a store, and what is said when it cannot be.

use std::time::{Duration, Instant};

use coord_api::{Durability, Error, ErrorKind, Retry};
use coord_testbed::{Link, ServerOptions};

use crate::support::*;

/// What opening says, and that it says it in time.
async fn refusal(url: &str) -> Error {
    let began = Instant::now();
    let error = open(url).await.expect_err("must not open");
    assert!(began.elapsed() < Duration::from_secs(5), "{error} after {:?}", began.elapsed());
    // Who cannot be reached may come; what is wrong stays wrong.
    let retry = if error.kind() == ErrorKind::Unavailable { Retry::Safe } else { Retry::Never };
    assert_eq!(error.retry(), retry, "{error}");
    error
}

#[tokio::test]
async fn a_closed_port_is_unavailable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let error = refusal(&format!("etcd://{addr}")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_silent_server_is_unavailable() {
    let server = server!();
    let proxy = server.proxied().await.unwrap();
    proxy.set(Link::BlackHole);
    let error = refusal(&format!("{}?request_timeout=1s", proxy.url())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn the_first_member_may_be_down() {
    let server = server!();
    let store = open(&format!("etcd://127.0.0.1:1,{}", server.addr())).await.unwrap();
    put(&store, "/a", "1").await;
    assert_eq!(get(&store, "/a").await.unwrap().value, "1");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_single_member_says_what_it_is() {
    let server = server!();
    let store = open(&server.url()).await.unwrap();
    let info = store.info();
    assert_eq!(info.server, format!("etcd {}", server.version()));
    assert_eq!(info.guarantees.durability, Durability::Restart);
    assert!(info.warnings.iter().any(|warning| warning.contains("single member")), "{:?}", info.warnings);
    store.close().await.unwrap();
}

#[tokio::test]
async fn only_the_right_password_opens() {
    let server = server!(ServerOptions::new().auth("alice", "s3cret"));
    let addr = server.addr();
    let store = open(&format!("etcd://alice:s3cret@{addr}/app")).await.unwrap();
    put(&store, "/a", "1").await;
    store.close().await.unwrap();
    for url in
        [format!("etcd://alice:wr0ng@{addr}"), format!("etcd://bob:wr0ng@{addr}"), format!("etcd://{addr}")]
    {
        let error = refusal(&url).await;
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
        assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error}");
    }
}

#[tokio::test]
async fn a_user_where_there_are_none_is_not_let_in_as_nobody() {
    let server = server!();
    let error = refusal(&format!("etcd://alice:wr0ng@{}", server.addr())).await;
    assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
}

#[cfg(feature = "tls")]
mod tls {
    use coord_testbed::TlsFiles;

    use super::*;

    #[tokio::test]
    async fn both_sides_prove_who_they_are() {
        let files = TlsFiles::generate().await.unwrap();
        let server = server!(ServerOptions::new().tls(files.clone()).require_client_cert(true));
        let url = |ca: &std::path::Path, client: Option<(&std::path::Path, &std::path::Path)>| {
            let client = client.map_or_else(String::new, |(cert, key)| {
                format!("&tls_cert={}&tls_key={}", cert.display(), key.display())
            });
            format!("etcds://{}?tls_ca={}{client}", server.addr(), ca.display())
        };
        let ours = (files.client_cert.as_path(), files.client_key.as_path());
        let store = open(&url(&files.ca, Some(ours))).await.unwrap();
        put(&store, "/a", "1").await;
        store.close().await.unwrap();

        let other = (files.other_client_cert.as_path(), files.other_client_key.as_path());
        for (what, url) in [
            ("an authority that is not trusted", url(&files.other_ca, Some(ours))),
            ("no client certificate", url(&files.ca, None)),
            ("a client certificate of another authority", url(&files.ca, Some(other))),
            ("plaintext", format!("etcd://{}", server.addr())),
        ] {
            let error = refusal(&url).await;
            assert_eq!(error.kind(), ErrorKind::Tls, "{what}: {error}");
        }
    }

    #[tokio::test]
    async fn a_server_without_tls_is_not_spoken_to() {
        let files = TlsFiles::generate().await.unwrap();
        let server = server!();
        let error = refusal(&format!("etcds://{}?tls_ca={}", server.addr(), files.ca.display())).await;
        assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
        let closed = refusal(&format!("etcds://127.0.0.1:1?tls_ca={}", files.ca.display())).await;
        assert_eq!(closed.kind(), ErrorKind::Unavailable, "{closed}");
    }

    #[tokio::test]
    async fn a_file_that_is_no_certificate_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let ca = dir.path().join("ca.pem");
        std::fs::write(&ca, "no certificate").unwrap();
        let error = refusal(&format!("etcds://127.0.0.1:1?tls_ca={}", ca.display())).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
}
