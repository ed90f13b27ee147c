//! Encrypted connections, and what goes wrong with them.
#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use common::*;
use coord_api::{ErrorKind, Retry, Txn};
use coord_testbed::{ServerOptions, TlsFiles};

on_all! {
async fn a_verified_server_works_and_every_other_is_refused_for_good(which: Which) {
    let files = TlsFiles::generate().await.unwrap();
    let server = start(which, ServerOptions::new().tls(files.clone()).require_client_cert(true)).await;
    let (ca, cert, key_file) = (files.ca.display(), files.client_cert.display(), files.client_key.display());
    let url = |options: &str| format!("{}/test{options}", server.url());
    let backend = connect(&url(&format!("?tls_ca={ca}&tls_cert={cert}&tls_key={key_file}"))).await.unwrap();
    backend.commit(&ctx(), Txn::new().put(key("/a"), "1")).await.unwrap().committed().unwrap();
    assert!(backend.get(&ctx(), &key("/a")).await.unwrap().is_some());

    for (what, options) in [
        ("an authority that the system does not know", String::new()),
        ("an authority that did not sign it", format!("?tls_ca={}", files.other_ca.display())),
        ("no client certificate", format!("?tls_ca={ca}")),
        (
            "a client certificate of another authority",
            format!("?tls_ca={ca}&tls_cert={}&tls_key={}", files.other_client_cert.display(), files.other_client_key.display()),
        ),
    ] {
        let e = connect(&url(&options)).await.unwrap_err();
        assert_eq!((e.kind(), e.retry()), (ErrorKind::Tls, Retry::Never), "{what}: {e}");
    }
    // Plaintext to a TLS port, and TLS to a plaintext port: never anything weaker than asked.
    let e = connect(&url("").replace("rediss", "redis")).await.unwrap_err();
    assert_ne!(e.kind(), ErrorKind::Unexpected, "{e}");
    let plain = plain(which).await;
    let e = connect(&format!("{}/test?tls_ca={ca}", plain.url().replace("redis:", "rediss:"))).await.unwrap_err();
    assert_eq!((e.kind(), e.retry()), (ErrorKind::Tls, Retry::Never), "{e}");
    assert!(e.to_string().contains("may not speak TLS"), "{e}");
    // One that hangs up at once, and one that is not there.
    let rude = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = rude.local_addr().unwrap();
    let hanging_up = tokio::spawn(async move { while rude.accept().await.is_ok() {} });
    let e = connect(&format!("rediss://{at}/test?tls_ca={ca}")).await.unwrap_err();
    assert_eq!((e.kind(), e.retry()), (ErrorKind::Tls, Retry::Never), "{e}");
    hanging_up.abort();
    let _ = hanging_up.await;
    let e = connect(&format!("rediss://{at}/test?tls_ca={ca}")).await.unwrap_err();
    assert_eq!((e.kind(), e.retry()), (ErrorKind::Unavailable, Retry::Safe), "{e}");
}
}
