//! Several processes with one file: killed, frozen, out of room, and without permission.
//!
//! The test's own binary is the other process: with a role in its environment it plays that.

#![allow(clippy::print_stdout, reason = "the other process speaks by its output")]

use std::{
    env, fs,
    io::{BufRead, BufReader, Lines},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
    time::Duration,
};

use coord_api::{Config, Coord, ErrorKind, Lifetime, Registry, Result, Retry, Txn};
use coord_backend_sqlite::SqliteFactory;
use libtest_mimic::{Arguments, Trial};
use rusqlite::Connection;

const ROLE: &str = "SQLITE_TEST_ROLE";
const FILE: &str = "SQLITE_TEST_FILE";
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a writer is killed, in so many lanes at once.
const KILLS: u64 = 1000;
const LANES: u64 = 4;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if let Ok(role) = env::var(ROLE) {
        runtime.block_on(play(&role));
        return ExitCode::SUCCESS;
    }
    let handle = runtime.handle().clone();
    let tests = [
        (
            "a_thousand_killed_writers_leave_a_whole_store_with_all_they_were_told",
            test(&handle, killed_writers),
        ),
        ("keys_of_a_killed_process_go_after_the_ttl", test(&handle, killed_owner)),
        ("who_looks_once_does_not_see_what_the_dead_left", test(&handle, looked_at_once)),
        ("a_frozen_process_knows_on_waking_that_its_session_is_over", test(&handle, frozen_owner)),
        ("a_process_that_stands_still_while_writing_holds_up_writers_only", test(&handle, frozen_writer)),
        ("without_room_nothing_is_lost_and_it_goes_on_when_there_is_some", test(&handle, out_of_room)),
        ("without_permission_it_says_so", test(&handle, no_permission)),
    ];
    let trials = tests.into_iter().map(|(name, run)| Trial::test(name, run)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

type Run = Box<dyn FnOnce() -> std::result::Result<(), libtest_mimic::Failed> + Send>;

fn test<F: Future<Output = ()>>(
    runtime: &tokio::runtime::Handle,
    run: impl FnOnce(PathBuf) -> F + Send + 'static,
) -> Run {
    let runtime = runtime.clone();
    Box::new(move || {
        let dir = tempfile::tempdir()?;
        runtime.block_on(run(dir.path().join("coord.db")));
        Ok(())
    })
}

async fn open(file: &Path) -> Result<Coord> {
    let url = format!("sqlite:{}", file.display());
    Registry::new().with(SqliteFactory).connect(&Config::from_url(&url)?).await
}

// ---- the other process -------------------------------------------------------------------------------------------

async fn play(role: &str) {
    let file = PathBuf::from(env::var_os(FILE).expect("a file"));
    if let Some(lane) = role.strip_prefix("write ") {
        return write(&file, lane).await;
    }
    match role {
        "own" => own(&file).await,
        "stand" => stand(&file).await,
        "fill" => fill(&file).await,
        "open" => match open(&file).await {
            Ok(_) => println!("opened"),
            Err(error) => println!("{}", error.kind()),
        },
        _ => panic!("no role {role}"),
    }
}

/// Writes pairs for ever, and says each that was acknowledged.
async fn write(file: &Path, lane: &str) {
    let coord = patient(async || open(file).await).await;
    let session = patient(async || coord.session(Duration::from_secs(30)).await).await;
    let mut number = match coord.get(format!("/pair/{lane}/a")).await.expect("read") {
        Some(entry) => String::from_utf8_lossy(&entry.value).parse::<u64>().expect("a number"),
        None => 0,
    };
    loop {
        number += 1;
        let value = number.to_string();
        let pair = Txn::new()
            .put(format!("/pair/{lane}/a"), value.clone())
            .put(format!("/pair/{lane}/b"), value.clone());
        let done = patient(async || session.coord().commit(pair.clone()).await).await;
        let done = done.committed().expect("no condition");
        let name = format!("/members/{lane}-{value}");
        let new = async || session.coord().create(name.clone(), "", Lifetime::Session).await;
        patient(new).await.expect("new");
        println!("{number} {}", done.revision().expect("it wrote").get());
    }
}

/// Does it again for as long as it had no turn: on a busy machine the other lanes may keep the file for long.
async fn patient<T>(mut call: impl AsyncFnMut() -> Result<T>) -> T {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        match call().await {
            Err(error) if error.retry() == Retry::Safe && tokio::time::Instant::now() < until => {}
            result => return result.expect("done"),
        }
    }
}

