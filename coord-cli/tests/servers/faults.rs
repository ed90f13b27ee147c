//! What holds while something fails: the command never runs when another may hold the lock.

use std::time::Duration;

use coord_testbed::ServerOptions;
use nix::sys::signal::Signal;
use tokio::time::Instant;

use crate::{
    contract::SAY,
    lab::{Lab, code, finish, gone, pid_of, run, runs, send},
};

/// As short as all stores grant.
pub(crate) const TTL: Duration = Duration::from_secs(4);
pub(crate) const TTL_TEXT: &str = "4s";

/// What scripts do until they are stopped. Short naps, so that traps run soon.
pub(crate) const WORK: &str = "while :; do sleep 0.02; done";

pub(crate) async fn an_entry_deleted_by_others_stops_the_command_at_once(lab: Lab) {
    let script = format!("{SAY} trap '' TERM; say key $COORD_LOCK_KEY; say held $$; {WORK}");
    let holder = lab.lock(&["--ttl", "60s"], &script).spawn().expect("coord");
    let command = lab.pid("held").await;
    let key = lab.line("key").await;
    assert_eq!(code(&run(lab.coord(["del", key.as_str()])).await), 0);
    let output = finish(holder).await;
    assert_eq!(code(&output), 123, "{output:?}");
    assert!(!runs(command));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the lock is lost"), "{output:?}");
}

/// coord is stopped, so it can do nothing; a second process ends the command in its place.
pub(crate) async fn a_frozen_coord_does_not_keep_the_command_running(lab: Lab) {
    let script = format!("{SAY} trap '' TERM; sleep 60 & say grandchild $!; say held $$; {WORK}");
    let holder = lab.lock(&["--ttl", TTL_TEXT], &script).spawn().expect("coord");
    let (command, grandchild) = (lab.pid("held").await, lab.pid("grandchild").await);
    let coord = pid_of(&holder);
    send(coord, Signal::SIGSTOP);
    let frozen = Instant::now();
    let (ended, _) = (gone(command).await, gone(grandchild).await);
    // The last renewal was sent before the freeze, so the store keeps the lock for no longer than this.
    assert!(ended - frozen < TTL, "{:?} after the freeze", ended - frozen);

    // Another is let in while coord is still frozen, and coord tells afterwards.
    let other = run(lab.lock(&["--ttl", TTL_TEXT, "--timeout", "25s"], "true")).await;
    assert_eq!(code(&other), 0, "{other:?}");
    send(coord, Signal::SIGCONT);
    let output = finish(holder).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 123, "{said}");
    assert!(said.contains("the deadman stopped the command while coord was frozen"), "{said}");
    assert!(!said.contains("the deadman is gone"), "{said}");
}

pub(crate) async fn the_command_is_told_to_stop_before_the_lock_is_lost(mut lab: Lab) {
    let server = lab.own_server(ServerOptions::new()).await;
    let script = format!("{SAY} trap 'say told yes; exit 0' TERM; say held $$; {WORK}");
    let holder = lab.lock(&["--ttl", TTL_TEXT, "--grace", "1s"], &script).spawn().expect("coord");
    let command = lab.pid("held").await;
    server.pause().await.expect("paused");
    let paused = Instant::now();
    lab.line("told").await;
    let ended = gone(command).await;
    assert!(ended - paused < TTL - TTL / 10, "{:?} after the pause", ended - paused);
    let output = finish(holder).await;
    assert_eq!(code(&output), 123, "it ended by itself, and yet it was stopped: {output:?}");
    server.resume().await.expect("resumed");
    server.stop().await.expect("stopped");
}

pub(crate) async fn a_command_that_does_not_listen_is_killed_in_time(mut lab: Lab) {
    let mut server = lab.own_server(ServerOptions::new()).await;
    let script = format!("{SAY} trap 'say told yes' TERM; sleep 60 & say grandchild $!; say held $$; {WORK}");
    let holder = lab.lock(&["--ttl", TTL_TEXT, "--grace", "1h"], &script).spawn().expect("coord");
    let (command, grandchild) = (lab.pid("held").await, lab.pid("grandchild").await);
    server.kill().await.expect("killed");
    let killed = Instant::now();
    lab.line("told").await;
    let told = killed.elapsed();
    let ended = gone(command).await - killed;
    gone(grandchild).await;
    assert!(ended < TTL - TTL / 10, "{ended:?} after the server's end");
    assert!(
        ended - told > TTL / 10,
        "told {told:?} after the server's end, killed after {ended:?}: no grace"
    );
    assert_eq!(code(&finish(holder).await), 123);
}

pub(crate) async fn on_lost_term_leaves_the_end_to_the_command(mut lab: Lab) {
    let mut server = lab.own_server(ServerOptions::new()).await;
    let script =
        format!("{SAY} trap 'say told yes' TERM; say held $$; while [ ! -e go ]; do sleep 0.02; done");
    let options = ["--ttl", TTL_TEXT, "--on-lost", "term"];
    let holder = lab.lock(&options, &script).spawn().expect("coord");
    let command = lab.pid("held").await;
    server.kill().await.expect("killed");
    let killed = Instant::now();
    lab.line("told").await;
    // Until long after the lock is gone.
    tokio::time::sleep_until(killed + TTL + TTL / 2).await;
    assert!(runs(command), "it was killed");
    std::fs::write(lab.file("go"), "").expect("written");
    assert_eq!(code(&finish(holder).await), 123);
}

pub(crate) async fn on_lost_ignore_only_warns(mut lab: Lab) {
    let mut server = lab.own_server(ServerOptions::new()).await;
    let script = format!(
        "{SAY} trap 'say told yes' TERM; say held $$; while [ ! -e go ]; do sleep 0.02; done; exit 5"
    );
    let options = ["--ttl", TTL_TEXT, "--on-lost", "ignore"];
    let holder = lab.lock(&options, &script).spawn().expect("coord");
    let command = lab.pid("held").await;
    server.kill().await.expect("killed");
    tokio::time::sleep(TTL + TTL / 2).await;
    assert!(runs(command) && !lab.file("told").exists(), "it was told to stop");
    std::fs::write(lab.file("go"), "").expect("written");
    let output = finish(holder).await;
    assert_eq!(code(&output), 5, "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the command goes on"), "{output:?}");
}
