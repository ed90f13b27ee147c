//! Our lock and Curator's are one lock on ZooKeeper: a real Curator 5.4 in a Java process of its own.

use std::{path::PathBuf, process::Stdio, time::Duration};

use coord::{Coord, Lock, Session};
use coord_testbed::{Kind, Provider, Server, ServerOptions};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

const SOON: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(20);
const LOCK: &str = "/locks/shared";

/// Curator's `InterProcessMutex` in a JVM; it holds its session until it is dropped.
struct Curator {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Curator {
    async fn start(server: &Server) -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let servers = std::env::var_os("COORD_SERVERS").map_or_else(|| root.join(".servers"), PathBuf::from);
        let mut process = Command::new(servers.join("bin/curator"))
            .arg(root.join("conformance/tests/curator/CuratorLock.java"))
            .args([server.addr().to_string().as_str(), LOCK])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("curator is laid out by scripts/fetch-servers.sh");
        let input = process.stdin.take().expect("it is piped");
        let output = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let mut curator = Self { _process: process, input, output };
        assert_eq!(curator.answer().await, "ready", "a JDK is needed: apt-get install default-jdk-headless");
        curator
    }

    async fn send(&mut self, command: &str) {
        self.input.write_all(format!("{command}\n").as_bytes()).await.expect("it reads");
    }

    async fn answer(&mut self) -> String {
        let line = timeout(SOON, self.output.next_line())
            .await
            .expect("it answers in time")
            .expect("it speaks text");
        line.unwrap_or_else(|| "it ended".to_owned())
    }

    async fn ask(&mut self, command: &str) -> String {
        self.send(command).await;
        self.answer().await
    }
}

async fn rig() -> (Server, Coord, Session) {
    let provider = match Provider::choose(Kind::ZooKeeper).await.expect("a ZooKeeper") {
        Provider::Docker => panic!("set COORD_TEST_ZK=local: Curator runs beside it"),
        provider => provider,
    };
    let server = Server::start(Kind::ZooKeeper, &provider, ServerOptions::new()).await.expect("a server");
    let coord = coord::connect(&server.url()).await.expect("it is up");
    let session = coord.session(LONG).await.expect("it is up");
    (server, coord, session)
}

/// Waits until so many stand in the line.
async fn standing(coord: &Coord, wanted: usize) {
    timeout(SOON, async {
        while coord.list(LOCK).await.expect("it is up").children.len() != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the line has the wanted length");
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_waits_for_us_and_we_for_curator() {
    let (server, coord, session) = rig().await;
    let mut curator = Curator::start(&server).await;
    let lock = Lock::new(&session, LOCK).unwrap();

    let guard = lock.acquire().await.unwrap();
    assert_eq!(curator.ask("acquire 300").await, "false", "we hold it");
    guard.release().await.unwrap();
    assert_eq!(curator.ask("acquire 5000").await, "true", "it is free");

    assert!(lock.try_acquire().await.unwrap().is_none(), "Curator holds it");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    standing(&coord, 2).await;
    assert!(!waiter.is_finished());
    assert_eq!(curator.ask("release").await, "released");
    let guard = timeout(SOON, waiter).await.unwrap().unwrap().unwrap();

    // Behind us again, and served as soon as we leave.
    curator.send("acquire 20000").await;
    standing(&coord, 2).await;
    guard.release().await.unwrap();
    assert_eq!(curator.answer().await, "true");
    assert_eq!(curator.ask("release").await, "released");
    standing(&coord, 0).await;
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_line_in_the_order_of_the_store() {
    let (server, coord, session) = rig().await;
    let (mut first, mut third) = (Curator::start(&server).await, Curator::start(&server).await);
    let lock = Lock::new(&session, LOCK).unwrap();
    assert_eq!(first.ask("acquire 5000").await, "true");
    let second = tokio::spawn(async move { lock.acquire().await });
    standing(&coord, 2).await;
    third.send("acquire 20000").await;
    standing(&coord, 3).await;

    assert_eq!(first.ask("release").await, "released");
    let guard = timeout(SOON, second).await.unwrap().unwrap().unwrap();
    let line = coord.list(LOCK).await.unwrap();
    assert_eq!((line.children.len(), line.position(guard.key())), (2, Some(0)), "{line:?}");
    guard.release().await.unwrap();
    assert_eq!(third.answer().await, "true");
    server.stop().await.unwrap();
}

/// A Curator that dies with its session gives way like anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_curator_that_was_killed_gives_way() {
    let (server, coord, session) = rig().await;
    let mut curator = Curator::start(&server).await;
    assert_eq!(curator.ask("acquire 5000").await, "true");
    let lock = Lock::new(&session, LOCK).unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await });
    standing(&coord, 2).await;
    drop(curator);
    // Its session lasts for five seconds.
    let guard = timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
    assert!(guard.is_valid());
    server.stop().await.unwrap();
}
