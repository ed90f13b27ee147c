//! Children that die with this process.
//!
//! Linux can send a child a signal when its parent dies (`PR_SET_PDEATHSIG`). The "parent" there
//! is the *thread* that made the child: a test's thread ends with the test, and would take with it
//! a server that other tests still use. So all children are made by one thread that lives as long
//! as the process.
//!
//! The child must ask for the signal itself, between fork and exec. Doing that from Rust takes
//! unsafe code; `setpriv` of util-linux does it and then executes the server in its own place, so
//! the process id stays that of the server. Where it is missing (or the system is not Linux) a
//! killed test run leaves its servers to the next sweep, see [`registry`](crate::registry).

use std::{
    env,
    ffi::OsStr,
    io,
    process::{Child, Command},
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
};

use tokio::sync::oneshot;

struct Job {
    command: Command,
    made: oneshot::Sender<io::Result<Child>>,
}

/// A command for this program that will die with this process, where the system can do that.
pub(crate) fn guarded(program: &OsStr) -> Command {
    static GUARD: OnceLock<bool> = OnceLock::new();
    let on_path = || {
        env::var_os("PATH")
            .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join("setpriv").is_file()))
    };
    if *GUARD.get_or_init(|| cfg!(target_os = "linux") && on_path()) {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

/// Starts the command from the thread that lives as long as the process.
pub(crate) async fn spawn(command: Command) -> io::Result<Child> {
    static JOBS: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();
    let (made, child) = oneshot::channel();
    {
        let jobs = JOBS.get_or_init(|| Mutex::new(start()));
        let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.send(Job { command, made }).map_err(|_| gone())?;
    }
    child.await.map_err(|_| gone())?
}

fn start() -> mpsc::Sender<Job> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let work = move || {
        for Job { mut command, made } in jobs {
            if let Err(Ok(mut child)) = made.send(command.spawn()) {
                // The one who asked was cancelled meanwhile: nobody would ever stop this child.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    };
    // If no thread can be made the jobs are dropped, and every spawn reports it.
    let _ = thread::Builder::new().name("testbed-spawner".to_owned()).spawn(work);
    sender
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts servers is gone")
}
