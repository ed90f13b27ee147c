//! TLS to a real server: whom we trust, who is trusted, and what each failure is called.
#![cfg(feature = "tls")]

mod common;

use std::{path::Path, time::Duration};

use common::*;
use coord_api::{ErrorKind, Lifetime};
use coord_testbed::{Kind, TlsFiles};
use tokio::time::Instant;

fn url(server: &coord_testbed::Server, ca: &Path, identity: Option<(&Path, &Path)>) -> String {
    let identity = identity.map_or_else(String::new, |(cert, key)| {
        format!("&tls_cert={}&tls_key={}", cert.display(), key.display())
    });
    format!("{}?connect_timeout=4s&tls_ca={}{identity}", server.url(), ca.display())
}

#[tokio::test]
async fn sessions_and_calls_work_over_tls_and_the_certificate_is_an_identity() {
    let files = TlsFiles::generate().await.unwrap();
    let options = options().tls(files.clone()).require_client_cert(true);
    let Some(server) = start(Kind::ZooKeeper, options).await else { return };
    assert!(server.url().starts_with("zks://"), "{}", server.url());
    let with_cert = url(&server, &files.ca, Some((&files.client_cert, &files.client_key)));
    let coord = open(&format!("{with_cert}&acl=creator")).await;
    let session = coord.session(Duration::from_secs(10)).await.unwrap();
    session.coord().create("/d/e", "1", Lifetime::Session).await.unwrap().unwrap();
    assert_eq!(coord.get("/d/e").await.unwrap().unwrap().value, "1");
    assert!(coord.info().server.starts_with("ZooKeeper 3.9"), "{:?}", coord.info());
    session.close().await.unwrap();
    assert_eq!(coord.get("/d/e").await.unwrap(), None);
    coord.close().await.unwrap();

    let without = url(&server, &files.ca, None);
    let stranger = url(&server, &files.ca, Some((&files.other_client_cert, &files.other_client_key)));
    let untrusted = url(&server, &files.other_ca, Some((&files.client_cert, &files.client_key)));
    for (what, url) in
        [("no certificate", without), ("another's", stranger), ("a server not trusted", untrusted)]
    {
        let began = Instant::now();
        let error = try_open(&url).await.map(drop).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Tls, "{what}: {error}");
        assert!(began.elapsed() < Duration::from_secs(5), "{what}: {:?}", began.elapsed());
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_plain_server_or_a_broken_file_is_named() {
    let files = TlsFiles::generate().await.unwrap();
    let Some(server) = start(Kind::ZooKeeper, options()).await else { return };
    let plain = url(&server, &files.ca, None).replace("zk://", "zks://");
    let error = try_open(&plain).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
    for (ca, identity) in [
        (files.key.as_path(), None),
        (Path::new("/nowhere"), None),
        (files.ca.as_path(), Some((files.client_cert.as_path(), files.other_client_key.as_path()))),
        (files.ca.as_path(), Some((files.client_cert.as_path(), files.client_cert.as_path()))),
    ] {
        let error =
            try_open(&url(&server, ca, identity).replace("zk://", "zks://")).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(!error.to_string().contains("BEGIN"), "{error}");
    }
    let no_ca = try_open(&server.url().replace("zk://", "zks://")).await.map(drop).unwrap_err();
    assert_eq!(no_ca.kind(), ErrorKind::Config, "{no_ca}");
    server.stop().await.unwrap();
}
