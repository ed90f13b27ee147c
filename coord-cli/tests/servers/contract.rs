//! What holds while nothing fails.

use std::process::Stdio;

use coord_testbed::{Kind, ServerOptions};
use nix::sys::signal::Signal;
use tokio::io::AsyncWriteExt;

use crate::lab::{Lab, children, code, eventually, finish, gone, is_ignored, pid_of, run, runs, send};

/// How scripts write a line at once: `say FILE TEXT`.
pub(crate) const SAY: &str = r#"say() { echo "$2" > "$1.part"; mv "$1.part" "$1"; };"#;

pub(crate) async fn input_and_exit_code_pass_through(lab: Lab) {
    let mut command = lab.lock(&[], "cat; echo to-stderr >&2; exit 7");
    let mut child = command.stdin(Stdio::piped()).spawn().expect("coord");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"through\0bytes").await.expect("written");
    drop(input);
    let output = finish(child).await;
    assert_eq!((code(&output), output.stdout.as_slice()), (7, b"through\0bytes".as_slice()));
    assert!(String::from_utf8_lossy(&output.stderr).contains("to-stderr"));
}

pub(crate) async fn a_signal_that_ended_the_command_is_128_and_its_number(lab: Lab) {
    for (name, number) in [("KILL", 9), ("TERM", 15), ("USR1", 10)] {
        let output = run(lab.lock(&[], &format!("kill -{name} $$"))).await;
        assert_eq!(code(&output), 128 + number, "{name}");
    }
}

pub(crate) async fn what_cannot_run_is_126_and_what_is_not_there_127(lab: Lab) {
    for (program, expected) in [("/etc/passwd", 126), ("/", 126), ("/no/such/program", 127), ("no-such", 127)]
    {
        let output = run(lab.coord(["lock", "/locks/it", "--", program])).await;
        assert_eq!(code(&output), expected, "{program}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(program));
    }
    lab.line_has(0).await;
}

pub(crate) async fn own_failure_is_125_and_wrong_usage_2(lab: Lab) {
    let mut unreachable = lab.lock(&[], "touch ran");
    let (nowhere, said) = lab.unreachable();
    unreachable.env("COORD_URL", nowhere);
    let cases = [
        (unreachable, 125, said),
        (lab.lock(&["--ttl", "1ms"], "touch ran"), 125, "ttl"),
        (lab.coord(["lock", "/locks/../it", "--", "touch", "ran"]), 2, ".."),
        (lab.coord(["lock", "/", "--", "touch", "ran"]), 2, "segment"),
        (lab.coord(["lokc", "/locks/it"]), 2, "'lock'"),
        (lab.coord(["lock", "/locks/it"]), 2, "Usage"),
        (lab.lock(&["--timeout", "5"], "touch ran"), 2, "unit"),
        (lab.lock(&["--timeout", "5s", "--no-wait"], "touch ran"), 2, "cannot be used"),
    ];
    for (command, expected, said) in cases {
        let output = run(command).await;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(code(&output), expected, "{text}");
        assert!(text.contains(said) && !text.contains("backtrace"), "no {said:?} in {text}");
    }
    assert!(!lab.file("ran").exists(), "the command ran without the lock");
}

pub(crate) async fn not_acquired_is_124_or_as_asked(lab: Lab) {
    let script = format!("{SAY} say held $$; while [ ! -e go ]; do sleep 0.05; done");
    let holder = lab.lock(&[], &script).spawn().expect("coord");
    lab.pid("held").await;
    for (options, expected) in [
        (&["--no-wait"][..], 124),
        (&["--timeout", "200ms"], 124),
        (&["--timeout", "0s", "-E", "0"], 0),
        (&["--no-wait", "-E", "75"], 75),
    ] {
        let output = run(lab.lock(options, "touch ran")).await;
        assert_eq!(code(&output), expected, "{options:?}: {output:?}");
    }
    let output = run(lab.lock(&["--no-wait"], "touch ran")).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("/locks/it is taken"), "{output:?}");
    assert!(!lab.file("ran").exists(), "the command ran without the lock");
    lab.line_has(1).await;
    std::fs::write(lab.file("go"), "").expect("written");
    assert_eq!(code(&finish(holder).await), 0);
    assert_eq!(code(&run(lab.lock(&["--no-wait"], "true")).await), 0);
}

