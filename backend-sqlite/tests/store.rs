//! What is this store's own: the file, its locks, its log, and how commits are told.

use std::{
    path::Path,
    time::{Duration, Instant},
};

#[cfg(feature = "faults")]
use coord_api::Backend;
use coord_api::{
    Config, Coord, Durability, Entry, ErrorKind, Lifetime, OpContext, Outcome, Registry, Result, Retry,
    Revision, SessionOptions, Start, Txn, WatchEvent, WatchStream,
};
#[cfg(feature = "faults")]
use coord_backend_sqlite::SqliteBackend;
use coord_backend_sqlite::SqliteFactory;
use futures::StreamExt;
use rusqlite::Connection;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// A directory with one store, and a handle on it.
async fn store(options: &str) -> (TempDir, Coord) {
    let dir = tempfile::tempdir().expect("a directory");
    let coord = open(dir.path(), options).await.expect("opened");
    (dir, coord)
}

async fn open(dir: &Path, options: &str) -> Result<Coord> {
    let url = format!("sqlite:{}/coord.db{options}", dir.display());
    Registry::new().with(SqliteFactory).connect(&Config::from_url(&url)?).await
}

/// Another connection to the file, which is none of coord's.
fn stranger(dir: &TempDir) -> Connection {
    Connection::open(dir.path().join("coord.db")).expect("opened")
}

async fn next(stream: &mut WatchStream) -> Result<WatchEvent> {
    loop {
        let event = tokio::time::timeout(PATIENCE, stream.next()).await.expect("an event").expect("goes on");
        if !matches!(event, Ok(WatchEvent::Progress(_))) {
            return event;
        }
    }
}

fn put(event: WatchEvent) -> Entry {
    match event {
        WatchEvent::Put(entry) => entry,
        other => panic!("no put: {other:?}"),
    }
}

#[tokio::test]
async fn a_commit_of_another_handle_is_told_and_not_looked_for() {
    let (dir, coord) = store("?poll=1m").await;
    let mut stream = coord.watch("/d").await.unwrap();
    next(&mut stream).await.unwrap();
    let other = open(dir.path(), "").await.unwrap();
    for value in ["1", "2", "3"] {
        other.put("/d/a", value).await.unwrap();
        assert_eq!(put(next(&mut stream).await.unwrap()).value, value);
    }
}

/// As when a process is killed between its commit and the telling.
#[tokio::test]
async fn a_commit_that_nobody_told_of_is_found() {
    let (dir, coord) = store("?poll=5ms").await;
    let mut stream = coord.watch("/d").await.unwrap();
    next(&mut stream).await.unwrap();
    stranger(&dir)
        .execute_batch(
            "BEGIN IMMEDIATE;
             UPDATE meta SET revision = revision + 1, log_rows = log_rows + 1;
             INSERT INTO log SELECT revision, 0, '/d/a', x'31', revision, NULL FROM meta;
             COMMIT;",
        )
        .unwrap();
    assert_eq!(put(next(&mut stream).await.unwrap()).value, "1");
}

#[tokio::test]
async fn a_file_that_was_deleted_is_told_to_all_and_a_new_one_has_larger_revisions() {
    let (dir, coord) = store("?poll=5ms").await;
    let before = coord.put("/a", "1").await.unwrap().revision;
    let session = coord.session(Duration::from_secs(1)).await.unwrap();
    let mut stream = coord.watch("/d").await.unwrap();
    next(&mut stream).await.unwrap();
    std::fs::remove_file(dir.path().join("coord.db")).unwrap();

    let told = |error: coord_api::Error| {
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Never), "{error}");
        assert!(error.to_string().contains("deleted or replaced"), "{error}");
    };
    told(coord.put("/a", "2").await.unwrap_err());
    told(coord.get("/a").await.unwrap_err());
    let ended = next(&mut stream).await.unwrap_err();
    assert_eq!((ended.kind(), ended.retry()), (ErrorKind::Unavailable, Retry::Never));
    tokio::time::timeout(PATIENCE, session.lost()).await.unwrap();

    let fresh = open(dir.path(), "").await.unwrap();
    assert!(fresh.get("/a").await.unwrap().is_none());
    assert!(fresh.put("/a", "3").await.unwrap().revision > before);
}

