//! What happens when the test process itself is set up or killed in some way. Each test runs this
//! same program again, as the process it is about.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
};

use common::{eventually, start};
use coord_testbed::{Kind, Provider, sweep};

const ROLE: &str = "COORD_TESTBED_ROLE";

/// This program again, in a role, without any choice of the outside.
fn in_role(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "role", "--nocapture", "--quiet"]).env(ROLE, role).stdout(Stdio::piped());
    for kind in Kind::ALL {
        command.env_remove(kind.variable());
    }
    command.env_remove("COORD_SERVERS");
    command
}

/// Not a test: what this program does in a role.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "this is how the role answers")]
async fn role() {
    match std::env::var(ROLE).as_deref() {
        Ok("hold") => {
            let server = start(Kind::Redis).await;
            println!("says {}", server.pid().unwrap());
            std::future::pending::<()>().await;
        }
        Ok("choose") => match Provider::choose(Kind::Valkey).await {
            Ok(provider) => println!("says {provider:?}"),
            Err(error) => println!("says {error}"),
        },
        _ => {}
    }
}

/// A process that holds a server, and the server's number.
fn holder(command: &mut Command) -> (Child, String) {
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let server = lines.filter_map(|line| said(&line)).next().unwrap();
    (child, server)
}

fn said(line: &str) -> Option<String> {
    line.split_once("says ").map(|(_, said)| said.to_owned())
}

/// Whether the process runs; one that waits to be reaped does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

fn data_of(pid: &str) -> std::path::PathBuf {
    std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap().parent().unwrap().to_owned()
}

/// Promise: when the test process is killed its servers die with it, and a sweep takes the data.
#[tokio::test]
async fn servers_die_with_a_killed_process() {
    let (mut holder, server) = holder(&mut in_role("hold"));
    let data = data_of(&server);
    assert!(runs(&server) && data.is_dir());
    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("the server is gone", async || !runs(&server)).await;
    sweep().await.unwrap();
    assert!(!data.exists());
}

/// Promise: where the system cannot do that, the next sweep ends what was left.
#[tokio::test]
async fn without_a_guard_a_sweep_ends_them() {
    // A path with what the launcher of the server needs, but without the guard.
    let tools = tempfile::tempdir().unwrap();
    for tool in ["dirname", "readlink"] {
        symlink(Path::new("/usr/bin").join(tool), tools.path().join(tool)).unwrap();
    }
    let (mut holder, server) = holder(in_role("hold").env("PATH", tools.path()));
    let data = data_of(&server);

    sweep().await.unwrap();
    assert!(runs(&server), "a sweep must not touch what belongs to a living process");

    holder.kill().unwrap();
    holder.wait().unwrap();
    sweep().await.unwrap();
    eventually("the server is gone", async || !runs(&server)).await;
    assert!(!data.exists());
}

/// Promise: the variable decides, and without it nothing is left out in silence.
#[test]
fn the_variable_decides() {
    let variable = Kind::Valkey.variable();
    let answer = |command: &mut Command| {
        let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
        output.lines().find_map(said).unwrap()
    };
    let choose = |value: &str| answer(in_role("choose").env(variable, value));
    assert_eq!(choose("docker"), "Docker");
    assert_eq!(choose("off"), "Off");
    assert_eq!(choose("url:redis://h:1"), "Url(\"redis://h:1\")");
    assert!(choose("local").ends_with(".servers/bin\")"), "{}", choose("local"));
    assert!(choose("skip").contains("known are: docker"), "{}", choose("skip"));

    let dir = tempfile::tempdir().unwrap();
    let missing = choose(&format!("local:{}", dir.path().display()));
    assert!(missing.contains("no valkey-server") && missing.contains("fetch-servers.sh"), "{missing}");
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    std::fs::write(dir.path().join("bin/valkey-server"), "").unwrap();
    let bin = dir.path().join("bin");
    assert_eq!(choose(&format!("local:{}", dir.path().display())), format!("Local({bin:?})"));
    assert_eq!(choose(&format!("local:{}", bin.display())), format!("Local({bin:?})"));
    let from_there = answer(in_role("choose").env(variable, "local").env("COORD_SERVERS", dir.path()));
    assert_eq!(from_there, format!("Local({bin:?})"));

    let any = choose("");
    assert!(any == "Docker" || any.starts_with("Local("), "{any}");
}
