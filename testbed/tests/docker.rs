//! Servers in containers. Built with the feature `docker`; images by the usual variables.
#![cfg(feature = "docker")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::process::Command;

use common::{Redis, soon, stays_pending};
use coord_testbed::{Kind, Provider, Server, ServerOptions, TestbedError, TlsFiles, sweep};
use tokio::net::TcpStream;

/// Whether containers of this kind are to be tested: unless its variable names something else. That
/// there is no engine or image is a failure, since the feature was asked for.
#[allow(clippy::print_stdout, reason = "what a test leaves out must be seen")]
fn wanted(kind: Kind) -> bool {
    let value = std::env::var(kind.variable()).unwrap_or_default();
    let wanted = matches!(value.as_str(), "" | "docker");
    if !wanted {
        println!("left out: {}={value}", kind.variable());
    }
    wanted
}

/// Promise: a container is handled like a process: same address and data after a kill.
async fn life(kind: Kind) {
    if !wanted(kind) {
        return;
    }
    let options = ServerOptions::new();
    let mut server = Server::start(kind, &Provider::Docker, options).await.unwrap_or_else(|e| panic!("{e}"));
    assert_ne!(server.version(), "unknown");
    let (addr, version) = (server.addr(), server.version());
    let redis = matches!(kind, Kind::Redis | Kind::Valkey);
    if redis {
        assert_eq!(Redis::connect(addr).await.ask("SET k v").await.unwrap(), "+OK");
    }

    server.kill().await.unwrap();
    server.kill().await.unwrap();
    assert!(TcpStream::connect(addr).await.is_err());
    server.restart().await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((server.addr(), server.version()), (addr, version));
    if redis {
        assert_eq!(Redis::get(addr, "k").await, "v");
        assert!(server.log_tail().contains("Ready to accept connections"), "{}", server.log_tail());

        server.pause().await.unwrap();
        let mut client = Redis::connect(addr).await;
        client.send("PING").await.unwrap();
        assert!(stays_pending(client.line()).await);
        server.resume().await.unwrap();
        assert_eq!(soon("the answer", client.line()).await.unwrap(), "+PONG");
    }
    server.pause().await.unwrap();
    server.restart().await.unwrap_or_else(|error| panic!("{error}"));
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn life_of_zookeeper() {
    life(Kind::ZooKeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn life_of_etcd() {
    life(Kind::Etcd).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn life_of_redis() {
    life(Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn life_of_valkey() {
    life(Kind::Valkey).await;
}

/// Promise: TLS and passwords are set up as for a process.
#[tokio::test(flavor = "multi_thread")]
async fn options_reach_the_container() {
    let files = TlsFiles::generate().await.unwrap();
    for kind in [Kind::Redis, Kind::Etcd] {
        if wanted(kind) {
            let options = ServerOptions::new().tls(files.clone()).auth("alice", "secret");
            let server =
                Server::start(kind, &Provider::Docker, options).await.unwrap_or_else(|e| panic!("{e}"));
            assert!(server.url().starts_with(kind.tls_scheme()));
            assert!(!format!("{server:?}").contains("secret"));
        }
    }
    if wanted(Kind::ZooKeeper) {
        let options = ServerOptions::new().tls(files.clone());
        Server::start(Kind::ZooKeeper, &Provider::Docker, options).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

fn containers(filter: &str) -> String {
    let output = Command::new("docker").args(["ps", "-aq", "--filter", filter]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Promise: a container that ends by itself is reported, and does not stay behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ends_tells_why() {
    if !wanted(Kind::Redis) {
        return;
    }
    let options = ServerOptions::new().extra("no-such", "rubbish");
    match soon("the end", Server::start(Kind::Redis, &Provider::Docker, options)).await {
        Err(error @ TestbedError::Exited { .. }) => assert!(error.to_string().contains("no-such"), "{error}"),
        other => panic!("{other:?}"),
    }
}

/// Promise: a drop removes the container, in a runtime of either kind and in none.
#[test]
fn a_drop_removes_the_container() {
    let multi = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let single = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = || Server::start(Kind::Redis, &Provider::Docker, ServerOptions::new());
    if !wanted(Kind::Redis) {
        return;
    }

    for runtime in [multi(), single()] {
        runtime.block_on(async {
            let server = start().await.unwrap_or_else(|error| panic!("{error}"));
            let addr = server.addr();
            drop(server);
            assert!(TcpStream::connect(addr).await.is_err());
        });
    }
    let runtime = multi();
    let server = runtime.block_on(start()).unwrap_or_else(|error| panic!("{error}"));
    let addr = server.addr();
    drop(server);
    assert!(std::net::TcpStream::connect(addr).is_err());
}

/// Promise: what belongs to a process that is gone is swept, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn stale_containers_are_swept() {
    if !wanted(Kind::Redis) {
        return;
    }
    let server = Server::start(Kind::Redis, &Provider::Docker, ServerOptions::new()).await.unwrap();
    let image = std::env::var(Kind::Redis.image_variable()).unwrap_or(Kind::Redis.default_image().to_owned());
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let name = format!("coord-sweep-{}", std::process::id());
    let owner = format!("coord.owner=4194304 1 {}", space.display());
    let mut run = Command::new("docker");
    run.args(["create", "--name", &name, "--label", "coord.test=1", "--label", &owner, &image]);
    assert!(run.output().unwrap().status.success());
    // Another test's first start may sweep it first; gone is what matters.
    sweep().await.unwrap();
    assert_eq!(containers(&format!("name={name}")), "");
    assert_eq!(Redis::connect(server.addr()).await.ask("PING").await.unwrap(), "+PONG");
}
