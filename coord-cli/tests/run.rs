//! Commands that run while something is held, on the embedded store: no server, many processes.
#![cfg(feature = "sqlite")]

use std::{
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use clap::Parser;
use coord_cli::Cli;
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

/// No test waits longer than this for anything.
const DEADLINE: Duration = Duration::from_secs(30);

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
        command.args(args).current_dir(self.path()).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coord starts")
    }

    /// Waits until a script has written a whole line to the file, and returns it.
    async fn line(&self, name: &str) -> String {
        let (path, deadline) = (self.path().join(name), Instant::now() + DEADLINE);
        loop {
            match std::fs::read_to_string(&path) {
                Ok(text) if text.ends_with('\n') => return text.trim_end().to_owned(),
                _ => assert!(Instant::now() < deadline, "never: {name}"),
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Waits for the end: the exit code, and what was said.
async fn finish(child: Child) -> (i32, String) {
    let output: Output =
        timeout(DEADLINE, child.wait_with_output()).await.expect("it ends").expect("its output");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or_else(|| panic!("ended by a signal: {said}")), said)
}

#[tokio::test]
async fn a_leader_whose_entry_was_deleted_stops_its_command_and_leads_again() {
    let lab = Lab::new();
    let script = "if [ -e first ]; then echo $COORD_EPOCH > second; exit 9; fi; trap '' TERM; \
                  echo $COORD_ELECTION_KEY > key; echo $COORD_EPOCH > first; while :; do sleep 0.02; done";
    let leader = lab.start(&["elect", "/e", "--id", "a", "--", "sh", "-c", script]);
    let first = lab.line("first").await;
    let key = lab.line("key").await;
    assert_eq!(finish(lab.start(&["del", &key])).await.0, 0);
    let said = "coord: the leadership is lost; the command is killed\ncoord: standing again for /e\n";
    assert_eq!(finish(leader).await, (9, said.to_owned()));
    let epoch = |text: String| text.parse::<u128>().expect("a number");
    assert!(epoch(first) < epoch(lab.line("second").await));
}

#[tokio::test]
async fn of_many_hosts_one_runs_the_job() {
    let lab = Lab::new();
    let args = ["once", "/jobs/report", "--period", "2026-05-01 02:00", "--", "sh", "-c", "echo ran >> log"];
    let hosts: Vec<_> = (0..6).map(|_| lab.start(&args)).collect();
    for host in hosts {
        assert_eq!(finish(host).await, (0, String::new()));
    }
    assert_eq!(std::fs::read_to_string(lab.path().join("log")).expect("a log"), "ran\n");
}

#[tokio::test]
async fn a_semaphore_within_itself_is_refused_to_who_wants_all_its_permits() {
    let lab = Lab::new();
    for (permits, take, expected) in [("1", "1", 125), ("2", "1", 0), ("2", "2", 125)] {
        let name = format!("/limits/{permits}-{take}");
        let inner = format!(
            "'{}' semaphore {name} --permits {permits} --take {take} --timeout 20s -- true",
            env!("CARGO_BIN_EXE_coord")
        );
        let outer = lab.start(&["semaphore", &name, "--permits", permits, "--", "sh", "-c", &inner]);
        let (code, said) = finish(outer).await;
        assert_eq!(code, expected, "{said}");
        assert_eq!(said.contains("wait for its own end"), expected == 125, "{said}");
    }
}

#[tokio::test]
async fn a_group_meets_at_a_barrier() {
    let lab = Lab::new();
    let args = ["barrier", "/b", "--parties", "3", "--", "sh", "-c", "echo $COORD_BARRIER_MEMBERS >> log"];
    let members: Vec<_> = (0..3).map(|_| lab.start(&args)).collect();
    for member in members {
        assert_eq!(finish(member).await, (0, String::new()));
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
        &["barrier", "/b", "--ttl", "3s"],
        &["barrier", "/b", "set", "--grace", "3s"],
        &["barrier", "/b", "remove", "--on-lost", "term"],
        &["service", "register", "s", "--port", "1", "--permanent", "--ttl", "3s"],
        &["config", "gray", "set", "n", "r", "--format", "json"],
    ] {
        let error = Cli::try_parse_from([&["coord"], args].concat()).expect_err("refused");
        assert_eq!(error.exit_code(), 2, "{args:?}");
    }
}