/// Has a session with a key, and says when it is over, and what is said then.
async fn own(file: &Path) {
    let coord = open(file).await.expect("opened");
    let session = coord.session(Duration::from_secs(1)).await.expect("a session");
    session.coord().create("/eph", "", Lifetime::Session).await.expect("created").expect("new");
    println!("owns");
    // Asked from time to time, as by a program at work.
    while session.is_valid() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused = session.coord().create("/again", "", Lifetime::Session).await.expect_err("over");
    println!("{}", refused.kind());
}

/// Takes the write lock and never gives it back.
async fn stand(file: &Path) {
    let conn = Connection::open(file).expect("opened");
    conn.execute_batch("BEGIN IMMEDIATE").expect("locked");
    println!("stands");
    std::future::pending::<()>().await;
}

/// Writes until there is no room, and says what was acknowledged and what was not.
async fn fill(file: &Path) {
    let coord = open(file).await.expect("opened");
    for number in 0_u64.. {
        match coord.put(format!("/full/{number}"), vec![b'x'; 20_000]).await {
            Ok(_) => println!("{number}"),
            Err(error) => {
                assert!(coord.get("/full/0").await.expect("still read").is_some());
                println!("{} {:?}", error.kind(), error.retry());
                return;
            }
        }
    }
}

// ---- the tests ---------------------------------------------------------------------------------------------------

struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(role: &str, file: &Path) -> Self {
        Self::spawn(Command::new(env::current_exe().expect("this test")), role, file)
    }

    fn spawn(mut command: Command, role: &str, file: &Path) -> Self {
        let command = command.env(ROLE, role).env(FILE, file).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("it says something").expect("text")
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// SIGKILL; then what it had said before.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
        self.lines.by_ref().map_while(std::io::Result::ok).collect()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Of a test that failed; it may be over already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < until, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn ensure_whole(file: &Path) {
    let conn = Connection::open(file).expect("opened");
    let verdict: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(verdict, "ok");
}

/// The number and revision that a writer said.
fn said(line: &str) -> Option<(u64, u64)> {
    let (number, revision) = line.split_once(' ')?;
    Some((number.parse().ok()?, revision.parse().ok()?))
}

/// Kills writers a thousand times, several lanes of them at once, each at another point of its work.
async fn killed_writers(file: PathBuf) {
    let _first = open(&file).await.expect("opened");
    let handle = tokio::runtime::Handle::current();
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let (handle, file) = (handle.clone(), file.clone());
            // On a thread: it waits for the output of processes.
            tokio::task::spawn_blocking(move || handle.block_on(kill_and_look(lane, &file)))
        })
        .collect();
    for lane in lanes {
        lane.await.expect("all is there");
    }
    ensure_whole(&file);
}

async fn kill_and_look(lane: u64, file: &Path) {
    let reader = patient(async || open(file).await).await;
    let (mut told, mut revision) = (0, 0);
    for round in 0..KILLS / LANES {
        let mut writer = Other::start(&format!("write {lane}"), file);
        for _ in 0..=round % 3 {
            (told, revision) = said(&writer.line()).expect("a number");
        }
        // Anywhere in the next writes: the primes spread the moments.
        tokio::time::sleep(Duration::from_micros((round * 7919 + lane * 1543) % 6007)).await;
        // The last line may be cut: that was not told to the end.
        if let Some(last) = writer.kill().iter().filter_map(|line| said(line)).next_back() {
            assert!(last.0 > told && last.1 > revision, "{last:?} after {told} {revision}");
            (told, revision) = last;
        }
        let get = async |key: String| reader.get(key).await.expect("read").expect("there");
        let (a, b) = (get(format!("/pair/{lane}/a")).await, get(format!("/pair/{lane}/b")).await);
        let number: u64 = String::from_utf8_lossy(&a.value).parse().expect("a number");
        assert!(number >= told && a.meta.modified.get() >= revision, "{number} of {told} that were told");
        assert_eq!((&a.value, a.meta.modified), (&b.value, b.meta.modified), "half of a transaction");
        let alive = patient(async || reader.put("/alive", "").await).await;
        assert!(alive.revision.get() > revision);
        if round % 50 == 0 {
            ensure_whole(file);
        }
    }
    assert!(told >= KILLS / LANES, "the writers wrote nothing");
}