#[tokio::test]
async fn whoever_fell_behind_the_log_gets_a_snapshot() {
    let (_dir, coord) = store("?log_max=10").await;
    let old = coord.put("/d/a", "old").await.unwrap().revision;
    for value in 0..5 {
        coord.put("/d/a", value.to_string()).await.unwrap();
    }
    let mut resumed = coord.watch_from("/d", Start::After(old)).await.unwrap();
    for value in 0..5 {
        assert_eq!(put(next(&mut resumed).await.unwrap()).value, value.to_string());
    }
    for value in 5..30 {
        coord.put("/d/a", value.to_string()).await.unwrap();
    }
    let mut resumed = coord.watch_from("/d", Start::After(old)).await.unwrap();
    let WatchEvent::Snapshot { entries, .. } = next(&mut resumed).await.unwrap() else { panic!("a gap") };
    assert_eq!(entries[0].value, "29");
}

#[tokio::test]
async fn the_log_is_bounded_and_revisions_go_on() {
    let (dir, coord) = store("?log_max=10").await;
    let mut last = Revision::ZERO;
    for value in 0..100 {
        let written = coord.put("/d/a", value.to_string()).await.unwrap().revision;
        assert!(written > last);
        last = written;
    }
    let count = |sql: &str| stranger(&dir).query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert!((1..=11).contains(&count("SELECT count(*) FROM log")));
    assert_eq!(count("SELECT count(*) FROM log"), count("SELECT log_rows FROM meta"));
    assert_eq!(count("SELECT sum(length(value)) FROM log"), count("SELECT log_bytes FROM meta"));
    assert_eq!(count("SELECT min(revision) - 1 FROM log"), count("SELECT floor FROM meta"));
}

#[tokio::test]
async fn a_watch_from_the_future_is_refused() {
    let (_dir, coord) = store("").await;
    let future = Revision::new(coord.put("/d/a", "").await.unwrap().revision.get() + 1000);
    let mut stream = coord.watch_from("/d", Start::After(future)).await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn while_a_stranger_writes_calls_fail_in_time_and_reads_go_on() {
    let (dir, coord) = store("").await;
    coord.put("/a", "1").await.unwrap();
    let stranger = stranger(&dir);
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    let error = coord.put("/a", "2").await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Safe), "{error}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(coord.get("/a").await.unwrap().unwrap().value, "1");
    stranger.execute_batch("ROLLBACK").unwrap();
    coord.put("/a", "3").await.unwrap();
}

/// What is reported as not applied is not applied later either.
#[tokio::test]
async fn a_call_whose_deadline_passed_in_the_queue_is_never_carried_out() {
    let (dir, coord) = store("").await;
    let stranger = stranger(&dir);
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let soon = OpContext::default().with_deadline(tokio::time::Instant::now() + Duration::from_millis(50));
    let late = Txn::new().create("/late", "", Lifetime::Persistent);
    let error = coord.backend().commit(&soon, late).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotApplied), "{error}");
    stranger.execute_batch("ROLLBACK").unwrap();
    coord.put("/after", "").await.unwrap();
    assert!(coord.get("/late").await.unwrap().is_none());
}

