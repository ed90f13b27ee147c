//! The command as a process, without a server: which store, and what is said when there is none.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Output, Stdio},
};

use nix::pty::openpty;

/// Runs `coord` in `folder` with nothing of coord's in its environment but `variables`.
fn coord(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coord"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("COORD_")) {
        command.env_remove(name);
    }
    command.args(args).current_dir(folder);
    command.env("XDG_CONFIG_HOME", folder.join("xdg")).env("XDG_STATE_HOME", folder.join("state"));
    let output = command.envs(variables.iter().copied()).output().expect("coord starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

fn which(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> String {
    let (output, text) = coord(folder, &[args, &["doctor", "-o", "json"]].concat(), variables);
    let told: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
    told["url"].as_str().expect("a URL").to_owned()
}

#[test]
fn the_nearest_source_of_the_store_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    if cfg!(feature = "sqlite") {
        assert_eq!(which(folder, &[], &[]), "sqlite:");
        assert!(folder.join("state/coord/coord.db").exists());
    } else {
        let (_, text) = coord(folder, &["ls"], &[]);
        assert!(
            text.contains("--url") && text.contains("COORD_URL") && text.contains("coord.toml"),
            "{text}"
        );
    }

    std::fs::create_dir_all(folder.join("xdg/coord")).expect("made");
    std::fs::write(folder.join("xdg/coord/config.toml"), "url = \"memory:xdg\"\n").expect("written");
    assert_eq!(which(folder, &[], &[]), "memory:xdg");
    std::fs::write(folder.join("coord.toml"), "url = \"memory:here\"\n").expect("written");
    assert_eq!(which(folder, &[], &[]), "memory:here");
    std::fs::write(folder.join("other.toml"), "url = \"memory:other\"\n").expect("written");
    assert_eq!(which(folder, &[], &[("COORD_CONFIG", "other.toml")]), "memory:other");
    assert_eq!(
        which(folder, &[], &[("COORD_URL", "memory:env"), ("COORD_CONFIG", "other.toml")]),
        "memory:env"
    );
    assert_eq!(which(folder, &["--config", "other.toml"], &[("COORD_URL", "memory:env")]), "memory:other");
    assert_eq!(which(folder, &["--url", "memory:flag"], &[("COORD_URL", "memory:env")]), "memory:flag");
}

/// Without a server and without a setting: processes of one user on one host share a store.
#[cfg(feature = "sqlite")]
#[test]
fn who_names_no_store_shares_a_file_with_the_other_processes_of_this_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (output, said) = coord(folder, &["put", "/greeting", "hello"], &[]);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let (output, said) = coord(folder, &["get", "/greeting"], &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "{said}");

    // Read, think, write: only the lock keeps the runs apart.
    let counter = folder.join("counter");
    std::fs::write(&counter, "0").expect("written");
    let script = "n=$(cat counter); sleep 0.02; echo $((n + 1)) > counter; echo \"$COORD_FENCING_TOKEN\"";
    let run = || {
        let (output, said) = coord(folder, &["lock", "/locks/counter", "--", "sh", "-c", script], &[]);
        assert_eq!(output.status.code(), Some(0), "{said}");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u128>().expect("a token")
    };
    let mut tokens: Vec<u128> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        runs.into_iter().map(|run| run.join().expect("it ran")).collect()
    });
    assert_eq!(std::fs::read_to_string(&counter).expect("read").trim(), "8");
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 8, "each holder has a token of its own");
}

#[test]
fn a_configuration_that_cannot_be_read_is_named_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for (text, parts) in [
        ("url = \"memory:x\"\npassword = \"s3cret\n", &["coord.toml", "line=2"][..]),
        ("uri = \"memory:x\"\n", &["coord.toml", "\"uri\" stands there"]),
        ("url = \"memry:x\"\n", &["did you mean \"memory\"?", "known="]),
        ("url = \"memory:x\"\npasword = \"s3cret\"\n", &["did you mean \"password\"?"]),
        ("url = \"etcd://u:s3cret@h:0\"\n", &["coord.toml", "port"]),
    ] {
        std::fs::write(folder.join("coord.toml"), text).expect("written");
        let (output, said) = coord(folder, &["ls"], &[]);
        assert_eq!(output.status.code(), Some(125), "{said}");
        for part in parts {
            assert!(said.contains(part), "no {part} in {said}");
        }
        assert!(!said.contains("s3cret") && !said.contains("panicked"), "{said}");
    }
    let (output, said) = coord(folder, &["--config", "none.toml", "ls"], &[]);
    assert!(output.status.code() == Some(125) && said.contains("none.toml"), "{said}");
}