async fn killed_owner(file: PathBuf) {
    let reader = open(&file).await.expect("opened");
    let mut owner = Other::start("own", &file);
    assert_eq!(owner.line(), "owns");
    assert!(reader.get("/eph").await.expect("read").is_some());
    owner.kill();
    let began = tokio::time::Instant::now();
    eventually("the key is gone", async || reader.get("/eph").await.expect("read").is_none()).await;
    // Its last renewal was up to a third of the ttl before.
    assert!(began.elapsed() > Duration::from_millis(500), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

/// Nobody has the file open for long, as with commands of a shell.
async fn looked_at_once(file: PathBuf) {
    let mut owner = Other::start("own", &file);
    assert_eq!(owner.line(), "owns");
    owner.kill();
    let gone = async || {
        let coord = open(&file).await.expect("opened");
        let found = coord.get("/eph").await.expect("read");
        coord.close().await.expect("closed");
        found.is_none()
    };
    eventually("the key is gone", gone).await;
}

async fn frozen_owner(file: PathBuf) {
    let reader = open(&file).await.expect("opened");
    let mut owner = Other::start("own", &file);
    assert_eq!(owner.line(), "owns");
    owner.signal("-STOP");
    eventually("the key is gone", async || reader.get("/eph").await.expect("read").is_none()).await;
    owner.signal("-CONT");
    assert_eq!(owner.line(), "session-lost");
    assert!(reader.get("/again").await.expect("read").is_none());
}

async fn frozen_writer(file: PathBuf) {
    let coord = open(&file).await.expect("opened");
    coord.put("/a", "1").await.expect("written");
    let mut other = Other::start("stand", &file);
    assert_eq!(other.line(), "stands");
    other.signal("-STOP");
    let error = coord.put("/a", "2").await.expect_err("locked");
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Safe));
    assert_eq!(coord.get("/a").await.expect("read").expect("there").value, "1");
    other.kill();
    coord.put("/a", "3").await.expect("free again");
}

async fn out_of_room(file: PathBuf) {
    drop(open(&file).await.expect("opened"));
    let mut limited = Command::new("sh");
    // Files of the process may grow to so many blocks, and the signal that says so is ignored.
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$0\""])
        .arg(env::current_exe().expect("this test"));
    let mut other = Other::spawn(limited, "fill", &file);
    let lines: Vec<String> = other.lines.by_ref().map_while(std::io::Result::ok).collect();
    let (last, acknowledged) = lines.split_last().expect("it says something");
    assert!(last.starts_with("unavailable "), "{lines:?}");
    assert!(!acknowledged.is_empty(), "{lines:?}");
    let coord = open(&file).await.expect("opened");
    for number in acknowledged {
        assert!(
            coord.get(format!("/full/{number}")).await.expect("read").is_some(),
            "{number} was acknowledged"
        );
    }
    coord.put("/more", "").await.expect("there is room again");
    ensure_whole(&file);
}

async fn no_permission(file: PathBuf) {
    drop(open(&file).await.expect("opened"));
    let dir = file.parent().expect("a directory").to_owned();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    // Root may do everything: then the other process is somebody else, who may not be able to reach this binary.
    let root = fs::metadata("/proc/self").expect("Linux").uid() == 0;
    let binary = dir.join("other");
    fs::copy(env::current_exe().expect("this test"), &binary).expect("copied");
    let told = |file: &Path| {
        let mut command = Command::new(&binary);
        if root {
            command.uid(65_534).gid(65_534);
        }
        Other::spawn(command, "open", file).line()
    };
    mode(&dir, 0o555);
    mode(&file, 0o444);
    assert_eq!(told(&file), "permission-denied", "a directory and a file that can only be read");
    assert_eq!(told(&dir.join("new.db")), "permission-denied", "a directory that can only be read");
    mode(&file, 0o000);
    assert_eq!(told(&file), "permission-denied", "a file that cannot be read");
    mode(&dir, 0o755);
}
