//! The numbers of a store.

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::lab::{Lab, code, finish, pid_of, send};

/// What the page at this address says now.
async fn page(address: &str) -> String {
    let host = address.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let mut stream = tokio::net::TcpStream::connect(host.expect("an address")).await.expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: it\r\n\r\n").await.expect("asked");
    let mut page = String::new();
    stream.read_to_string(&mut page).await.expect("answered");
    page
}

pub(crate) async fn a_store_is_seen_from_outside(lab: Lab) {
    let holder = lab.lock(&[], "echo held > held; exec sleep 60").spawn().expect("coord starts");
    lab.line("held").await;
    let args = ["serve-metrics", "--listen", "127.0.0.1:0", "--dir", "/locks/it", "--dir", "/none"];
    let mut serving = lab.coord(args).spawn().expect("coord starts");
    let mut address = String::new();
    BufReader::new(serving.stdout.as_mut().expect("piped")).read_line(&mut address).await.expect("a line");

    let told = page(&address).await;
    assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
    let gauge = |name: &str, dir: &str| {
        let of_dir = |line: &&str| line.starts_with(&format!("{name}{{dir=\"{dir}\","));
        let line = told.lines().find(of_dir).unwrap_or_else(|| panic!("no {name} of {dir} in {told}"));
        line.rsplit(' ').next().expect("a number").to_owned()
    };
    for (name, count) in [
        ("coord_dir_places", "1"),
        ("coord_dir_keys", "1"),
        ("coord_dir_session_keys", "1"),
        ("coord_dir_sessions", "1"),
    ] {
        assert_eq!(gauge(name, "/locks/it"), count, "{name}");
        assert_eq!(gauge(name, "/none"), "0", "{name}");
    }
    assert!(told.lines().any(|line| line.starts_with("coord_store_up{") && line.ends_with(" 1")), "{told}");

    send(pid_of(&serving), Signal::SIGTERM);
    let ended = finish(serving).await;
    assert_eq!(code(&ended), 0, "{ended:?}");
    send(pid_of(&holder), Signal::SIGTERM);
    finish(holder).await;
}