#[test]
fn help_tells_the_exit_codes_and_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = [("COORD_URL", "redis://u:s3cret@h"), ("COORD_PASSWORD", "s3cret")];
    for args in [&["--help"][..], &["lock", "--help"], &["--version"]] {
        let (output, _) = coord(folder.path(), args, &secret);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !text.contains("s3cret"), "{text}");
    }
    let (output, _) = coord(folder.path(), &["--help"], &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("--url or --config, else COORD_URL, else COORD_CONFIG"), "{text}");
    assert!(text.contains("\nStore and output:\n"), "{text}");
    for code in ["1 ", "2 ", "3 ", "123", "124", "125", "126", "127"] {
        assert!(text.contains(&format!("\n  {code}")), "no {code} in {text}");
    }
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = tempfile::tempdir().expect("a folder");
    for args in [
        &["doctor"][..],
        &["config-path"],
        &["completions", "bash"],
        &["man"],
        &["txn", "put /a 1"],
        &["explain", "/a", "-o", "json"],
        &["sessions", "-o", "table"],
        &["copy", "memory:a", "memory:b"],
        &["bench", "--count", "1"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_coord"))
            .args(["--url", "memory:x"])
            .args(args)
            .env("RUST_BACKTRACE", "1")
            .current_dir(folder.path())
            .stdout(writer)
            .output()
            .expect("coord starts");
        let said = String::from_utf8_lossy(&output.stderr);
        // That there is nothing to copy is heard, whoever reads the rest.
        let told =
            if args[0] == "copy" { "coord: memory:a holds no keys: there is nothing to copy\n" } else { "" };
        assert_eq!((output.status.code(), said.as_ref()), (Some(0), told), "{args:?}");
    }
}

#[test]
fn nobody_who_hears_a_failure_changes_its_code() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, code) in [(&["get", "/a"][..], 1), (&["gte"], 2), (&["--config", "none.toml", "ls"], 125)] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_coord"));
        let url: &[&str] = if code == 125 { &[] } else { &["--url", "memory:x"] };
        let status = command.args(url).args(args).current_dir(folder.path()).stderr(writer).status();
        assert_eq!(status.expect("coord starts").code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_watch_ends_with_its_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut watch = Command::new(env!("CARGO_BIN_EXE_coord"))
        .args(["--url", "memory:x", "watch"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("coord starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    assert!(lines.next().expect("a line").expect("readable").contains("snapshot"));
    drop(lines);
    // Nothing happens in this store any more; the test's own limit ends a watch that goes on.
    let output = watch.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_grace_that_the_ttl_has_no_room_for_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = |options: &[&str]| {
        let (output, said) = coord(
            folder.path(),
            &[&["--url", "memory:x", "lock", "/l"], options, &["--", "true"]].concat(),
            &[],
        );
        assert_eq!(output.status.code(), Some(0), "{said}");
        said
    };
    let said = lock(&["--ttl", "6s", "--grace", "3s"]);
    assert!(said.contains("coord: the grace is 2.0s, a third of the ttl, 3s were asked for\n"), "{said}");
    assert!(!lock(&["--ttl", "6s"]).contains("grace"), "nobody asked for one");
}

#[test]
fn on_a_terminal_put_says_that_it_reads() {
    let pty = openpty(None, None).expect("a terminal");
    let mut keyboard = File::from(pty.master);
    keyboard.write_all(b"typed\n\x04").expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_coord"))
        .args(["--url", "memory:x", "put", "/a"])
        .stdin(pty.slave)
        .output()
        .expect("coord starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said, "coord: reading the value from standard input; Ctrl-D ends it\n");
}

/// Never a backtrace, and nothing of the program's inside.
fn told(folder: &Path, args: &[&str], code: i32) -> String {
    let (output, said) = coord(folder, args, &[("RUST_BACKTRACE", "1")]);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(!said.contains("panicked") && !said.contains("backtrace") && !said.contains(".rs:"), "{said}");
    said
}

#[test]
fn a_slip_is_told_with_the_nearest_match() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, near) in [
        (&["gte", "/a"][..], "'get'"),
        (&["expain", "/a"], "'explain'"),
        (&["session"], "'sessions'"),
        (&["conf-path"], "'config-path'"),
        (&["config", "sett", "a", "b=c"], "'set'"),
        (&["get", "/a", "--outptu", "json"], "'--output'"),
        (&["get", "/a", "-o", "jsno"], "'json'"),
        (&["completions", "bsh"], "'bash'"),
    ] {
        let said = told(folder.path(), args, 2);
        assert!(said.contains("similar") && said.contains(near), "no {near} for {args:?}: {said}");
    }
    assert!(told(folder.path(), &["man", "lok"], 2).contains("\"lok\""));
    for args in [&["lock", "/l", "./backup.sh", "-v"][..], &["once", "/o", "--period", "p", "./backup.sh"]] {
        let said = told(folder.path(), args, 2);
        assert!(said.contains("tip: ") && said.contains("'-- ./backup.sh'"), "{args:?}: {said}");
    }
    assert!(!told(folder.path(), &["get", "/a", "more"], 2).contains("'-- more'"));
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for args in [
        &["--url", "memory:", "--config", "x.toml", "ls"][..],
        &["put", "/a", "1", "--create", "--version", "1"],
        &["lock", "/a", "--timeout", "1s", "--no-wait", "--", "true"],
        &["man", "--dir", "pages", "lock"],
    ] {
        let said = told(folder.path(), args, 2);
        assert!(said.contains("cannot be used with"), "{args:?}: {said}");
    }
    for (option, action) in
        [(&["--timeout", "1s"][..], "set"), (&["--no-wait"], "remove"), (&["-E", "124"], "set")]
    {
        let args = [&["--url", "memory:", "barrier", "/b", action], option].concat();
        let said = told(folder.path(), &args, 2);
        assert!(said.contains(" is for waiting"), "{args:?}: {said}");
    }
}

#[test]
fn a_configuration_that_is_no_text_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("bytes.toml"), [b'u', 0xff, 0x00]).expect("written");
    std::fs::create_dir(folder.join("folder.toml")).expect("made");
    std::fs::write(folder.join("third.toml"), "# a\nurl = \"memory:x\"\n[nested\n").expect("written");
    for (file, parts) in [
        ("bytes.toml", &["bytes.toml"][..]),
        ("folder.toml", &["folder.toml"]),
        ("third.toml", &["third.toml", "line=3"]),
    ] {
        for command in [&["ls"][..], &["config-path"], &["copy", "/", "memory:x"], &["bench"]] {
            let said = told(folder, &[&["--config", file], command].concat(), 125);
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
    }
    let said = told(folder, &["copy", "third.toml", "memory:x"], 125);
    assert!(said.contains("third.toml") && said.contains("line=3"), "{said}");
}

#[test]
fn config_path_shows_all_places_and_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("coord.toml"), "url = \"memory:here\"\npassword = \"s3cret\"\n")
        .expect("written");
    let variables =
        [("COORD_URL", "redis://u:s3cret@h/app?operation_timeout=2s"), ("COORD_NAMESPACE", "orders")];
    for format in ["json", "table"] {
        let (output, said) = coord(folder, &["config-path", "-o", format], &variables);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && !text.contains("s3cret") && !said.contains("s3cret"),
            "{text}{said}"
        );
        assert!(text.contains("redis://u:***@h/app?operation_timeout=***"), "{text}");
    }
    let (output, _) = coord(folder, &["config-path", "-o", "json"], &variables);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let state = |name: &str| {
        let places = told["places"].as_array().expect("a list");
        places.iter().find(|place| place["place"] == name).map(|place| place["state"].clone())
    };
    assert_eq!(told["used"], "COORD_URL");
    for (place, expected) in
        [("--url", "absent"), ("COORD_URL", "used"), ("COORD_CONFIG", "absent"), ("coord.toml", "overridden")]
    {
        assert_eq!(state(place), Some(expected.into()), "{place}");
    }
    let options: Vec<_> =
        told["options"].as_array().expect("a list").iter().map(|o| (&o["option"], &o["value"])).collect();
    assert_eq!(
        options,
        [(&"namespace".into(), &"orders".into()), (&"operation_timeout".into(), &"2s".into())]
    );

    let (output, _) = coord(folder, &["config-path", "-o", "json"], &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("\"******\"") && !text.contains("s3cret"), "{text}");
    let (output, _) = coord(folder, &["config-path"], &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "coord.toml\n");
}

