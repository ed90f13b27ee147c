//! Terminals whose size changes all the time: nothing is lost, nothing ends, nothing strange is shown.
#![cfg(feature = "sqlite")]

use std::{
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::pty::openpty;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};

/// No test waits longer than this for anything.
const DEADLINE: Duration = Duration::from_secs(30);

/// Rows and columns, with those that a terminal has before anybody has said how large it is.
const SIZES: [(u16, u16); 5] = [(24, 80), (1, 1), (0, 0), (500, 1000), (2, 7)];

/// A terminal, and all that was shown on it.
struct Terminal {
    /// The side of the programs.
    slave: OwnedFd,
    screen: Arc<Mutex<Vec<u8>>>,
    sizes: usize,
}

impl Terminal {
    fn new() -> Self {
        let pty = openpty(None, None).expect("a terminal");
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let (shown, mut master) = (Arc::clone(&screen), File::from(pty.master));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = master.read(&mut bytes) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..count]);
            }
        });
        Self { slave: pty.slave, screen, sizes: 0 }
    }

    /// Starts `coord ARGS` in a session of its own, which has this terminal: the kernel tells it of each new size.
    fn start(&self, folder: &Path, args: &[&str]) -> Child {
        let mut command = Command::new("setsid");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("COORD_"))
        {
            command.env_remove(name);
        }
        let slave = || self.slave.try_clone().expect("a copy");
        command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_coord")]).args(args).current_dir(folder);
        command.env("TERM", "xterm").env("RUST_BACKTRACE", "1").kill_on_drop(true);
        command.env("COORD_URL", format!("sqlite:{}", folder.join("coord.db").display()));
        command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().expect("setsid, of util-linux")
    }

    /// Gives the terminal its next size.
    fn resize(&mut self) {
        let (ws_row, ws_col) = SIZES[self.sizes % SIZES.len()];
        self.sizes += 1;
        let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).expect("a terminal has a size");
    }

    /// Resizes until it holds.
    async fn resize_until(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !holds() {
            assert!(Instant::now() < deadline, "never: {what}: {}", self.text());
            self.resize();
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Resizes until it ends; the exit code.
    async fn resize_until_end(&mut self, mut child: Child) -> i32 {
        let mut code = None;
        self.resize_until("the end", || {
            code = child.try_wait().expect("asked").map(|status| status.code().expect("no signal"));
            code.is_some()
        })
        .await;
        code.unwrap_or_default()
    }

    fn shows(&self) -> impl Fn(&str) -> bool + use<> {
        let screen = Arc::clone(&self.screen);
        move |wanted| {
            let screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&screen).contains(wanted)
        }
    }

    fn text(&self) -> String {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&screen).into_owned();
        assert!(!text.contains("internal error") && !text.contains("panicked"), "{text}");
        text
    }
}

#[tokio::test]
async fn progress_and_tables_are_whole_whatever_size_the_terminal_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = coord::connect(&format!("sqlite:{}", folder.path().join("coord.db").display())).await;
    let store = store.expect("the store");
    for at in 0..500 {
        store.put(format!("/app/{at}"), "x".repeat(100)).await.expect("written");
    }
    let mut terminal = Terminal::new();
    let copy = terminal.start(folder.path(), &["copy", "/app", "sqlite:away.db"]);
    assert_eq!(terminal.resize_until_end(copy).await, 0, "{}", terminal.text());
    let shows = terminal.shows();
    terminal.resize_until("the table", || shows("same on both sides, sha256 ")).await;
    assert!(terminal.text().contains("copied    500 keys, 50000 bytes"), "{}", terminal.text());

    for (args, last) in [
        (&["ls", "/app"][..], "/app/499"),
        (&["sessions"], "SESSION"),
        (&["doctor"], "verdict"),
        (&["bench", "--count", "5"], "put until a watch tells"),
        (&["--help"], "COORD_LOG"),
    ] {
        let child = terminal.start(folder.path(), args);
        terminal.resize_until_end(child).await;
        let shows = terminal.shows();
        terminal.resize_until(last, || shows(last)).await;
    }
    terminal.text();
}

#[tokio::test]
async fn who_waits_watches_or_holds_does_so_whatever_size_the_terminal_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut one, mut two, mut three) = (Terminal::new(), Terminal::new(), Terminal::new());
    // The command is told of sizes as if there were no coord.
    let script = "trap ': > resized' WINCH; echo held; while ! [ -e go ]; do sleep 0.01; done; echo ending";
    let holder = one.start(folder.path(), &["lock", "/l", "--", "sh", "-c", script]);
    let held = one.shows();
    one.resize_until("the lock is held", || held("held\r\n")).await;
    one.resize_until("the command is told", || folder.path().join("resized").exists()).await;

    let mut waiter = two.start(folder.path(), &["lock", "/l", "-v", "--", "echo", "its turn"]);
    let mut watcher = three.start(folder.path(), &["watch", "/w"]);
    let snapshot = three.shows();
    three.resize_until("the watch began", || snapshot("\"snapshot\"")).await;
    let store = coord::connect(&format!("sqlite:{}", folder.path().join("coord.db").display())).await;
    let store = store.expect("the store");
    let deadline = Instant::now() + DEADLINE;
    while store.list("/l").await.expect("listed").children.len() < 2 {
        assert!(Instant::now() < deadline, "it never waits: {}", two.text());
        two.resize();
    }
    for _ in 0..200 {
        [&mut one, &mut two, &mut three].into_iter().for_each(Terminal::resize);
    }
    for child in [&mut waiter, &mut watcher] {
        assert!(child.try_wait().expect("asked").is_none(), "it ended: {} {}", two.text(), three.text());
    }
    store.put("/w/a", "1").await.expect("written");
    let put = three.shows();
    three.resize_until("the change is told", || put("/w/a")).await;
    std::fs::write(folder.path().join("go"), "").expect("written");
    assert_eq!(one.resize_until_end(holder).await, 0, "{}", one.text());
    assert_eq!(two.resize_until_end(waiter).await, 0, "{}", two.text());
    let turn = two.shows();
    two.resize_until("its turn", || turn("its turn")).await;
    watcher.kill().await.expect("killed");
}
