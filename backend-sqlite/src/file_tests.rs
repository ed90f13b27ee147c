use std::os::unix::fs::PermissionsExt;

use coord_api::{Config, ErrorKind};

use super::*;

fn settings(path: &Path) -> Settings {
    Settings::new(&Config::from_url(&format!("sqlite:{}", path.display())).unwrap()).unwrap()
}

fn refusal(path: &Path) -> Error {
    open(&settings(path)).map(|_| ()).unwrap_err()
}

#[test]
fn a_new_file_is_for_this_user_alone_and_an_old_one_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a b%?#.db");
    let mut own = settings(&dir.path().join("x"));
    (own.own, own.path) = (true, dir.path().join("state/coord/coord.db"));
    let opened = open(&own).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.path().join("state/coord")), 0o700);
    for name in ["coord.db", "coord.db-wal", "coord.db-shm", "coord.db-wake"] {
        assert_eq!(mode(&dir.path().join("state/coord").join(name)), 0o600, "{name}");
    }
    drop(opened);
    let mut named = own;
    (named.own, named.path) = (false, path.clone());
    drop(open(&named).unwrap());
    assert!(path.exists());
    assert!(open(&named).is_ok());
}

#[test]
fn a_file_of_somebody_else_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("foreign.db");
    let conn = Connection::open(&foreign).unwrap();
    conn.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    drop(conn);
    let newer = dir.path().join("newer.db");
    drop(open(&settings(&newer)).unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", SCHEMA + 1).unwrap();
    let text = dir.path().join("text.db");
    fs::write(&text, "no database, but a text that somebody wrote and wants to keep\n".repeat(99)).unwrap();
    let cut = dir.path().join("cut.db");
    drop(open(&settings(&cut)).unwrap());
    let mut bytes = fs::read(&cut).unwrap();
    bytes.truncate(4096);
    fs::write(&cut, bytes).unwrap();

    for (path, kind, word) in [
        (&foreign, ErrorKind::Config, "another program"),
        (&newer, ErrorKind::Config, "newer"),
        (&text, ErrorKind::Malformed, "no SQLite database"),
        (&cut, ErrorKind::Malformed, "damaged"),
    ] {
        let before = fs::read(path).unwrap();
        let error = refusal(path);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(word) && error.to_string().contains(".db"), "{error}");
        assert_eq!(fs::read(path).unwrap(), before, "{path:?} was changed");
    }
}

#[test]
fn what_cannot_be_opened_is_typed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(refusal(&dir.path().join("none/x.db")).kind(), ErrorKind::Config);
    assert_eq!(refusal(dir.path()).kind(), ErrorKind::Config);
}

#[test]
fn two_that_open_a_new_file_at_once_share_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.db");
    let open_all: Vec<_> = (0..8)
        .map(|_| {
            let settings = settings(&path);
            std::thread::spawn(move || open(&settings).map(|opened| opened.identity.inode))
        })
        .collect();
    let inodes: Vec<u64> = open_all.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
    assert!(inodes.iter().all(|inode| *inode == inodes[0]), "{inodes:?}");
}

/// What another boot left: its id, sessions, their keys.
fn left_by_another_boot(path: &Path) -> u64 {
    let opened = open(&settings(path)).unwrap();
    opened.write.execute("UPDATE meta SET boot = 'another'", []).unwrap();
    opened.write.execute("INSERT INTO session VALUES ('s', 1000, ?1)", [i64::MAX]).unwrap();
    for (name, owner) in [("/eph", Some("s")), ("/stays", None)] {
        let row = "INSERT INTO entry (path, value, created, modified, owner) VALUES (?1, x'', 1, 1, ?2)";
        opened.write.execute(row, (name, owner)).unwrap();
    }
    opened.write.query_row("SELECT revision FROM meta", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_boot_ends_all_sessions_and_begins_a_larger_history() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.db");
    let before = left_by_another_boot(&path);
    let opened = open(&settings(&path)).unwrap();
    let number = |sql: &str| opened.write.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
    assert_eq!(number("SELECT count(*) FROM session"), 0);
    assert_eq!(number("SELECT count(*) FROM entry WHERE path = '/eph'"), 0);
    assert_eq!(number("SELECT count(*) FROM entry WHERE path = '/stays'"), 1);
    assert!(number("SELECT revision FROM meta") > before + 1, "a power cut may have taken some");
    assert_eq!(number("SELECT floor FROM meta"), number("SELECT revision FROM meta"));
}

#[test]
fn while_somebody_of_another_boot_has_it_open_nobody_else_gets_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.db");
    left_by_another_boot(&path);
    let presence = Presence::open(&path).unwrap();
    assert!(presence.among_others());
    let error = refusal(&path);
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("boot id"), "{error}");
    let conn = Connection::open(&path).unwrap();
    let sessions: i64 = conn.query_row("SELECT count(*) FROM session", [], |row| row.get(0)).unwrap();
    assert_eq!(sessions, 1, "whose owner lives");
    drop(presence);
    assert!(open(&settings(&path)).is_ok());
}