pub(crate) async fn the_command_is_told_about_its_lock(lab: Lab) {
    let mut tokens: Vec<u128> = Vec::new();
    for _ in 0..3 {
        let output = run(lab.lock(&[], "env")).await;
        let text = String::from_utf8(output.stdout).expect("text");
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
            line.unwrap_or_else(|| panic!("no {name}")).to_owned()
        };
        assert_eq!(value("COORD_LOCK_NAME"), "/locks/it");
        assert!(value("COORD_LOCK_KEY").starts_with("/locks/it/"), "{}", value("COORD_LOCK_KEY"));
        assert!(!value("COORD_SESSION").is_empty());
        assert_eq!(value("COORD_URL"), lab.url(), "nothing secret is in it");
        tokens.push(value("COORD_FENCING_TOKEN").parse().expect("a number"));
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

/// It would wait for its own end. In another store, or under another name, it does not.
pub(crate) async fn a_lock_within_itself_is_refused(lab: Lab) {
    let nested = |url: &str, name: &str| {
        lab.lock(&[], &format!("\"$COORD\" --url '{url}' lock {name} --timeout 10s -- sh -c 'echo ran'"))
    };
    let output = run(nested(lab.url(), "locks/it")).await;
    assert_eq!((code(&output), output.stdout.as_slice()), (125, b"".as_slice()), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("already runs under /locks/it"), "{said}");
    let url = lab.url();
    let between = format!(
        "\"$COORD\" --url '{url}' elect /leader -- \"$COORD\" --url '{url}' lock /locks/it --timeout 10s -- echo ran"
    );
    let output = run(lab.lock(&[], &between)).await;
    assert_eq!((code(&output), output.stdout.as_slice()), (125, b"".as_slice()), "{output:?}");
    for (url, name) in [(lab.url().to_owned(), "/locks/other"), (lab.other_url(), "/locks/it")] {
        let output = run(nested(&url, name)).await;
        assert_eq!((code(&output), output.stdout.as_slice()), (0, b"ran\n".as_slice()), "{output:?}");
    }
}

pub(crate) async fn credentials_stay_with_coord(mut lab: Lab) {
    let user = if lab.kind() == Some(Kind::Etcd) { "root" } else { "default" };
    // ZooKeeper has no users of its own: a client claims a name, and nodes are made for it.
    let options = ServerOptions::new();
    let options =
        if lab.kind() == Some(Kind::ZooKeeper) { options } else { options.auth(user, "s3cret-canary") };
    let server = lab.own_server(options).await;
    let mut command = lab.lock(&["-v"], "env");
    command.env("COORD_USERNAME", user).env("COORD_PASSWORD", "s3cret-canary").env("COORD_LOG", "trace");
    let output = run(command).await;
    let (data, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(code(&output), 0, "{log}");
    assert!(data.contains("COORD_FENCING_TOKEN="), "{data}");
    assert!(!data.contains("s3cret-canary") && !data.contains("COORD_USERNAME"), "{data}");
    assert!(!log.contains("s3cret-canary"), "a secret in the log: {log}");

    let (scheme, rest) = lab.url().split_once("://").expect("a URL");
    let mut command = lab.lock(&[], "env");
    command.env("COORD_URL", format!("{scheme}://{user}:s3cret-canary@{rest}"));
    let output = run(command).await;
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("s3cret-canary"), "{output:?}");
    server.stop().await.expect("stopped");
}

pub(crate) async fn a_signal_while_waiting_leaves_the_line(lab: Lab) {
    let script = format!("{SAY} say held $$; while [ ! -e go ]; do sleep 0.05; done");
    let holder = lab.lock(&[], &script).spawn().expect("coord");
    lab.pid("held").await;
    for (signal, number) in [(Signal::SIGTERM, 15), (Signal::SIGINT, 2), (Signal::SIGHUP, 1)] {
        if is_ignored(signal) {
            continue;
        }
        let waiter = lab.lock(&["--ttl", "60s"], "touch ran").spawn().expect("coord");
        lab.line_has(2).await;
        send(pid_of(&waiter), signal);
        assert_eq!(code(&finish(waiter).await), 128 + number);
        // At once, and not after the ttl.
        lab.line_has(1).await;
    }
    std::fs::write(lab.file("go"), "").expect("written");
    assert_eq!(code(&finish(holder).await), 0);
    assert!(!lab.file("ran").exists(), "the command ran without the lock");
}

pub(crate) async fn signals_while_running_reach_the_command(lab: Lab) {
    let signals = [
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGTERM, "TERM"),
    ];
    let mut script = SAY.to_owned();
    for (_, name) in signals {
        script += &format!("trap 'say got-{name} yes' {name};");
    }
    script += "say ready yes; while [ ! -e got-TERM ]; do sleep 0.05; done; exit 9";
    let holder = lab.lock(&[], &script).spawn().expect("coord");
    lab.line("ready").await;
    for (signal, name) in signals {
        if is_ignored(signal) {
            continue;
        }
        send(pid_of(&holder), signal);
        lab.line(&format!("got-{name}")).await;
    }
    assert_eq!(code(&finish(holder).await), 9, "the command decides how it ends");

    let holder = lab.lock(&[], &format!("{SAY} say ready2 yes; exec sleep 60")).spawn().expect("coord");
    lab.line("ready2").await;
    send(pid_of(&holder), Signal::SIGTERM);
    assert_eq!(code(&finish(holder).await), 128 + 15);
}

