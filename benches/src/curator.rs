//! Curator's lock, in a Java process of its own.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{
    Result,
    contest::Figures,
    counters::{Reader, growth},
};

/// What to do where Curator is not installed.
pub(crate) const INSTALL: &str =
    "apt-get install --no-install-recommends libcurator-recipes-java default-jdk-headless";

const SOURCE: &str = include_str!("../peers/java/CuratorLock.java");
const JARS: &str = "/usr/share/java";
const NEEDED: [&str; 8] = [
    "curator-recipes",
    "curator-framework",
    "curator-client",
    "zookeeper",
    "zookeeper-jute",
    "guava",
    "slf4j-api",
    "slf4j-nop",
];
/// Loaded by some versions of the client.
const USEFUL: [&str; 4] = ["netty-all", "metrics-core", "snappy-java", "commons-io"];

/// A Java process whose contenders wait to be told to run.
#[derive(Debug)]
pub(crate) struct Curator {
    version: String,
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _classes: TempDir,
}

impl Curator {
    /// Compiles and starts it; `None` where Java's compiler or Curator is missing.
    pub(crate) async fn start(addr: SocketAddr, lock: &str, contenders: usize) -> Result<Option<Curator>> {
        let jar = |name: &str| Path::new(JARS).join(format!("{name}.jar"));
        let Ok(compiler) = Command::new("javac").arg("-version").output().await else { return Ok(None) };
        if !compiler.status.success() || !NEEDED.iter().all(|name| jar(name).is_file()) {
            return Ok(None);
        }
        let classes = tempfile::Builder::new().prefix("coord-benches-").tempdir()?;
        let source = classes.path().join("CuratorLock.java");
        tokio::fs::write(&source, SOURCE).await?;
        let mut path = classes.path().display().to_string();
        for jar in NEEDED.iter().chain(&USEFUL).map(|name| jar(name)).filter(|jar| jar.is_file()) {
            path += &format!(":{}", jar.display());
        }
        let mut compile = Command::new("javac");
        compile.args(["-cp", &path, "-d"]).arg(classes.path()).arg(&source);
        let compiled = compile.output().await?;
        if !compiled.status.success() {
            return Err(format!("javac: {}", String::from_utf8_lossy(&compiled.stderr)).into());
        }
        let mut process = Command::new("java")
            .args(["-Xmx1g", "-cp", &path, "CuratorLock"])
            .args([&addr.to_string(), lock, &contenders.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the Java process has no pipes".into());
        };
        let output = BufReader::new(output).lines();
        let version = version();
        let mut curator = Curator { version, _process: process, input, output, _classes: classes };
        curator.expect("READY").await?;
        Ok(Some(curator))
    }

    /// As `Curator 5.4.0`.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// As [`contest::run`](crate::contest::run).
    pub(crate) async fn run(&mut self, reader: &Reader, settle: Duration, span: Duration) -> Result<Figures> {
        let line = format!("{} {}\n", settle.as_millis(), span.as_millis());
        self.input.write_all(line.as_bytes()).await?;
        self.expect("BEGIN").await?;
        let before = reader.read().await?;
        self.expect("END").await?;
        let after = reader.read().await?;
        let line = self.line().await?;
        let words = line.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>();
        let Ok([total, seconds, p50, p99, fewest, most, overlaps]) =
            words.map_err(drop).and_then(|words| <[f64; 7]>::try_from(words).map_err(drop))
        else {
            return Err(format!("the Java process said {line:?}").into());
        };
        Ok(Figures {
            per_s: total / seconds,
            hand_off_p50_ms: p50 / 1000.0,
            hand_off_p99_ms: p99 / 1000.0,
            fewest: whole(fewest),
            most: whole(most),
            overlaps: whole(overlaps),
            work: growth(&before, &after, total.max(1.0)),
            requests: None,
        })
    }

    async fn expect(&mut self, word: &str) -> Result<()> {
        let line = self.line().await?;
        if line == word { Ok(()) } else { Err(format!("the Java process said {line:?}").into()) }
    }

    async fn line(&mut self) -> Result<String> {
        self.output.next_line().await?.ok_or_else(|| "the Java process is gone".into())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count, printed by our own program"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

/// From the name of the jar that carries its version, `curator-recipes-5.4.0.jar`.
fn version() -> String {
    let names = std::fs::read_dir(JARS).into_iter().flatten().flatten();
    let names = names.map(|file| file.file_name().to_string_lossy().into_owned());
    let mut versions = names.filter_map(|name| {
        let version = name.strip_prefix("curator-recipes-")?.strip_suffix(".jar")?;
        Some(format!("Curator {version}"))
    });
    versions.next().unwrap_or("Curator".to_owned())
}
