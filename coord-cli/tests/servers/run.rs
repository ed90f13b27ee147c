//! Commands that run while something else than a lock is held: leadership, a permit, the right to run, a place.

use std::process::Stdio;

use coord_testbed::{Kind, ServerOptions};
use nix::sys::signal::Signal;
use tokio::{io::AsyncWriteExt, process::Child, time::Instant};

use crate::{
    contract::SAY,
    faults::{TTL, TTL_TEXT, WORK},
    lab::{Lab, code, finish, gone, is_ignored, pid_of, run, runs, send},
};

const ELECT: &[&str] = &["elect", "/elections/it"];
const SEMAPHORE: &[&str] = &["semaphore", "/limits/it", "--permits", "1"];
const ONCE: &[&str] = &["once", "/jobs/it", "--period", "today"];
const ALONE: &[&str] = &["barrier", "/barriers/it", "--parties", "1"];

/// What scripts do until the test says go.
const UNTIL_GO: &str = "while [ ! -e go ]; do sleep 0.05; done";

fn start(lab: &Lab, command: &[&str], script: &str) -> Child {
    lab.running(command, script).spawn().expect("coord")
}

fn go(lab: &Lab) {
    std::fs::write(lab.file("go"), "").expect("written");
}

pub(crate) async fn input_and_exit_code_pass_through_whatever_is_held(lab: Lab) {
    for (command, name) in [(ELECT, "elect"), (SEMAPHORE, "semaphore"), (ONCE, "once"), (ALONE, "barrier")] {
        let mut child = lab.running(command, "cat; exit 7");
        let mut child = child.stdin(Stdio::piped()).spawn().expect("coord");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"through\0bytes").await.expect("written");
        drop(input);
        let output = finish(child).await;
        assert_eq!(
            (code(&output), output.stdout.as_slice()),
            (7, b"through\0bytes".as_slice()),
            "{output:?}"
        );

        // A job that failed is begun again only if that is asked for.
        let again: &[&str] = if name == "once" { &["--retry"] } else { &[] };
        let again = [command, again].concat();
        assert_eq!(code(&run(lab.running(&again, "kill -TERM $$")).await), 128 + 15, "{name}");
        let output = run(lab.coord([&again[..], &["--", "/no/such/program"]].concat())).await;
        assert_eq!(code(&output), 127, "{name}: {output:?}");
    }
}

pub(crate) async fn each_command_is_told_what_is_held(lab: Lab) {
    for (command, prefix, dir) in [
        (ELECT, "COORD_ELECTION", "/elections/it/"),
        (SEMAPHORE, "COORD_SEMAPHORE", "/limits/it/"),
        (ONCE, "COORD_ONCE", "/jobs/it/election/"),
        (ALONE, "COORD_BARRIER", "/barriers/it/"),
    ] {
        let mut tokens: Vec<u128> = Vec::new();
        for _ in 0..2 {
            // It fails, so that a job may run again.
            let again: &[&str] = if prefix == "COORD_ONCE" { &["--retry"] } else { &[] };
            let output = run(lab.running(&[command, again].concat(), "env; exit 1")).await;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let value = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
                line.unwrap_or_else(|| panic!("no {name}: {output:?}")).to_owned()
            };
            assert_eq!(value(&format!("{prefix}_NAME")), command[1]);
            assert!(value(&format!("{prefix}_KEY")).starts_with(dir), "{text}");
            assert!(!value("COORD_SESSION").is_empty());
            let token = value("COORD_FENCING_TOKEN");
            if command == ELECT || command == ONCE {
                assert_eq!(value("COORD_EPOCH"), token);
            }
            tokens.push(token.parse().expect("a number"));
        }
        assert!(tokens[0] < tokens[1], "{prefix}: {tokens:?}");
    }
}

