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
    fs, io,
    process::{Child, Command, ExitStatus},
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

struct Job {
    command: Command,
    made: oneshot::Sender<io::Result<Running>>,
}

/// A child, killed when dropped: also by a test that is cancelled while the child is handed over.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Sends SIGKILL; the end is seen by [`ended`](Running::ended).
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.0.kill()
    }

    /// Sends a signal. The child has not been waited for, or it would be gone from here, so its
    /// number cannot have been given to another process.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.0), signal)?)
    }

    /// Whether every thread stands still after a SIGSTOP. Sending it only asks: threads on other
    /// processors run on until they notice, and could still answer a request. Without `/proc`
    /// there is no telling, and it is taken for true.
    pub(crate) fn is_stopped(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.id())) else { return true };
        threads.flatten().all(|thread| {
            // A thread that has ended meanwhile has no state any more.
            fs::read_to_string(thread.path().join("stat")).map_or(true, |stat| {
                // After the name in parentheses, which may hold anything.
                stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 't', 'Z', 'X']))
            })
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What is killed is gone at once, so that the wait does not block.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
pub(crate) async fn spawn(command: Command) -> io::Result<Running> {
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
            // If the one who asked was cancelled meanwhile, the child is dropped here, or there.
            drop(made.send(command.spawn().map(Running)));
        }
    };
    // If no thread can be made the jobs are dropped, and every spawn reports it.
    let _ = thread::Builder::new().name("testbed-spawner".to_owned()).spawn(work);
    sender
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts servers is gone")
}
