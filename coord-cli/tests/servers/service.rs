//! The registry.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout},
};

use crate::{
    contract::SAY,
    faults::TTL_TEXT,
    lab::{DEADLINE, Lab, code, eventually, finish, is_ignored, pid_of, run, send},
};

const HERE: [&str; 6] = ["--id", "b1", "--address", "10.0.0.7", "--port", "8080"];

/// `coord service register billing … OPTIONS`.
fn register(lab: &Lab, options: &[&str]) -> Child {
    let args = [&["service", "register", "billing"], &HERE[..], options].concat();
    lab.coord(args).spawn().expect("coord")
}

/// What `coord service list billing` prints.
async fn listed(lab: &Lab) -> String {
    let output = run(lab.coord(["service", "list", "billing", "-o", "plain"])).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(code(&output), i32::from(text.is_empty()), "{output:?}");
    text
}

fn lines(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().expect("a pipe")).lines()
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await;
    line.expect("a line in time").expect("readable").expect("not the end")
}

pub(crate) async fn an_instance_is_there_as_long_as_its_command(lab: Lab) {
    let script = format!(
        "{SAY} say id $COORD_SERVICE_NAME/$COORD_SERVICE_ID; while [ ! -e go ]; do sleep 0.05; done; exit 7"
    );
    let holder = register(&lab, &["--", "sh", "-c", &script]);
    assert_eq!(lab.line("id").await, "billing/b1");
    assert_eq!(listed(&lab).await, "b1\t10.0.0.7:8080\tup\n");
    // Its id is taken while it lives.
    let output = finish(register(&lab, &["--", "touch", "ran"])).await;
    assert_eq!(code(&output), 3, "{output:?}");
    assert!(!lab.file("ran").exists());

    std::fs::write(lab.file("go"), "").expect("written");
    assert_eq!(code(&finish(holder).await), 7);
    assert_eq!(listed(&lab).await, "");
}

pub(crate) async fn told_to_stop_it_drains_first(lab: Lab) {
    if is_ignored(Signal::SIGTERM) {
        return;
    }
    let mut holder = register(&lab, &["--drain-wait", "60s", "-o", "plain"]);
    let mut told = lines(&mut holder);
    assert_eq!(next(&mut told).await, "/services/billing/b1");
    send(pid_of(&holder), Signal::SIGTERM);
    eventually("it drains", async || listed(&lab).await == "b1\t10.0.0.7:8080\tdraining\n").await;
    // Once more: no waiting.
    send(pid_of(&holder), Signal::SIGTERM);
    assert_eq!(code(&finish(holder).await), 0);
    assert_eq!(listed(&lab).await, "");
}

pub(crate) async fn the_command_is_told_to_stop_after_the_drain(lab: Lab) {
    if is_ignored(Signal::SIGTERM) {
        return;
    }
    let script =
        format!("{SAY} trap 'say told yes; exit 9' TERM; say ready yes; while :; do sleep 0.05; done");
    let holder = register(&lab, &["--drain-wait", "60s", "--", "sh", "-c", &script]);
    lab.line("ready").await;
    send(pid_of(&holder), Signal::SIGTERM);
    eventually("it drains", async || listed(&lab).await.ends_with("draining\n")).await;
    assert!(!lab.file("told").exists(), "the drain is not over");
    send(pid_of(&holder), Signal::SIGTERM);
    lab.line("told").await;
    assert_eq!(code(&finish(holder).await), 9);

    let script = format!("{SAY} say again yes; exec sleep 60");
    let holder = register(&lab, &["--drain-wait", "100ms", "--", "sh", "-c", &script]);
    lab.line("again").await;
    send(pid_of(&holder), Signal::SIGTERM);
    assert_eq!(code(&finish(holder).await), 128 + 15);
    assert_eq!(listed(&lab).await, "");
}

/// The pause of a whole process, as by a collector of garbage or a laptop's lid; and its death.
pub(crate) async fn a_frozen_process_is_missed_and_comes_back_and_a_killed_one_is_gone(lab: Lab) {
    let mut holder = register(&lab, &["--ttl", TTL_TEXT, "--weight", "7", "-o", "plain"]);
    let mut told = lines(&mut holder);
    next(&mut told).await;
    send(pid_of(&holder), Signal::SIGSTOP);
    eventually("its session is over", async || listed(&lab).await.is_empty()).await;
    send(pid_of(&holder), Signal::SIGCONT);
    eventually("it is back", async || listed(&lab).await == "b1\t10.0.0.7:8080\tup\n").await;
    send(pid_of(&holder), Signal::SIGKILL);
    eventually("it is gone", async || listed(&lab).await.is_empty()).await;
    // And its id is free.
    let output = finish(register(&lab, &["--", "true"])).await;
    assert_eq!(code(&output), 0, "{output:?}");
    finish(holder).await;
}

pub(crate) async fn a_service_is_watched(lab: Lab) {
    let mut watch = lab.coord(["service", "watch", "billing"]).spawn().expect("coord");
    let mut events = lines(&mut watch);
    let mut event = async || serde_json::from_str::<Value>(&next(&mut events).await).expect("JSON");
    assert_eq!(event().await, json!({ "event": "initial", "instances": [] }));
    let mut holder = register(&lab, &["--weight", "7", "--drain-wait", "60s", "-o", "plain"]);
    let mut told = lines(&mut holder);
    next(&mut told).await;
    let added = event().await;
    assert_eq!((&added["event"], &added["instance"]["id"]), (&json!("added"), &json!("b1")));
    assert_eq!(added["instance"]["weight"], json!(7));
    send(pid_of(&holder), Signal::SIGTERM);
    let updated = event().await;
    assert_eq!((&updated["event"], &updated["instance"]["status"]), (&json!("updated"), &json!("draining")));
    send(pid_of(&holder), Signal::SIGTERM);
    assert_eq!(event().await["event"], json!("removed"));
    assert_eq!(code(&finish(holder).await), 0);
    drop(events);
    assert_eq!(code(&finish(watch).await), 0, "nobody reads any more");
}