pub(crate) async fn a_signal_while_waiting_ends_the_waiting(lab: Lab) {
    if is_ignored(Signal::SIGTERM) {
        return;
    }
    let others = [(ELECT, "/elections/it"), (SEMAPHORE, "/limits/it"), (ONCE, "/jobs/it/election")];
    for (at, (command, line)) in others.into_iter().enumerate() {
        let script = format!("{SAY} say held-{at} $$; {UNTIL_GO}");
        let holder = start(&lab, command, &script);
        lab.pid(&format!("held-{at}")).await;
        let waiter = start(&lab, &[command, &["--ttl", "60s"]].concat(), "touch ran");
        lab.dir_has(line, 2).await;
        send(pid_of(&waiter), Signal::SIGTERM);
        assert_eq!(code(&finish(waiter).await), 128 + 15, "{command:?}");
        // At once, and not after the ttl.
        lab.dir_has(line, 1).await;
        go(&lab);
        assert_eq!(code(&finish(holder).await), 0, "{command:?}");
        std::fs::remove_file(lab.file("go")).expect("removed");
    }
    let waiter = start(&lab, &["barrier", "/barriers/it", "--parties", "2", "--ttl", "60s"], "touch ran");
    lab.dir_has("/barriers/it", 1).await;
    send(pid_of(&waiter), Signal::SIGTERM);
    assert_eq!(code(&finish(waiter).await), 128 + 15);
    lab.dir_has("/barriers/it", 0).await;
    assert!(!lab.file("ran").exists(), "a command ran without what it waited for");
}

pub(crate) async fn a_leader_that_is_told_to_stop_resigns_after_its_command(lab: Lab) {
    if is_ignored(Signal::SIGTERM) {
        return;
    }
    let script = |name: &str| {
        format!("{SAY} trap '{UNTIL_GO}; echo {name} >> log; exit 9' TERM; say {name} $$; {WORK}")
    };
    let leader = start(&lab, &[ELECT, &["--ttl", "60s"]].concat(), &script("first"));
    lab.pid("first").await;
    let other = start(&lab, &[ELECT, &["--ttl", "60s"]].concat(), &script("second"));
    lab.dir_has("/elections/it", 2).await;
    send(pid_of(&leader), Signal::SIGTERM);
    go(&lab);
    assert_eq!(code(&finish(leader).await), 9, "the command decides how it ends");
    // At once, and not after the ttl.
    lab.pid("second").await;
    assert_eq!(std::fs::read_to_string(lab.file("log")).expect("a log"), "first\n");
    send(pid_of(&other), Signal::SIGTERM);
    assert_eq!(code(&finish(other).await), 9);
    lab.dir_has("/elections/it", 0).await;
}

pub(crate) async fn another_leads_after_the_leader_was_killed(lab: Lab) {
    let script = |name: &str| format!("{SAY} say epoch-{name} $COORD_EPOCH; say {name} $$; {WORK}");
    let options = [ELECT, &["--ttl", TTL_TEXT]].concat();
    let mut leader = start(&lab, &options, &script("first"));
    let command = lab.pid("first").await;
    let _other = start(&lab, &options, &script("second"));
    lab.dir_has("/elections/it", 2).await;
    leader.kill().await.expect("killed");
    lab.pid("second").await;
    assert!(!runs(command), "two lead");
    let epoch = async |name: &str| lab.line(name).await.parse::<u128>().expect("a number");
    assert!(epoch("epoch-first").await < epoch("epoch-second").await);
}

/// A script that does not heed SIGTERM in its first term, and ends with 9 in the second.
fn two_terms() -> String {
    format!(
        "{SAY} if [ -e first ]; then trap 'exit 9' TERM; say second $COORD_EPOCH; \
         else trap 'say told yes' TERM; say key $COORD_ELECTION_KEY; say pid $$; say first $COORD_EPOCH; fi; {WORK}"
    )
}

/// Follows a leader that has lost its first term to the end of its second.
async fn second_term(lab: &Lab, leader: Child) {
    let epochs = (lab.line("first").await, lab.line("second").await);
    assert!(epochs.0.parse::<u128>().expect("a number") < epochs.1.parse().expect("a number"), "{epochs:?}");
    send(pid_of(&leader), Signal::SIGTERM);
    let output = finish(leader).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code(&output) == 9 || is_ignored(Signal::SIGTERM), "{said}");
    assert!(said.contains("standing again for /elections/it"), "{said}");
}

pub(crate) async fn a_leader_whose_entry_was_deleted_stands_again(lab: Lab) {
    let leader = start(&lab, &[ELECT, &["--ttl", "60s"]].concat(), &two_terms());
    lab.line("first").await;
    let (command, key) = (lab.pid("pid").await, lab.line("key").await);
    assert_eq!(code(&run(lab.coord(["del", key.as_str()])).await), 0);
    lab.line("second").await;
    assert!(!runs(command), "the command of the first term goes on");
    second_term(&lab, leader).await;
}