#[test]
fn pages_and_completions_know_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (output, said) = coord(folder, &["completions", shell], &[]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(
            ["lock", "explain", "config-path", "on-lost"].iter().all(|word| text.contains(word)),
            "{shell}"
        );
    }
    let (output, _) = coord(folder, &["man", "config", "set"], &[]);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(page.contains(".TH coord-config-set 1") && page.contains("\\-\\-expect"), "{page}");
    let (output, said) = coord(folder, &["man", "--dir", "pages/new"], &[]);
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
    let page = std::fs::read_to_string(folder.join("pages/new/coord.1")).expect("a page");
    assert!(page.contains("Exit codes of `coord lock`"), "{page}");
    assert!(
        folder.join("pages/new/coord-lock.1").exists()
            && folder.join("pages/new/coord-service-list.1").exists()
    );
}

/// A terminal hears how far a copy is, and nothing of that stays.
#[cfg(feature = "sqlite")]
#[test]
fn a_copy_tells_a_terminal_how_far_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    told(folder, &["--url", "sqlite:a.db", "put", "/a", "1"], 0);
    for (term, heard) in [("xterm", true), ("dumb", false)] {
        let pty = openpty(None, None).expect("a terminal");
        let status = Command::new(env!("CARGO_BIN_EXE_coord"))
            .args(["copy", "sqlite:a.db", &format!("sqlite:{term}.db")])
            .env("TERM", term)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(pty.slave)
            .status();
        assert!(status.expect("coord starts").success());
        let mut said = Vec::new();
        // Nobody has the other side open any more, which a terminal tells as an error behind what was written.
        let _ = File::from(pty.master).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        // What comes within a moment of the first is not told.
        let shown = said.starts_with("\rreading names: 1\u{1b}[K") && said.ends_with("\r\u{1b}[K");
        assert!(if heard { shown } else { said.is_empty() }, "{term}: {said:?}");
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_copy_of_nothing_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = told(folder.path(), &["copy", "sqlite:a.db", "sqlite:b.db"], 0);
    assert_eq!(said, "coord: sqlite:a.db holds no keys: there is nothing to copy\n");
}
