//! The command: started in a process group of its own, followed, and reaped.
//!
//! coord starts itself again as a helper, which makes sure that it dies with coord and then becomes the command. So all
//! that must happen between fork and exec is ordinary code.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child as Process, Command, ExitStatus},
};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::{Pid, getpid, getppid},
};
use tokio::sync::mpsc;

use super::terminal;
use crate::{code, exit::say};

/// The first argument of the helper.
pub(super) const HELPER: &str = "__child";
/// The helper's second argument: take the terminal.
const FOREGROUND: &str = "foreground";

/// This program.
pub(super) fn own_program() -> io::Result<PathBuf> {
    // The link works also when the file was replaced meanwhile.
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { Ok(link) } else { std::env::current_exe() }
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was stopped, as by Ctrl-Z.
    Stopped,
    /// It ended and is still to be reaped: its process group cannot be anybody else's yet.
    Ended,
}

/// A running command.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    group: Pid,
    changes: mpsc::UnboundedReceiver<Change>,
}

impl Child {
    /// Starts a command. It gets our standard input, output and error, and the terminal if `foreground`.
    ///
    /// The calling thread must live on: the command dies with it.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&'static str, String)],
        hidden: &[OsString],
        foreground: bool,
    ) -> io::Result<Self> {
        let mut helper = Command::new(own_program()?);
        helper
            .arg(HELPER)
            .arg(getpid().to_string())
            .arg(if foreground { FOREGROUND } else { "background" })
            .args(command)
            .process_group(0);
        for name in hidden {
            helper.env_remove(name);
        }
        helper.envs(variables.iter().map(|(name, value)| (name, value)));
        let process = helper.spawn()?;
        let group = Pid::from_raw(i32::try_from(process.id()).map_err(io::Error::other)?);
        let (told, changes) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("coord-child".to_owned()).spawn(move || follow(group, &told))?;
        Ok(Self { process, group, changes })
    }

    /// The process group.
    pub(super) const fn group(&self) -> Pid {
        self.group
    }

    /// The next change. `Ended` comes last, and again whenever asked.
    ///
    /// # Cancel safety
    /// Safe: none is lost.
    pub(crate) async fn change(&mut self) -> Change {
        self.changes.recv().await.unwrap_or(Change::Ended)
    }

    /// Sends a signal to the whole group. A group that is gone needs none.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Err(error) = killpg(self.group, signal)
            && error != Errno::ESRCH
        {
            tracing::warn!(%error, %signal, "cannot signal the command");
        }
    }

    /// Reaps the command once it ended.
    pub(crate) fn reap(mut self) -> io::Result<ExitStatus> {
        self.process.wait()
    }
}

/// Follows the command without reaping it.
fn follow(pid: Pid, told: &mpsc::UnboundedSender<Change>) {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(pid), look) {
            Ok(WaitStatus::Stopped(..)) => {
                // This news is taken, or the next look would find it again.
                let _ = waitid(Id::Pid(pid), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG);
                if told.send(Change::Stopped).is_err() {
                    return;
                }
            }
            Err(Errno::EINTR) => {}
            _ => {
                // Ended, or reaped already. Nobody listens any more if coord is ending too.
                let _ = told.send(Change::Ended);
                return;
            }
        }
    }
}

/// The exit code that passes on how the command ended.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(code::FAILED),
        (None, Some(signal)) => code::of_signal(signal),
        (None, None) => code::FAILED,
    }
}

/// The helper: makes sure that it dies with coord, and becomes the command.
pub(super) fn become_command(args: &[OsString]) -> u8 {
    let [parent, place, command, args @ ..] = args else { return code::USAGE };
    die_with_parent();
    // coord may have died before that took effect.
    if parent.to_str() != Some(getppid().to_string().as_str()) {
        return code::FAILED;
    }
    if place == OsStr::new(FOREGROUND) {
        terminal::give_to(getpid());
    }
    let error = Command::new(command).args(args).exec();
    say(&format!("cannot run {}: {error}", command.to_string_lossy().escape_default()));
    if error.kind() == io::ErrorKind::NotFound { code::NOT_FOUND } else { code::CANNOT_EXECUTE }
}

#[cfg(target_os = "linux")]
fn die_with_parent() {
    // Fails on no kernel there is; the deadman is there in any case.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_signals_pass_through() {
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(255 << 8)), 255);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