pub(crate) async fn a_leader_without_its_store_is_stopped_in_time_and_leads_again(mut lab: Lab) {
    let server = lab.own_server(ServerOptions::new()).await;
    let options = ["--ttl", TTL_TEXT, "--grace", "1s"];
    let leader = start(&lab, &[ELECT, &options].concat(), &two_terms());
    lab.line("first").await;
    let command = lab.pid("pid").await;
    server.pause().await.expect("paused");
    let paused = Instant::now();
    lab.line("told").await;
    let told = Instant::now();
    let ended = gone(command).await;
    assert!(ended - paused < TTL - TTL / 10, "{:?} after the pause", ended - paused);
    assert!(ended > told, "it had time to stop");
    server.resume().await.expect("resumed");
    lab.line("second").await;
    second_term(&lab, leader).await;
    server.stop().await.expect("stopped");
}

pub(crate) async fn as_many_run_at_once_as_there_are_permits(lab: Lab) {
    let two = ["semaphore", "/limits/it", "--permits", "2"];
    let script = |at: usize| format!("{SAY} say held-{at} $$; while [ ! -e go-{at} ]; do sleep 0.05; done");
    let holders = [start(&lab, &two, &script(0)), start(&lab, &two, &script(1))];
    for at in 0..2 {
        lab.pid(&format!("held-{at}")).await;
    }
    for (options, expected) in [(&["--no-wait"][..], 124), (&["--timeout", "200ms", "-E", "75"], 75)] {
        let output = run(lab.running(&[&two, options].concat(), "touch ran")).await;
        assert_eq!(code(&output), expected, "{options:?}: {output:?}");
    }
    let output = run(lab.running(&["semaphore", "/limits/it", "--permits", "3"], "touch ran")).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code(&output) == 125 && said.contains("agreed=2"), "{said}");

    let both = start(&lab, &[&two[..], &["--take", "2"]].concat(), &format!("{SAY} say both yes"));
    lab.dir_has("/limits/it", 3).await;
    let [first, second] = holders;
    std::fs::write(lab.file("go-0"), "").expect("written");
    assert_eq!(code(&finish(first).await), 0);
    lab.dir_has("/limits/it", 2).await;
    assert!(!lab.file("both").exists() && !lab.file("ran").exists(), "more ran than there are permits");
    std::fs::write(lab.file("go-1"), "").expect("written");
    assert_eq!((code(&finish(second).await), code(&finish(both).await)), (0, 0));
    assert!(lab.file("both").exists());
}

pub(crate) async fn a_job_runs_once_a_period(lab: Lab) {
    let first = start(&lab, ONCE, &format!("{SAY} say held $$; {UNTIL_GO}; echo ran >> log"));
    lab.pid("held").await;
    let output = run(lab.running(&[ONCE, &["--timeout", "200ms"]].concat(), "echo ran >> log")).await;
    assert_eq!(code(&output), 124, "{output:?}");
    let second = start(&lab, ONCE, "echo ran >> log");
    lab.dir_has("/jobs/it/election", 2).await;
    go(&lab);
    assert_eq!((code(&finish(first).await), code(&finish(second).await)), (0, 0));

    let output = run(lab.running(&[ONCE, &["-E", "75", "-v", "--retry"]].concat(), "echo ran >> log")).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code(&output) == 75 && said.contains("has run /jobs/it for this period"), "{said}");
    let output = run(lab.running(ONCE, "echo ran >> log")).await;
    assert_eq!((code(&output), output.stderr.as_slice()), (0, b"".as_slice()), "nothing for cron to mail");
    assert_eq!(std::fs::read_to_string(lab.file("log")).expect("a log"), "ran\n");

    let tomorrow = ["once", "/jobs/it", "--period", "tomorrow"];
    assert_eq!(code(&run(lab.running(&tomorrow, "exit 4")).await), 4);
    let output = run(lab.running(&tomorrow, "touch again")).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code(&output) == 1 && said.contains("did not finish"), "{said}");
    assert!(!lab.file("again").exists(), "at most once");
    assert_eq!(code(&run(lab.running(&[&tomorrow[..], &["--retry"]].concat(), "touch again")).await), 0);
    assert!(lab.file("again").exists());
    assert_eq!(code(&run(lab.running(&tomorrow, "exit 4")).await), 0, "it is done now");
}

