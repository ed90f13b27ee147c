//! Servers as local processes: started, killed, paused, restarted, never left behind.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{Redis, eventually, local, soon, start, start_with, stays_pending};
use coord_testbed::{Cluster, Kind, Link, Server, ServerOptions, TestbedError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A request of HTTP/1.0 and all of its answer; empty if it is refused.
async fn http(addr: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let answer = async {
        let mut stream = TcpStream::connect(addr).await?;
        let length = body.len();
        let ask = format!("{method} {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(ask.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    soon("an answer", answer).await.unwrap_or_default()
}

/// A ZooKeeper session without any library: what a client sends first, and its answer.
async fn zk_session(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut greeting = vec![0; 49];
    greeting[3] = 45;
    greeting[18..20].copy_from_slice(&4000_u16.to_be_bytes());
    greeting[31] = 16;
    stream.write_all(&greeting).await?;
    zk_frame(stream).await
}

async fn zk_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let mut frame = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

/// A request to create a node, or with another code to read one.
fn zk_request(xid: i32, code: i32, path: &str) -> Vec<u8> {
    let mut body = [xid.to_be_bytes(), code.to_be_bytes()].concat();
    body.extend(u32::try_from(path.len()).unwrap().to_be_bytes());
    body.extend(path.as_bytes());
    if code == 1 {
        body.extend(0_u32.to_be_bytes()); // no data
        body.extend([0, 0, 0, 1, 0, 0, 0, 31]); // one right: all
        for word in ["world", "anyone"] {
            body.extend(u32::try_from(word.len()).unwrap().to_be_bytes());
            body.extend(word.as_bytes());
        }
        body.extend(0_u32.to_be_bytes()); // persistent
    } else {
        body.push(0); // no watch
    }
    [u32::try_from(body.len()).unwrap().to_be_bytes().to_vec(), body].concat()
}

const CREATE: i32 = 1;
const EXISTS: i32 = 3;

/// The error code in a reply.
fn zk_code(reply: &[u8]) -> i32 {
    i32::from_be_bytes(reply[12..16].try_into().unwrap())
}

/// Promise: every kind starts, tells its version, and comes back at the same address after a kill.
async fn life(kind: Kind, version: &str) {
    let mut server = start(kind).await;
    assert!(server.version().starts_with(version), "{kind} {}", server.version());
    assert_eq!(server.url(), format!("{}://{}", kind.scheme(), server.addr()));
    assert!(server.addr().ip().is_loopback());
    let (addr, pid) = (server.addr(), server.pid());

    server.kill().await.unwrap();
    server.kill().await.unwrap();
    assert_eq!(server.pid(), None);
    assert!(TcpStream::connect(addr).await.is_err(), "{kind} still listens");

    server.restart().await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(server.addr(), addr);
    assert_ne!(server.pid(), pid);
    // A restart of a server that runs is a kill, too.
    server.restart().await.unwrap_or_else(|error| panic!("{error}"));

    server.pause().await.unwrap();
    let mut stream = soon("the kernel's accept", TcpStream::connect(addr)).await.unwrap();
    stream.write_all(b"PING\r\n").await.unwrap();
    assert!(stays_pending(stream.read_u8()).await);
    server.resume().await.unwrap();
    server.pause().await.unwrap();
    server.kill().await.unwrap();
    server.restart().await.unwrap_or_else(|error| panic!("{error}"));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn life_of_zookeeper() {
    life(Kind::ZooKeeper, "3.9.").await;
}

#[tokio::test]
async fn life_of_zookeeper_38() {
    life(Kind::ZooKeeper38, "3.8.").await;
}

#[tokio::test]
async fn life_of_etcd() {
    life(Kind::Etcd, "3.5.").await;
}

#[tokio::test]
async fn life_of_redis() {
    life(Kind::Redis, "8.").await;
}

#[tokio::test]
async fn life_of_valkey() {
    life(Kind::Valkey, "8.").await;
}

/// Promise: what was acknowledged survives a kill, without any fsync.
#[tokio::test]
async fn data_survives_a_kill() {
    for kind in [Kind::Redis, Kind::Valkey] {
        let mut server = start(kind).await;
        assert_eq!(Redis::connect(server.addr()).await.ask("SET k v").await.unwrap(), "+OK");
        server.kill().await.unwrap();
        server.restart().await.unwrap();
        assert_eq!(Redis::get(server.addr(), "k").await, "v");
    }

    let mut server = start(Kind::Etcd).await;
    let put = http(server.addr(), "POST", "/v3/kv/put", "{\"key\":\"aw==\",\"value\":\"dg==\"}").await;
    assert!(put.contains("200 OK"), "{put}");
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let got = http(server.addr(), "POST", "/v3/kv/range", "{\"key\":\"aw==\"}").await;
    assert!(got.contains("\"dg==\""), "{got}");

    let mut server = start(Kind::ZooKeeper).await;
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    zk_session(&mut stream).await.unwrap();
    stream.write_all(&zk_request(1, CREATE, "/k")).await.unwrap();
    assert_eq!(zk_code(&zk_frame(&mut stream).await.unwrap()), 0);
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    zk_session(&mut stream).await.unwrap();
    stream.write_all(&zk_request(1, EXISTS, "/k")).await.unwrap();
    assert_eq!(zk_code(&zk_frame(&mut stream).await.unwrap()), 0);
}

/// Promise: on ZooKeeper the reply with the right number is lost, and the node is there.
#[tokio::test]
async fn a_lost_reply_of_zookeeper() {
    let server = start(Kind::ZooKeeper).await;
    let proxy = server.proxied().await.unwrap();
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    zk_session(&mut stream).await.unwrap();
    assert_eq!(proxy.requests(), 0, "the greeting is no request");
    let lost = proxy.lose_reply(2);
    let ping = [8_i32.to_be_bytes(), (-2_i32).to_be_bytes(), 11_i32.to_be_bytes()].concat();
    let both = [zk_request(1, EXISTS, "/k"), ping, zk_request(2, CREATE, "/k")].concat();
    stream.write_all(&both).await.unwrap();
    assert_eq!(zk_code(&zk_frame(&mut stream).await.unwrap()), -101, "no such node");
    // The ping's answer is not counted and may come on either side of the loss.
    while zk_frame(&mut stream).await.is_ok() {}
    assert!(soon("the loss", lost.wait()).await);
    assert_eq!(proxy.requests(), 2);

    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    zk_session(&mut stream).await.unwrap();
    stream.write_all(&zk_request(1, EXISTS, "/k")).await.unwrap();
    assert_eq!(zk_code(&zk_frame(&mut stream).await.unwrap()), 0);
}

/// Promise: the reply of a gRPC call is lost, and the call applied.
#[tokio::test]
async fn a_lost_reply_of_etcd() {
    let server = start(Kind::Etcd).await;
    let proxy = server.proxied().await.unwrap();
    let lost = proxy.lose_reply(1);
    let mut put = etcdctl(&proxy.addr().to_string(), &["put", "k", "v"]);
    eventually("the loss", async || lost.fired()).await;
    // The client may try again by itself; that it went round the loss is what matters here.
    let _ = put.kill();
    let _ = put.wait();
    assert!(proxy.requests() >= 1);
    let got = http(server.addr(), "POST", "/v3/kv/range", "{\"key\":\"aw==\"}").await;
    assert!(got.contains("\"dg==\""), "{got}");
}

fn etcdctl(endpoint: &str, args: &[&str]) -> Child {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(".servers").join("bin/etcdctl");
    Command::new(program).args(["--endpoints", endpoint]).args(args).stderr(Stdio::null()).spawn().unwrap()
}

/// Promise: HTTP/1 on the same port goes through the proxy for HTTP/2 as it is.
#[tokio::test]
async fn the_health_page_passes_the_proxy() {
    let server = start(Kind::Etcd).await;
    let proxy = server.proxied().await.unwrap();
    assert!(http(proxy.addr(), "GET", "/health", "").await.contains("\"health\":\"true\""));
    proxy.set(Link::Reset);
    assert_eq!(http(proxy.addr(), "GET", "/health", "").await, "");
}

/// Promise: a password is asked for, and asked for again after a restart.
#[tokio::test]
async fn passwords_are_asked_for() {
    for (kind, user) in [(Kind::Redis, "default"), (Kind::Redis, "alice"), (Kind::Valkey, "alice")] {
        let mut server = start_with(kind, ServerOptions::new().auth(user, "open sesame")).await;
        for _ in 0..2 {
            let mut redis = Redis::connect(server.addr()).await;
            assert!(redis.ask("PING").await.unwrap().starts_with("-NOAUTH"));
            assert_eq!(redis.ask(&format!("AUTH {user} \"open sesame\"")).await.unwrap(), "+OK");
            assert_eq!(redis.ask("SET k v").await.unwrap(), "+OK");
            server.restart().await.unwrap();
        }
        assert_eq!(server.auth().unwrap().user(), user);
        assert!(!server.url().contains("sesame"));
        assert!(!format!("{server:?}").contains("sesame"));
    }

    let mut server = start_with(Kind::Etcd, ServerOptions::new().auth("alice", "open \"sesame\"")).await;
    for _ in 0..2 {
        let put = "{\"key\":\"aw==\",\"value\":\"dg==\"}";
        assert!(!http(server.addr(), "POST", "/v3/kv/put", put).await.contains("200 OK"));
        let login = "{\"name\":\"alice\",\"password\":\"open \\\"sesame\\\"\"}";
        assert!(http(server.addr(), "POST", "/v3/auth/authenticate", login).await.contains("token"));
        server.restart().await.unwrap();
    }

    let (provider, options) = (local(Kind::ZooKeeper), ServerOptions::new().auth("a", "b"));
    let refused = Server::start(Kind::ZooKeeper, &provider, options);
    assert!(matches!(refused.await, Err(TestbedError::Unsupported { .. })));
}

/// Promise: a server that cannot start says why, at once.
#[tokio::test]
async fn a_server_that_ends_tells_why() {
    for (kind, setting) in
        [(Kind::Redis, "no-such"), (Kind::Etcd, "no-such"), (Kind::ZooKeeper, "clientPort")]
    {
        let options = ServerOptions::new().extra(setting, "rubbish");
        let started = soon("the end", Server::start(kind, &local(kind), options)).await;
        match started {
            Err(error @ TestbedError::Exited { .. }) => {
                let text = error.to_string();
                assert!(text.contains("no-such") || text.contains("rubbish"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Promise: one that never answers is given up on in time, with the end of its log.
#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let options = ServerOptions::new().start_timeout(Duration::from_millis(200)).extra("requirepass", "x");
    match Server::start(Kind::Redis, &local(Kind::Redis), options).await {
        Err(error @ TestbedError::NotReady { .. }) => {
            let text = error.to_string();
            assert!(text.contains("NOAUTH") && text.contains("Ready to accept"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

/// Promise: a server of somebody else is used as it is.
#[tokio::test]
async fn a_server_by_url_is_only_talked_to() {
    use coord_testbed::Provider;

    let server = start_with(Kind::Redis, ServerOptions::new().auth("alice", "secret")).await;
    let url = format!("redis://alice:secret@{}/3", server.addr());
    let mut remote = Server::start(Kind::Redis, &Provider::Url(url), ServerOptions::new()).await.unwrap();
    assert_eq!((remote.addr(), remote.version()), (server.addr(), server.version()));
    assert_eq!(remote.url(), format!("redis://{}/3", server.addr()));
    assert_eq!(remote.auth().unwrap().password(), "secret");
    assert!(matches!(remote.kill().await, Err(TestbedError::Unsupported { .. })));
    assert!(matches!(remote.restart().await, Err(TestbedError::Unsupported { .. })));
    assert!(matches!(remote.pause().await, Err(TestbedError::Unsupported { .. })));
    assert!(matches!(remote.resume().await, Err(TestbedError::Unsupported { .. })));
    remote.stop().await.unwrap();
    assert_eq!(Redis::connect(server.addr()).await.ask("AUTH alice secret").await.unwrap(), "+OK");

    let off = Server::start(Kind::Redis, &Provider::Off, ServerOptions::new()).await;
    assert!(matches!(off, Err(TestbedError::Off { kind: Kind::Redis })));
}

/// Promise: a drop leaves neither process nor data.
#[tokio::test]
async fn a_drop_leaves_nothing() {
    let server = start(Kind::Redis).await;
    let pid = server.pid().unwrap();
    let mut redis = Redis::connect(server.addr()).await;
    redis.send("CONFIG GET dir").await.unwrap();
    let mut dir = String::new();
    while !dir.starts_with('/') {
        dir = redis.line().await.unwrap();
    }
    assert!(Path::new(&dir).is_dir());
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!Path::new(&dir).exists());
}

/// Promise: a server belongs to the process, not to the thread that happened to start it.
#[tokio::test]
async fn a_server_outlives_the_thread_that_started_it() {
    let starter = std::thread::spawn(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(start(Kind::Redis))
    });
    let server = starter.join().unwrap();
    assert_eq!(Redis::connect(server.addr()).await.ask("PING").await.unwrap(), "+PONG");
}

/// Promise: three nodes are one, and go on without one of them.
async fn cluster(kind: Kind) {
    let mut cluster = Cluster::start_three(kind, &local(kind), ServerOptions::new())
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(cluster.nodes().len(), 3);
    assert_eq!(cluster.url().matches(',').count(), 2);
    cluster.nodes_mut()[0].kill().await.unwrap();
    let second = cluster.nodes()[1].addr();
    match kind {
        Kind::Etcd => {
            let put = "{\"key\":\"aw==\",\"value\":\"dg==\"}";
            eventually("a write without one node", async || {
                http(second, "POST", "/v3/kv/put", put).await.contains("200 OK")
            })
            .await;
        }
        _ => {
            eventually("a session without one node", async || {
                let Ok(mut stream) = TcpStream::connect(second).await else { return false };
                let session = zk_session(&mut stream);
                matches!(tokio::time::timeout(Duration::from_secs(1), session).await, Ok(Ok(_)))
            })
            .await;
        }
    }
    cluster.nodes_mut()[0].restart().await.unwrap();
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn cluster_of_etcd() {
    cluster(Kind::Etcd).await;
}

#[tokio::test]
async fn cluster_of_zookeeper() {
    cluster(Kind::ZooKeeper).await;
}
