//! Roles on etcd: ranges of keys.

use coord_testbed::{Kind, ServerOptions};
use tokio::process::Command;

use super::{block, configure, keep_apart, open, register, start, tool, url};

#[tokio::test]
async fn roles_on_etcd_do_their_work_and_no_more() {
    let server = start(Kind::Etcd, ServerOptions::new().auth("root", "s3cret")).await;
    for line in block("etcdctl") {
        let mut etcdctl = Command::new(tool("etcdctl"));
        etcdctl.args(["--endpoints", &server.addr().to_string(), "--user", "root:s3cret"]);
        let done = etcdctl.args(line.split_whitespace()).env("ETCDCTL_API", "3").output().await;
        let done = done.expect("etcdctl is laid out by scripts/fetch-servers.sh");
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let publisher = open(&url(&server, "etcd", "publisher")).await;
    let reader = open(&url(&server, "etcd", "reader")).await;
    let registrar = open(&url(&server, "etcd", "registrar")).await;
    configure(&publisher, &reader, true).await;
    register(&registrar).await.expect("registrars register");
    keep_apart(&publisher, &reader, &registrar).await;
    server.stop().await.expect("it stops");
}