#[tokio::test]
async fn rows_that_others_broke_stop_no_watch() {
    let (dir, coord) = store("").await;
    coord.put("/d/a", "1").await.unwrap();
    let broken = "PRAGMA ignore_check_constraints = 1;
        INSERT INTO entry (path, value, created, modified) VALUES ('none', x'', 1, 1), ('', x'', 1, 1);
        INSERT INTO entry (path, value, created, modified) VALUES (CAST(x'2f642fff' AS TEXT), x'', 1, 1);
        INSERT INTO entry (path, value, created, modified) VALUES ('/d/b', x'', -1, -1);";
    stranger(&dir).execute_batch(broken).unwrap();
    let mut stream = coord.watch("/d").await.unwrap();
    let WatchEvent::Snapshot { entries, .. } = next(&mut stream).await.unwrap() else { panic!("first") };
    assert_eq!(entries.len(), 1);
    coord.put("/d/c", "2").await.unwrap();
    assert_eq!(put(next(&mut stream).await.unwrap()).value, "2");
    assert_eq!(coord.get("/d/b").await.unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(coord.list("/d").await.unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(coord.get("/d/a").await.unwrap().unwrap().value, "1");
}

/// What a copy lacks may be a place in a line, whose holder does not know.
#[tokio::test]
async fn a_copy_that_lacks_a_row_is_not_listed() {
    let (dir, coord) = store("").await;
    let mut stream = coord.watch("/d").await.unwrap();
    next(&mut stream).await.unwrap();
    coord.put("/d/a", "").await.unwrap();
    assert_eq!(coord.list("/d").await.unwrap().children.len(), 1);
    stranger(&dir)
        .execute_batch(
            "BEGIN IMMEDIATE;
             UPDATE meta SET revision = revision + 1, log_rows = log_rows + 1;
             INSERT INTO log SELECT revision, 0, '/d/b', x'31', -1, NULL FROM meta;
             INSERT INTO entry (path, value, created, modified) SELECT '/d/b', x'31', revision, revision FROM meta;
             COMMIT;",
        )
        .unwrap();
    assert_eq!(coord.list("/d").await.unwrap().children.len(), 2);
}

#[tokio::test]
async fn closing_leaves_nothing_open_and_nothing_of_a_session() {
    let (dir, coord) = store("").await;
    let session = coord.session(Duration::from_secs(60)).await.unwrap();
    session.coord().create("/eph", "", Lifetime::Session).await.unwrap().expect("new");
    let mut stream = coord.watch("/d").await.unwrap();
    next(&mut stream).await.unwrap();
    coord.close().await.unwrap();
    coord.close().await.unwrap();
    log_of_the_driver_goes(dir.path()).await;
    assert_eq!(coord.get("/a").await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(coord.put("/a", "").await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(next(&mut stream).await.unwrap_err().kind(), ErrorKind::Closed);
    assert!(coord.backend().open_session(&SessionOptions::default()).await.is_err());
    let again = open(dir.path(), "").await.unwrap();
    assert!(again.get("/eph").await.unwrap().is_none());
}

/// Whoever comes second sees a file that is half made: that is nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_be_the_first_to_open_a_file() {
    for round in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let open = |_| {
            let path = dir.path().to_owned();
            tokio::spawn(async move { open(&path, "").await.map(drop) })
        };
        for opened in futures::future::join_all((0..4).map(open)).await {
            opened.unwrap().unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}

/// The last connection takes it along; on a busy machine a little after the handle was closed.
async fn log_of_the_driver_goes(dir: &Path) {
    let until = Instant::now() + Duration::from_secs(30);
    while dir.join("coord.db-wal").exists() {
        assert!(Instant::now() < until, "it is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Of two connections that close at once neither is the last: then the log would stay.
#[tokio::test]
async fn no_close_of_many_leaves_the_log_of_the_driver() {
    let (dir, coord) = store("").await;
    coord.close().await.unwrap();
    for round in 0..200 {
        let coord = open(dir.path(), "").await.unwrap();
        coord.put("/round", round.to_string()).await.unwrap();
        coord.close().await.unwrap();
        log_of_the_driver_goes(dir.path()).await;
    }
}

#[tokio::test]
async fn what_a_commit_waits_for_is_told() {
    for (options, loses) in [("", false), ("?synchronous=normal", true), ("?synchronous=off", true)] {
        let (_dir, coord) = store(options).await;
        let info = coord.info();
        assert_eq!(info.guarantees.durability, Durability::Restart);
        assert_eq!(info.guarantees.can_lose_acknowledged_writes, loses, "{options}");
        assert_eq!(info.warnings.is_empty(), !loses, "{options}");
        coord.put("/a", "").await.unwrap();
    }
}

#[cfg(feature = "faults")]
#[tokio::test]
async fn closing_while_the_disk_hangs_is_quick_and_promises_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/coord.db", dir.path().display());
    let backend = SqliteBackend::connect(&Config::from_url(&url).unwrap()).await.unwrap();
    let options = SessionOptions::default();
    let (one, _two) =
        (backend.open_session(&options).await.unwrap(), backend.open_session(&options).await.unwrap());
    backend.faults().cut_off();
    for closed in [one.close().await, backend.close().await] {
        assert_eq!(closed.unwrap_err().outcome(), Outcome::Unknown);
    }
}
