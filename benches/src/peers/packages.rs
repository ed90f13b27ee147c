//! The other clients: where they are installed, what to do where not, and how their processes are started.

use std::{
    env,
    path::{Path, PathBuf},
};

use coord_testbed::Server;
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    Result,
    args::StoreName,
    facts,
    peers::args::{PeersArgs, Role},
};

const CURATOR_MISSING: &str = "scripts/fetch-servers.sh, or apt-get install --no-install-recommends \
                               libcurator-recipes-java libcurator-discovery-java";
const JAVAC_MISSING: &str = "apt-get install --no-install-recommends default-jdk-headless";

const JAVA: [(&str, &str); 4] = [
    ("Peer.java", include_str!("../../peers/java/Peer.java")),
    ("Locks.java", include_str!("../../peers/java/Locks.java")),
    ("Watchers.java", include_str!("../../peers/java/Watchers.java")),
    ("Registrations.java", include_str!("../../peers/java/Registrations.java")),
];
const PYTHON: &str = include_str!("../../peers/python/locks.py");

const NEEDED: [&str; 11] = [
    "curator-x-discovery",
    "curator-recipes",
    "curator-framework",
    "curator-client",
    "guava",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-nop",
];
/// Loaded by some versions of the client. zookeeper.jar goes last: its manifest names jars by absolute paths, and those of
/// another version would come first.
const AFTER: [&str; 5] = ["metrics-core", "commons-io", "snappy-java", "netty-all", "zookeeper"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Coord,
    EtcdClient,
    Curator,
    RedisPy,
    Kazoo,
}

/// A client that is installed.
#[derive(Debug)]
struct Package {
    /// With its version.
    name: String,
    /// The program and its first arguments.
    words: Vec<String>,
}

/// All that are asked for; those that are missing with what to install.
#[derive(Debug)]
pub(crate) struct Packages {
    found: Vec<(Peer, Result<Package, String>)>,
    /// Compiled classes and scripts.
    _files: TempDir,
}

impl Packages {
    pub(crate) async fn find(args: &PeersArgs) -> Result<Packages> {
        let files = tempfile::Builder::new().prefix("coord-benches-").tempdir()?;
        let script = files.path().join("locks.py");
        tokio::fs::write(&script, PYTHON).await?;
        let (python, script) = (args.python.as_str(), script.display().to_string());
        let mut found = vec![(Peer::Coord, Ok(ours("coord", "coord".to_owned())?))];
        if args.on(StoreName::Zk) {
            found.push((Peer::Curator, curator(files.path()).await?));
            found.push((Peer::Kazoo, from_python(python, &script, "kazoo", "kazoo").await));
        }
        if args.on(StoreName::Etcd) {
            found.push((Peer::EtcdClient, Ok(ours("etcd-client", facts::locked("etcd-client"))?)));
        }
        if args.on(StoreName::Redis) {
            found.push((Peer::RedisPy, from_python(python, &script, "redis", "redis-py").await));
        }
        Ok(Packages { found, _files: files })
    }

    /// The name of an installed client; what to install where it is missing.
    pub(crate) fn name(&self, peer: Peer) -> Result<&str, String> {
        Ok(&self.get(peer)?.name)
    }

    /// What starts a process of a client.
    pub(crate) fn command(&self, peer: Peer, server: &Server, url: &str, role: &Role) -> Result<Command> {
        let mut words = self.get(peer)?.words.iter();
        let mut command = Command::new(words.next().ok_or("no program")?);
        let address = match peer {
            Peer::Coord | Peer::RedisPy => url.to_owned(),
            Peer::EtcdClient => format!("http://{}", server.addr()),
            Peer::Curator | Peer::Kazoo => server.addr().to_string(),
        };
        command.args(words).arg(address).args(role.words());
        Ok(command)
    }

    /// Names of the other clients that are there.
    pub(crate) fn others(&self) -> Vec<String> {
        let others = self.found.iter().filter(|(peer, _)| *peer != Peer::Coord);
        others.filter_map(|(_, package)| Some(format!("peer: {}", package.as_ref().ok()?.name))).collect()
    }

    fn get(&self, peer: Peer) -> Result<&Package, String> {
        let package = self.found.iter().find(|(found, _)| *found == peer).map(|(_, package)| package);
        package
            .ok_or_else(|| format!("{peer:?} is not compared on this store"))?
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// This program.
fn ours(library: &str, name: String) -> Result<Package> {
    let program = env::current_exe()?.display().to_string();
    Ok(Package { name, words: vec![program, "side".to_owned(), library.to_owned()] })
}

/// Compiles the programs that drive Curator.
async fn curator(files: &Path) -> Result<Result<Package, String>> {
    let Some(jars) = places().into_iter().find(|dir| NEEDED.iter().all(|name| jar(dir, name).is_file()))
    else {
        return Ok(Err(format!("Curator is not installed: {CURATOR_MISSING}")));
    };
    let works = Command::new("javac").arg("-version").output().await.is_ok_and(|said| said.status.success());
    if !works {
        return Ok(Err(format!("there is no Java compiler: {JAVAC_MISSING}")));
    }
    let names = NEEDED.iter().chain(&AFTER).map(|name| jar(&jars, name)).filter(|jar| jar.is_file());
    let path = names.fold(files.display().to_string(), |path, jar| format!("{path}:{}", jar.display()));
    let mut compile = Command::new("javac");
    compile.args(["-cp", &path, "-d"]).arg(files);
    for (name, source) in JAVA {
        tokio::fs::write(files.join(name), source).await?;
        compile.arg(files.join(name));
    }
    let compiled = compile.output().await?;
    if !compiled.status.success() {
        return Err(format!("javac: {}", String::from_utf8_lossy(&compiled.stderr)).into());
    }
    let words = ["java", "-Xmx1g", "-cp", &path, "Peer"].map(str::to_owned).into();
    Ok(Ok(Package { name: version(&jars), words }))
}

fn jar(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.jar"))
}

/// Where Debian's jars are: as `scripts/fetch-servers.sh` lays them out, or as apt installs them.
fn places() -> Vec<PathBuf> {
    let laid_out = env::var_os("COORD_SERVERS").map(PathBuf::from).into_iter();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.servers");
    let jars = laid_out.chain([here]).map(|servers| servers.join("bookworm/usr/share/java"));
    jars.chain([PathBuf::from("/usr/share/java")]).collect()
}

/// From the name of the jar that carries its version, `curator-recipes-5.4.0.jar`.
fn version(jars: &Path) -> String {
    let names = std::fs::read_dir(jars).into_iter().flatten().flatten();
    let names = names.map(|file| file.file_name().to_string_lossy().into_owned());
    let mut versions = names.filter_map(|name| {
        let version = name.strip_prefix("curator-recipes-")?.strip_suffix(".jar")?;
        Some(format!("Curator {version}"))
    });
    versions.next().unwrap_or("Curator".to_owned())
}

/// A library of Python, if that can import it.
async fn from_python(python: &str, script: &str, module: &str, name: &str) -> Result<Package, String> {
    let ask = format!("import {module}.client, importlib.metadata as m; print(m.version('{module}'))");
    let said = Command::new(python).args(["-c", &ask]).output().await;
    match said {
        Ok(said) if said.status.success() => {
            let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
            let words = [python, script, module].map(str::to_owned).into();
            Ok(Package { name: format!("{name} {version}"), words })
        }
        _ => Err(format!(
            "{python} has no {name}: python3 -m venv DIR && DIR/bin/pip install {module}, and --python DIR/bin/python; \
             or apt-get install python3-{module}"
        )),
    }
}
