//! A program in a JVM of its own that is told what to do line by line, and answers line by line.

use std::{path::PathBuf, process::Stdio, time::Duration};

use coord_testbed::{Kind, Provider, Server, ServerOptions};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// How long whatever is awaited may take.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A program with Curator on its class path; it holds its session until it is dropped.
pub(crate) struct Java {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Java {
    /// Starts a program of this directory, and waits until it is ready.
    pub(crate) async fn start(program: &str, server: &Server, arguments: &[&str]) -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let servers = std::env::var_os("COORD_SERVERS").map_or_else(|| root.join(".servers"), PathBuf::from);
        let mut process = Command::new(servers.join("bin/curator"))
            .arg(root.join("conformance/tests/curator").join(program))
            .arg(server.addr().to_string())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("curator is laid out by scripts/fetch-servers.sh");
        let input = process.stdin.take().expect("it is piped");
        let output = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let mut java = Self { _process: process, input, output };
        assert_eq!(java.answer().await, "ready", "a JDK is needed: apt-get install default-jdk-headless");
        java
    }

    pub(crate) async fn send(&mut self, command: &str) {
        self.input.write_all(format!("{command}\n").as_bytes()).await.expect("it reads");
    }

    pub(crate) async fn answer(&mut self) -> String {
        let line = timeout(SOON, self.output.next_line())
            .await
            .expect("it answers in time")
            .expect("it speaks text");
        line.unwrap_or_else(|| "it ended".to_owned())
    }

    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.send(command).await;
        self.answer().await
    }

    /// Asks again until the answer is this one.
    pub(crate) async fn ask_until(&mut self, command: &str, wanted: &str) {
        let mut last = String::new();
        let asked = timeout(SOON, async {
            loop {
                last = self.ask(command).await;
                if last == wanted {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let in_time = asked.await.is_ok();
        assert!(in_time, "{command}: {last:?}, but {wanted:?} is wanted");
    }
}

/// A ZooKeeper beside which Java runs.
pub(crate) async fn zookeeper() -> Server {
    let provider = match Provider::choose(Kind::ZooKeeper).await.expect("a ZooKeeper") {
        Provider::Docker => panic!("set COORD_TEST_ZK=local: Curator runs beside it"),
        provider => provider,
    };
    Server::start(Kind::ZooKeeper, &provider, ServerOptions::new()).await.expect("a server")
}
