//! On a terminal.

use std::{
    fs::File,
    io::{Read, Write},
    sync::{Arc, Mutex, PoisonError},
};

use nix::{pty::openpty, sys::signal::Signal};

use crate::{
    contract::SAY,
    lab::{Lab, code, eventually, finish, is_ignored, send},
};

/// The command reads from the terminal and gets its Ctrl-C, and whoever called coord gets the terminal back.
pub(crate) async fn the_terminal_is_lent_to_the_command(lab: Lab) {
    let pty = openpty(None, None).expect("a terminal");
    let mut keyboard = File::from(pty.master);
    let screen = read_all(keyboard.try_clone().expect("its other end"));
    let slave = File::from(pty.slave);

    let reading = "read -r line; echo got $line; trap 'say interrupted yes; exit 4' INT TERM; say command $$; say ready yes;";
    let locked = format!("{SAY} {reading} while :; do sleep 0.02; done");
    let caller =
        r#""$COORD" lock -v /locks/it -- sh -c "$LOCKED"; say code $?; read -r line; say after "$line""#;
    let caller = format!("{SAY} {caller}");
    // A session of its own, with the terminal as its own.
    let session = lab
        .caller("setsid", ["--ctty", "--wait", "sh", "-c", &caller])
        .env("LOCKED", &locked)
        .stdin(slave.try_clone().expect("a copy"))
        .stdout(slave.try_clone().expect("a copy"))
        .stderr(slave)
        .spawn()
        .expect("setsid, of util-linux");

    keyboard.write_all(b"typed\n").expect("written");
    lab.line("ready").await;
    eventually("the screen shows what was typed and read", async || text(&screen).contains("got typed"))
        .await;
    if is_ignored(Signal::SIGINT) {
        send(lab.pid("command").await, Signal::SIGTERM);
    } else {
        keyboard.write_all(b"\x03").expect("written");
    }
    lab.line("interrupted").await;
    assert_eq!(lab.line("code").await, "4", "{}", text(&screen));
    keyboard.write_all(b"once more\n").expect("written");
    assert_eq!(lab.line("after").await, "once more", "the terminal did not come back: {}", text(&screen));
    assert_eq!(code(&finish(session).await), 0);
}

type Screen = Arc<Mutex<Vec<u8>>>;

fn text(screen: &Screen) -> String {
    String::from_utf8_lossy(&screen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

/// Collects what is shown, until the terminal is gone.
fn read_all(mut terminal: File) -> Screen {
    let screen = Screen::default();
    let shown = Arc::clone(&screen);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            shown.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..count]);
        }
    });
    screen
}
