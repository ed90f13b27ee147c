//! What the pages show is what the command does: the transcripts of both READMEs, the guide and the command's page, run.
//!
//! A block of `console` holds commands behind `$ `, each with what it writes to both outputs and, behind `? `, its exit
//! code where that is not 0. `[..]` stands for any text within a line, and `...` for any lines. The blocks of a page are
//! one session in one folder, on the embedded store of a user who has nothing set.
#![cfg(feature = "sqlite")]

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use snapbox::{Assert, IntoData};

/// One command of a page and what is said of it.
#[derive(Debug, Default)]
struct Step {
    line: usize,
    command: String,
    code: i32,
    output: String,
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of the fenced blocks of this language, each with its number.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<(usize, &'p str)> {
    let fence = format!("```{language}");
    let (mut inside, mut ours) = (false, false);
    let mut lines = Vec::new();
    for (at, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = !inside;
            ours = inside && line == fence;
        } else if ours {
            lines.push((at + 1, line));
        }
    }
    lines
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (line, text) in blocks(page, "console") {
        if let Some(command) = text.strip_prefix("$ ") {
            steps.push(Step { line, command: command.to_owned(), ..Step::default() });
            continue;
        }
        let step = steps.last_mut().unwrap_or_else(|| panic!("line {line}: output before a command"));
        match text.strip_prefix("? ") {
            Some(code) if step.output.is_empty() => step.code = code.parse().expect("an exit code"),
            _ => step.output += &format!("{text}\n"),
        }
    }
    steps
}

/// Runs a line of a shell in the folder; what it wrote to both outputs, and its exit code.
fn run(folder: &Path, line: &str) -> (String, i32) {
    let coord = PathBuf::from(env!("CARGO_BIN_EXE_coord"));
    let mut path = vec![coord.parent().expect("a directory").to_owned()];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let mut shell = Command::new("sh");
    let ours = |name: &str| name.starts_with("COORD_") || name.starts_with("XDG_");
    for (name, _) in env::vars_os().filter(|(name, _)| ours(&name.to_string_lossy())) {
        shell.env_remove(name);
    }
    let output = shell
        .arg("-c")
        .arg(format!("exec 2>&1\n{line}"))
        .current_dir(folder)
        .env("PATH", env::join_paths(path).expect("a path"))
        // A folder of that name in ours, so that pages do not show where it is.
        .env("HOME", "~")
        .env("XDG_STATE_HOME", folder.join("state"))
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let mut text = String::from_utf8(output.stdout).expect("text");
    // The bytes of a value end where they end; the next line of the page begins anew.
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    (text, output.status.code().expect("an exit code"))
}

/// A folder with what the pages take for granted.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("backup.sh");
    fs::write(&script, "#!/bin/sh\necho \"saved, with token $COORD_FENCING_TOKEN\"\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("made executable");
    folder
}

fn follow(name: &str, least: usize) {
    let folder = folder();
    let steps = steps(&page(name));
    assert!(steps.len() >= least, "{name}: only {} commands", steps.len());
    let mut wrong = Vec::new();
    for Step { line, command, code, output } in steps {
        let (wrote, ended) = run(folder.path(), &command);
        let place = format!("{name}:{line}: {command}");
        let compared = Assert::new().try_eq(Some(&place), wrote.into_data(), output.into_data());
        wrong.extend(compared.err().map(|difference| difference.to_string()));
        if ended != code {
            wrong.push(format!("{place}: ended with {ended} and not with {code}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn the_page_of_the_command_shows_what_it_does() {
    follow("docs/cli.md", 20);
}

#[test]
fn the_guide_shows_what_the_command_does() {
    follow("docs/guide/src/start.md", 5);
}

#[test]
fn the_commands_of_the_readme_run() {
    for name in ["README.md", "README.zh.md"] {
        commands_run(name);
    }
}

fn commands_run(name: &str) {
    let folder = folder();
    let page = page(name);
    let lines: Vec<_> =
        blocks(&page, "sh").into_iter().filter(|(_, line)| line.starts_with("coord ")).collect();
    assert!(lines.len() >= 3, "{lines:?}");
    for (number, line) in lines {
        let (wrote, code) = run(folder.path(), line);
        assert_eq!(code, 0, "{name}:{number}: {line}: {wrote}");
    }
    if page.contains("```console") {
        follow(name, 1);
    }
}

#[test]
fn a_transcript_that_is_wrong_is_found() {
    let differs = |actual: &str, expected: &str| {
        Assert::new().try_eq(None, actual.to_owned().into_data(), expected.to_owned().into_data()).is_err()
    };
    assert!(!differs("a 17 b\n", "a [..] b\n") && !differs("a\nb\nc\n", "a\n...\nc\n"));
    assert!(differs("a 17 b\n", "a [..] c\n") && differs("a\nb\n", "a\n") && differs("", "a\n"));
    let page = "```console\n$ false\n? 1\n$ echo a\na\n```\n```sh\n$ no\n```\n";
    let steps = steps(page);
    let shown: Vec<_> =
        steps.iter().map(|s| (s.line, s.command.as_str(), s.code, s.output.as_str())).collect();
    assert_eq!(shown, [(2, "false", 1, ""), (4, "echo a", 0, "a\n")]);
}