/// As `nohup` starts it: coord must not take a signal back that was ignored for it.
pub(crate) async fn ignored_signals_stay_ignored(lab: Lab) {
    let script = format!("{SAY} say held $$; while [ ! -e go ]; do sleep 0.05; done; exit 6");
    let nohup = "trap '' HUP; exec \"$COORD\" lock /locks/it -- sh -c \"$SCRIPT\"";
    let holder = lab.caller("sh", ["-c", nohup]).env("SCRIPT", script).spawn().expect("sh");
    let held = lab.pid("held").await;
    send(pid_of(&holder), Signal::SIGHUP);
    send(held, Signal::SIGHUP);
    std::fs::write(lab.file("go"), "").expect("written");
    assert_eq!(code(&finish(holder).await), 6);
}

pub(crate) async fn the_command_has_a_process_group_of_its_own(lab: Lab) {
    let holder = lab.lock(&[], &format!("{SAY} say held $$; exec sleep 60")).spawn().expect("coord");
    let command = lab.pid("held").await;
    let group = |pid| nix::unistd::getpgid(Some(pid)).expect("a group");
    assert_eq!(group(command), command, "it leads its own");
    assert_ne!(group(command), group(pid_of(&holder)));
    send(pid_of(&holder), Signal::SIGTERM);
    finish(holder).await;
}

pub(crate) async fn the_lock_is_free_only_after_the_command_was_reaped(lab: Lab) {
    let script =
        format!("{SAY} trap '' TERM; say held $$; while [ ! -e go ]; do sleep 0.05; done; echo first >> log");
    let holder = lab.lock(&[], &script).spawn().expect("coord");
    lab.pid("held").await;
    let waiter = lab.lock(&[], "echo second >> log").spawn().expect("coord");
    lab.line_has(2).await;
    // The command does not heed it, so coord goes on holding.
    send(pid_of(&holder), Signal::SIGTERM);
    std::fs::write(lab.file("go"), "").expect("written");
    assert_eq!((code(&finish(holder).await), code(&finish(waiter).await)), (0, 0));
    assert_eq!(std::fs::read_to_string(lab.file("log")).expect("a log"), "first\nsecond\n");
}

pub(crate) async fn a_killed_coord_takes_the_command_with_it(lab: Lab) {
    let script = format!("{SAY} sleep 60 & say grandchild $!; say held $$; wait");
    let mut holder = lab.lock(&["--ttl", "60s"], &script).spawn().expect("coord");
    let (command, grandchild) = (lab.pid("held").await, lab.pid("grandchild").await);
    let helpers = children(pid_of(&holder));
    assert!(helpers.contains(&command), "{helpers:?}");
    holder.kill().await.expect("killed");
    for pid in helpers.into_iter().chain([command, grandchild]) {
        gone(pid).await;
    }
}

pub(crate) async fn nothing_of_ours_is_left_behind(lab: Lab) {
    let script = format!("{SAY} say held $$; while [ ! -e go ]; do sleep 0.05; done");
    let holder = lab.lock(&[], &script).spawn().expect("coord");
    let command = lab.pid("held").await;
    let coord = pid_of(&holder);
    eventually("command and deadman run", async || children(coord).len() == 2).await;
    let helpers = children(coord);
    std::fs::write(lab.file("go"), "").expect("written");
    assert_eq!(code(&finish(holder).await), 0);
    // Reaped by coord before it ended, not left to whoever adopts them: not even zombies are there.
    for pid in helpers {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
    }
    assert!(!runs(command));
    lab.line_has(0).await;
}
