//! Roles on Redis: a namespace each, and within one a user that may only read.

use coord_testbed::{Kind, ServerOptions};
use tokio::process::Command;

use super::{block, configure, open, publish, refused, register, start, tool, url};

#[tokio::test]
async fn roles_on_redis_do_their_work_and_no_more() {
    let server = start(Kind::Redis, ServerOptions::new()).await;
    for line in block("redis") {
        let mut cli = Command::new(tool("redis-cli"));
        cli.args(["-h", &server.addr().ip().to_string(), "-p", &server.addr().port().to_string()]);
        let done = cli.args(line.split_whitespace()).output().await;
        let done = done.expect("redis-cli is laid out by scripts/fetch-servers.sh");
        assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "OK", "{line}");
    }
    let (readers, registrars) = (url(&server, "redis", "reader"), url(&server, "redis", "registrar"));
    refused("a reader begins a namespace", coord::connect(&readers).await.map(drop));
    let publisher = open(&url(&server, "redis", "publisher")).await;
    publish(&publisher, "1").await.expect("publishers publish");
    let reader = open(&readers).await;
    configure(&publisher, &reader, false).await;
    refused("a reader has a session", reader.session(std::time::Duration::from_secs(5)).await.map(drop));
    register(&open(&registrars).await).await.expect("registrars register");
    let elsewhere = registrars.replace("/services", "/config");
    refused("a registrar uses another namespace", coord::connect(&elsewhere).await.map(drop));
    server.stop().await.expect("it stops");
}
