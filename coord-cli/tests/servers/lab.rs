//! Where a case runs: a store, a folder, and the command.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use coord_testbed::{Kind, Provider, Server, ServerOptions};
use nix::{sys::signal::Signal, unistd::Pid};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

/// No case waits longer than this for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Lab {
    /// Where servers come from; `None` where the store is a file.
    server: Option<(Kind, Provider)>,
    url: String,
    folder: TempDir,
}

impl Lab {
    /// A lab in which names are the case's own, on a server that others use too.
    pub(crate) fn on_server(kind: Kind, provider: Provider, url: &str, case: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("{url}/{}/{case}", std::process::id());
        Self { server: Some((kind, provider)), url, folder }
    }

    /// A lab with a file of its own.
    pub(crate) fn on_file() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("coord.db").display());
        Self { server: None, url, folder }
    }

    /// The store of the lab.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Another store of the same kind, where names are apart.
    pub(crate) fn other_url(&self) -> String {
        match self.server {
            Some(_) => format!("{}/else", self.url),
            None => format!("sqlite:{}", self.file("else.db").display()),
        }
    }

    /// A store that cannot be reached, and a part of what is said then.
    pub(crate) fn unreachable(&self) -> (String, &'static str) {
        match &self.server {
            Some((kind, _)) => (format!("{}://127.0.0.1:1/app?connect_timeout=2s", kind.scheme()), "next:"),
            None => (format!("sqlite:{}", self.file("none/coord.db").display()), "directory"),
        }
    }

    /// Which server it is; `None` where the store is a file.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.server.as_ref().map(|(kind, _)| *kind)
    }

    /// Moves the lab to a server of its own.
    pub(crate) async fn own_server(&mut self, options: ServerOptions) -> Server {
        let (kind, provider) = self.server.as_ref().expect("a case that disturbs runs on servers");
        let server = Server::start(*kind, provider, options).await;
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        self.url = format!("{}/app", server.url());
        server
    }

    /// The command, with nothing of coord's in its environment but the store.
    pub(crate) fn coord<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        self.caller(env!("CARGO_BIN_EXE_coord"), args)
    }

    /// A program that may call the command, which it finds as `$COORD`.
    pub(crate) fn caller<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("COORD_") {
                command.env_remove(name);
            }
        }
        command
            .env("COORD", env!("CARGO_BIN_EXE_coord"))
            .env("COORD_URL", &self.url)
            .args(args)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// `coord lock /locks/it OPTIONS -- sh -c SCRIPT`.
    pub(crate) fn lock(&self, options: &[&str], script: &str) -> Command {
        self.coord([&["lock", "/locks/it"], options, &["--", "sh", "-c", script]].concat())
    }

    /// `coord COMMAND -- sh -c SCRIPT`.
    pub(crate) fn running(&self, command: &[&str], script: &str) -> Command {
        self.coord([command, &["--", "sh", "-c", script]].concat())
    }

    /// A file of the folder, in which the commands run.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until a script has written a whole line to the file, and returns it.
    pub(crate) async fn line(&self, name: &str) -> String {
        let path = self.file(name);
        let whole = || fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'));
        eventually(name, async || whole().is_some()).await;
        whole().map(|text| text.trim_end().to_owned()).unwrap_or_default()
    }

    /// Waits until a script has written its process id.
    pub(crate) async fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.line(name).await.parse().expect("a process id"))
    }

    /// Waits until so many stand in the line.
    pub(crate) async fn line_has(&self, count: usize) {
        self.dir_has("/locks/it", count).await;
    }

    /// Waits until so many keys are in a directory.
    pub(crate) async fn dir_has(&self, dir: &str, count: usize) {
        eventually("the line has its length", async || {
            let listed = finish(self.coord(["ls", dir]).spawn().expect("coord")).await;
            assert_eq!(code(&listed), 0, "{listed:?}");
            String::from_utf8_lossy(&listed.stdout).lines().count() == count
        })
        .await;
    }
}

/// Runs to the end.
pub(crate) async fn run(mut command: Command) -> Output {
    finish(command.spawn().expect("coord starts")).await
}

/// Waits for the end.
pub(crate) async fn finish(child: Child) -> Output {
    let output = timeout(DEADLINE, child.wait_with_output()).await;
    output.expect("coord ends").expect("its output")
}

/// The exit code; coord itself is never ended by a signal in these cases.
pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}"))
}

pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().and_then(|id| i32::try_from(id).ok()).expect("it runs"))
}

pub(crate) fn send(pid: Pid, signal: Signal) {
    nix::sys::signal::kill(pid, signal).unwrap_or_else(|error| panic!("{signal} to {pid}: {error}"));
}

/// Whether this process, and with it all that it starts, ignores a signal, as in the background of a script.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).expect("a mask");
    mask & (1 << (signal as i32 - 1)) != 0
}

/// Whether a process runs; a zombie does not.
pub(crate) fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next()).is_some_and(|state| state != 'Z')
}

/// The children of a process, helpers among them.
pub(crate) fn children(pid: Pid) -> Vec<Pid> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
}

/// Waits until it holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a process is gone, and tells when.
pub(crate) async fn gone(pid: Pid) -> Instant {
    eventually("the process is gone", async || !runs(pid)).await;
    Instant::now()
}
