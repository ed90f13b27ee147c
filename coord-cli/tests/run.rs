//! Commands that run while something is held, on the embedded store: no server, many processes.
#![cfg(feature = "sqlite")]

use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use coord_cli::Cli;
use tempfile::TempDir;

/// A folder with a store of its own.
struct Lab(TempDir);

impl Lab {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Starts `coord ARGS` in the folder with nothing of coord's in its environment but the store.
    fn start(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coord"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("COORD_"))
        {
            command.env_remove(name);
        }
        command.env("COORD_URL", format!("sqlite:{}", self.path().join("coord.db").display()));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coord starts")
    }

    fn run(&self, args: &[&str]) -> Output {
        self.start(args).wait_with_output().expect("it ends")
    }

    /// Waits until a script has written a whole line to the file, and returns it.
    fn line(&self, name: &str) -> String {
        let (path, deadline) = (self.path().join(name), Instant::now() + Duration::from_secs(30));
        loop {
            match std::fs::read_to_string(&path) {
                Ok(text) if text.ends_with('\n') => return text.trim_end().to_owned(),
                _ => assert!(Instant::now() < deadline, "never: {name}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}"))
}

/// Waits for the end.
fn finish(child: Child) -> i32 {
    code(&child.wait_with_output().expect("it ends"))
}

#[test]
fn a_leader_whose_entry_was_deleted_stops_its_command_and_leads_again() {
    let lab = Lab::new();
    let script = "if [ -e first ]; then echo $COORD_EPOCH > second; exit 9; fi; trap '' TERM; \
                  echo $COORD_ELECTION_KEY > key; echo $COORD_EPOCH > first; while :; do sleep 0.02; done";
    let leader = lab.start(&["elect", "/e", "--id", "a", "--", "sh", "-c", script]);
    lab.line("first");
    assert_eq!(code(&lab.run(&["del", &lab.line("key")])), 0);
    let output = leader.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 9, "{said}");
    assert_eq!(said, "coord: the leadership is lost; the command is killed\ncoord: standing again for /e\n");
    let epoch = |name: &str| lab.line(name).parse::<u128>().expect("a number");
    assert!(epoch("first") < epoch("second"));
}

#[test]
fn of_many_hosts_one_runs_the_job() {
    let lab = Lab::new();
    let args = ["once", "/jobs/report", "--period", "2026-05-01 02:00", "--", "sh", "-c", "echo ran >> log"];
    let hosts: Vec<_> = (0..6).map(|_| lab.start(&args)).collect();
    for host in hosts {
        assert_eq!(finish(host), 0);
    }
    assert_eq!(std::fs::read_to_string(lab.path().join("log")).expect("a log"), "ran\n");
}

#[test]
fn a_semaphore_of_one_within_itself_is_refused_and_of_two_is_not() {
    let lab = Lab::new();
    for (permits, expected) in [("1", 125), ("2", 0)] {
        let name = format!("/limits/{permits}");
        let inner = format!(
            "'{}' semaphore {name} --permits {permits} --timeout 20s -- true",
            env!("CARGO_BIN_EXE_coord")
        );
        let output = lab.run(&["semaphore", &name, "--permits", permits, "--", "sh", "-c", &inner]);
        assert_eq!(code(&output), expected, "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).contains("wait for its own end"), permits == "1");
    }
}

#[test]
fn a_group_meets_at_a_barrier() {
    let lab = Lab::new();
    let args = ["barrier", "/b", "--parties", "3", "--", "sh", "-c", "echo $COORD_BARRIER_MEMBERS >> log"];
    let members: Vec<_> = (0..3).map(|_| lab.start(&args)).collect();
    for member in members {
        assert_eq!(finish(member), 0);
    }
    assert_eq!(std::fs::read_to_string(lab.path().join("log")).expect("a log"), "3\n3\n3\n");
}

#[test]
fn wrong_arguments_are_refused() {
    for args in [
        &["elect", "/e"][..],
        &["elect", "/", "--", "true"],
        &["elect", "/e", "--id", "", "--", "true"],
        &["elect", "/e", "--timeout", "3s", "--", "true"],
        &["semaphore", "/s", "--", "true"],
        &["semaphore", "/s", "--permits", "0", "--", "true"],
        &["semaphore", "/s", "--permits", "2", "--take", "0", "--", "true"],
        &["once", "/o", "--", "true"],
        &["once", "/o", "--period", "", "--", "true"],
        &["once", "/o", "--period", "p"],
        &["barrier"],
        &["barrier", "/b", "raise"],
        &["barrier", "/b", "--", "true"],
        &["barrier", "/b", "set", "--parties", "2"],
        &["barrier", "/b", "--parties", "101"],
        &["barrier", "/b", "--no-wait", "--timeout", "3s"],
    ] {
        let error = Cli::try_parse_from([&["coord"], args].concat()).expect_err("refused");
        assert_eq!(error.exit_code(), 2, "{args:?}");
    }
}
