//! Servers as processes of this machine.

use std::{
    ffi::OsString,
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::{
    Kind, Result, ServerOptions, TestbedError,
    address::Address,
    config::{self, Members, Place, TlsPaths},
    registry::{self, DATA_PREFIX, Entry},
    spawner::{self, Running},
    tls::Identity,
};

/// How to start it, again and again.
struct Recipe {
    program: PathBuf,
    args: Vec<OsString>,
    envs: Vec<(&'static str, String)>,
}

// By hand: the arguments hold passwords.
impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipe").field("program", &self.program).finish_non_exhaustive()
    }
}

/// One server process, its data and its place in the record of what runs.
#[derive(Debug)]
pub(crate) struct LocalServer {
    recipe: Recipe,
    child: Option<Running>,
    log: PathBuf,
    // Dropped in this order, after the process is gone: the record last, so that a sweep can
    // finish what this process had begun to remove when it was killed.
    dir: TempDir,
    entry: Entry,
}

impl LocalServer {
    /// Starts the process; it may not answer yet.
    pub(crate) async fn start(
        kind: Kind,
        bin: &Path,
        options: &ServerOptions,
        members: Members<'_>,
        identity: Option<&Identity>,
    ) -> Result<LocalServer> {
        registry::sweep_once();
        let program = bin.join(kind.binary());
        if !program.is_file() {
            return Err(TestbedError::MissingBinary { kind, searched: vec![bin.to_owned()] });
        }
        let dir = data_folder(kind, options.durable)?;
        let entry = Entry::new(dir.path())?;
        let recipe = recipe(kind, program, dir.path(), options, members, identity)?;
        let log = dir.path().join("log");
        let mut server = LocalServer { recipe, child: None, log, dir, entry };
        server.spawn().await?;
        Ok(server)
    }

    async fn spawn(&mut self) -> Result<()> {
        let what = || TestbedError::io(format!("start {}", self.recipe.program.display()));
        let open = || {
            let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
            Ok((log.try_clone()?, log))
        };
        let (out, err) = open().map_err(what())?;
        let mut command: Command = spawner::guarded(self.recipe.program.as_os_str());
        command
            .args(&self.recipe.args)
            .envs(self.recipe.envs.iter().map(|(name, value)| (name, value)))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        let child = spawner::spawn(command).await.map_err(what())?;
        let pid = child.id();
        self.child = Some(child);
        self.entry.running(pid)
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Running::id)
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        match self.child.as_mut()?.ended() {
            Ok(status) => status.map(|status| status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// SIGKILL, also if it is paused. Returns when the process is gone and its ports are free.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        let Some(child) = self.child.as_mut() else { return Ok(()) };
        child.kill().map_err(TestbedError::io("kill a server"))?;
        while child.ended().map_err(TestbedError::io("wait for a killed server"))?.is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        self.child = None;
        Ok(())
    }

    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.kill().await?;
        self.spawn().await
    }

    /// SIGSTOP; returns when nothing of the process runs any more.
    pub(crate) async fn pause(&self) -> Result<()> {
        let child = self.signal(Signal::STOP, "pause a server")?;
        let deadline = Instant::now() + Duration::from_secs(5);
        while !child.is_stopped() {
            if Instant::now() >= deadline {
                return Err(TestbedError::io("pause a server")(io::ErrorKind::TimedOut.into()));
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT, "resume a server").map(drop)
    }

    fn signal(&self, signal: Signal, what: &str) -> Result<&Running> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "it does not run");
        let sent =
            self.child.as_ref().ok_or_else(gone).and_then(|child| child.signal(signal).map(|()| child));
        sent.map_err(TestbedError::io(what))
    }

    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log).unwrap_or_else(|error| format!("{}: {error}", self.log.display()))
    }
}

fn data_folder(kind: Kind, durable: bool) -> Result<TempDir> {
    let prefix = format!("{DATA_PREFIX}{kind}-");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    let memory = Path::new("/dev/shm");
    let made = if !durable && is_roomy(memory) { builder.tempdir_in(memory) } else { builder.tempdir() };
    made.map_err(TestbedError::io("create a folder for a server's data"))
}

/// Whether a folder is there with room for several servers. In a container memory is often
/// limited to 64 MB, while one etcd sets aside twice as much for its log.
fn is_roomy(dir: &Path) -> bool {
    const ROOM: u64 = 1 << 30;
    rustix::fs::statvfs(dir).is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) >= ROOM)
}

fn recipe(
    kind: Kind,
    program: PathBuf,
    dir: &Path,
    options: &ServerOptions,
    members: Members<'_>,
    identity: Option<&Identity>,
) -> Result<Recipe> {
    let data = dir.join("data");
    let write = || TestbedError::io(format!("write in {}", dir.display()));
    fs::create_dir(&data).map_err(write())?;
    let bundle = identity.map(Identity::bundle);
    let tls = match (&options.tls, identity, &bundle) {
        (Some(files), Some(identity), Some(bundle)) => {
            Some(TlsPaths { ca: &files.ca, cert: &identity.cert, key: &identity.key, bundle })
        }
        _ => None,
    };
    let listen = members.all.get(members.me).map_or(std::net::Ipv4Addr::LOCALHOST.into(), Address::ip);
    let place = Place { listen, data: &data, tls };
    let strings = |args: Vec<String>| args.into_iter().map(OsString::from).collect();
    Ok(match kind {
        Kind::ZooKeeper | Kind::ZooKeeper38 => {
            let file = dir.join("zoo.cfg");
            fs::write(&file, config::zoo_cfg(options, place, members)).map_err(write())?;
            fs::write(data.join("myid"), format!("{}\n", members.me + 1)).map_err(write())?;
            let envs = vec![("JVMFLAGS", config::jvm_flags(options))];
            Recipe { program, args: vec![file.into()], envs }
        }
        Kind::Etcd => {
            Recipe { program, args: strings(config::etcd(options, place, members)), envs: Vec::new() }
        }
        Kind::Redis | Kind::Valkey => {
            // The locale of the test run may be unknown to the server's libc.
            let envs = vec![("LC_ALL", "C".to_owned())];
            Recipe { program, args: strings(config::redis(kind, options, place, members)), envs }
        }
    })
}

/// The last lines of a log, for an error message.
fn tail(log: &Path) -> io::Result<String> {
    const TAIL: u64 = 4096;
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