pub(crate) async fn a_job_whose_host_died_runs_again_only_if_asked(lab: Lab) {
    let mut first =
        start(&lab, &[ONCE, &["--ttl", TTL_TEXT]].concat(), &format!("{SAY} say held $$; {WORK}"));
    let command = lab.pid("held").await;
    let second = start(&lab, ONCE, "touch ran");
    lab.dir_has("/jobs/it/election", 2).await;
    let third = start(&lab, &[ONCE, &["--retry"]].concat(), &format!("{SAY} say again yes"));
    lab.dir_has("/jobs/it/election", 3).await;
    first.kill().await.expect("killed");
    lab.line("again").await;
    assert!(!runs(command), "it runs twice");
    assert_eq!((code(&finish(second).await), code(&finish(third).await)), (1, 0));
    assert!(!lab.file("ran").exists(), "nobody asked for a second run");
}

pub(crate) async fn a_barrier_holds_everybody_until_it_is_removed(lab: Lab) {
    let barrier = async |args: &[&str], expected: i32| {
        let output = run(lab.coord([&["barrier", "/barriers/it"], args].concat())).await;
        assert_eq!(code(&output), expected, "{args:?}: {output:?}");
    };
    barrier(&[], 0).await;
    barrier(&["set"], 0).await;
    barrier(&["set"], 3).await;
    barrier(&["--no-wait"], 124).await;
    barrier(&["wait", "--timeout", "100ms", "-E", "75"], 75).await;
    let mut waiter = lab.coord(["barrier", "/barriers/it"]).spawn().expect("coord");
    if !is_ignored(Signal::SIGTERM) {
        let script = format!("{SAY} \"$COORD\" barrier /barriers/it & say pid $!; wait $!");
        let other = lab.caller("sh", ["-c", &script]).spawn().expect("sh");
        send(lab.pid("pid").await, Signal::SIGTERM);
        assert_eq!(code(&finish(other).await), 128 + 15);
    }
    assert!(waiter.try_wait().expect("asked").is_none(), "it did not wait");
    barrier(&["remove"], 0).await;
    assert_eq!(code(&finish(waiter).await), 0);
    barrier(&["remove"], 1).await;
}

pub(crate) async fn a_group_begins_and_ends_together(lab: Lab) {
    let two = ["barrier", "/barriers/it", "--parties", "2"];
    let output = run(lab.running(&[&two[..], &["--timeout", "200ms"]].concat(), "touch alone")).await;
    assert_eq!(code(&output), 124, "{output:?}");
    lab.dir_has("/barriers/it", 0).await;
    let mut first = start(&lab, &two, &format!("{SAY} say first $COORD_BARRIER_MEMBERS; exit 5"));
    lab.dir_has("/barriers/it", 1).await;
    assert!(!lab.file("first").exists() && !lab.file("alone").exists(), "it began alone");
    let second = start(&lab, &two, &format!("{SAY} say second $COORD_BARRIER_MEMBERS; {UNTIL_GO}"));
    assert_eq!((lab.line("first").await, lab.line("second").await), ("2".to_owned(), "2".to_owned()));
    // The first has left, and waits for the second.
    lab.dir_has("/barriers/it", 1).await;
    assert!(first.try_wait().expect("asked").is_none(), "it did not wait for the others");
    go(&lab);
    assert_eq!((code(&finish(first).await), code(&finish(second).await)), (5, 0));

    // Without a command it is a meeting.
    let other = lab.coord(two).spawn().expect("coord");
    assert_eq!((code(&run(lab.coord(two)).await), code(&finish(other).await)), (0, 0));
}

pub(crate) async fn a_store_that_forgets_is_shared_all_the_same(mut lab: Lab) {
    let mut options = ServerOptions::new();
    if lab.kind() == Some(Kind::Redis) {
        options = options.extra("appendonly", "no");
    }
    let _server = lab.own_server(options).await;
    let register = lab.running(&["service", "register", "s", "--port", "80"], "true");
    for command in [lab.lock(&[], "true"), register] {
        let output = run(command).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(code(&output) == 0 && !said.contains("in this process"), "{said}");
    }
}
