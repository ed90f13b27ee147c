//! How many instructions the small things take, counted by Valgrind: `cargo bench -p coord-benches --bench instructions`.
//!
//! A case runs twice in a process of its own, the second time with more repetitions. The difference is what the
//! repetitions took: what comes before and after them is the same in both.

#[path = "cases/mod.rs"]
mod cases;

use std::{
    env,
    hint::black_box,
    io::{self, Write},
    process::{Command, ExitCode},
};

use cases::Bench;

/// Says to a process that it is one run of one case, which follows: `GROUP/NAME REPETITIONS`.
const CASE: &str = "--case";
/// Repetitions of the two runs.
const FEW: u64 = 64;
const MANY: u64 = 320;
const INSTALL: &str = "valgrind does not run; on Debian: apt-get install --no-install-recommends valgrind";

/// Runs the case of this name and no other.
struct One {
    name: String,
    repetitions: u64,
}

impl Bench for One {
    fn case<R>(&mut self, group: &str, name: &str, mut op: impl FnMut() -> R) {
        if self.name == format!("{group}/{name}") {
            for _ in 0..self.repetitions {
                black_box(op());
            }
        }
    }
}

/// Notes the names.
#[derive(Default)]
struct Names(Vec<String>);

impl Bench for Names {
    fn case<R>(&mut self, group: &str, name: &str, mut op: impl FnMut() -> R) {
        black_box(op());
        self.0.push(format!("{group}/{name}"));
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [flag, name, repetitions] = args.as_slice()
        && flag == CASE
    {
        let repetitions = repetitions.parse().expect("a number");
        cases::all(&mut One { name: name.clone(), repetitions });
        return ExitCode::SUCCESS;
    }
    let mut names = Names::default();
    cases::all(&mut names);
    // As a test it has shown by now that each case works.
    if !args.iter().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let wanted = args.iter().find(|arg| !arg.starts_with('-'));
    let mut names = names.0.iter().filter(|name| wanted.is_none_or(|wanted| name.contains(wanted)));
    match names.try_for_each(|name| count(name)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Counts one case and prints what one repetition takes.
fn count(name: &str) -> io::Result<()> {
    let each = (collected(name, MANY)? - collected(name, FEW)?) as f64 / (MANY - FEW) as f64;
    writeln!(io::stdout(), "{name:40} {each:>10.0} instructions")
}

/// The instructions of a whole process that runs the case.
fn collected(name: &str, repetitions: u64) -> io::Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(env::current_exe()?);
    let output = valgrind.args([CASE, name, &repetitions.to_string()]).output();
    let output = output.map_err(|error| io::Error::new(error.kind(), format!("{INSTALL} ({error})")))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let total = told.lines().find_map(|line| line.split_once("Collected :"));
    let total = total.and_then(|(_, total)| total.trim().parse().ok()).filter(|_| output.status.success());
    total.ok_or_else(|| io::Error::other(format!("{name} under valgrind: {told}")))
}
