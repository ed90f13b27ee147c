//! Opening the file: that it is there, ours, and judged by the clock of this boot.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use coord_api::{Error, Result};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use crate::{
    error::{self, During, Fault, classify},
    host::{self, BootClock},
    presence::Presence,
    query,
    settings::{Settings, Synchronous},
    state::{Limit, State},
};

/// `coor` in ASCII: whose database it is.
const APPLICATION: i32 = 0x636f_6f72;
/// The form of the tables. A newer one is refused.
const SCHEMA: i32 = 1;
/// How long opening waits for others that open or write: less than the usual `connect_timeout`, so that the error says
/// for whom.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long it waits before it looks again.
const PAUSE: Duration = Duration::from_millis(5);

/// The tables. `log` tells every change of the last revisions; a change without a value is a deletion.
const TABLES: &str = "
    CREATE TABLE meta (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        boot TEXT NOT NULL,
        revision INTEGER NOT NULL,
        floor INTEGER NOT NULL,
        log_rows INTEGER NOT NULL,
        log_bytes INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE entry (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE CHECK (path GLOB '/?*'),
        value BLOB NOT NULL,
        created INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        owner TEXT
    ) STRICT;
    CREATE INDEX entry_owner ON entry (owner) WHERE owner IS NOT NULL;
    CREATE TABLE session (
        id TEXT PRIMARY KEY,
        ttl_ms INTEGER NOT NULL,
        deadline_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX session_deadline ON session (deadline_ms);
    CREATE TABLE log (
        revision INTEGER NOT NULL,
        nth INTEGER NOT NULL,
        path TEXT NOT NULL CHECK (path GLOB '/?*'),
        value BLOB,
        created INTEGER NOT NULL,
        owner TEXT,
        PRIMARY KEY (revision, nth)
    ) STRICT, WITHOUT ROWID;
";

/// Which file a path meant when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> Result<Self> {
        let found =
            fs::metadata(path).map_err(|cause| error::system(&cause, "the store's file is not there"))?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// Where it is, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if the path leads to another file now: what is written to ours nobody else would see.
    pub(crate) fn ensure_same(&self) -> Result<()> {
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (self.device, self.inode) => Ok(()),
            _ => Err(error::replaced()),
        }
    }
}

/// A file that is open: one connection to write, one to read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) identity: Identity,
    pub(crate) presence: Presence,
    pub(crate) write: Connection,
    pub(crate) read: Connection,
}

/// Opens the file, and makes it if it is missing. Blocks.
pub(crate) fn open(settings: &Settings) -> Result<Opened> {
    let path = place(settings)?;
    open_at(&path, settings).map_err(|error| error.with_context("file", path.display()))
}

/// The absolute path of the file, links followed: SQLite's own files must be beside the same file for all.
fn place(settings: &Settings) -> Result<PathBuf> {
    let about = |cause: &std::io::Error, what| {
        error::system(cause, what).with_context("file", settings.path.display())
    };
    let asked =
        std::path::absolute(&settings.path).map_err(|cause| about(&cause, "not the path of a file"))?;
    let (Some(dir), Some(name)) = (asked.parent(), asked.file_name()) else {
        return Err(Error::config("not the path of a file").with_context("file", asked.display()));
    };
    if settings.own {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|cause| about(&cause, "the directory for the file cannot be made"))?;
    }
    let dir =
        fs::canonicalize(dir).map_err(|cause| about(&cause, "the directory of the file is not there"))?;
    host::refuse_shared(&dir)?;
    let path = dir.join(name);
    match fs::canonicalize(&path) {
        Ok(path) if path.is_file() => {
            // A link may lead elsewhere.
            host::refuse_shared(path.parent().unwrap_or(&dir))?;
            Ok(path)
        }
        Ok(path) => Err(Error::config("not a file").with_context("file", path.display())),
        Err(_) => Ok(path),
    }
}

fn open_at(path: &Path, settings: &Settings) -> Result<Opened> {
    let boot = host::boot_id()?;
    if path.exists() {
        // Before anything is written, also beside it.
        examine(path)?;
    }
    let presence = Presence::open(path)?;
    let until = Instant::now() + PATIENCE;
    let alone = enter(&presence, until)?;
    let mut write = connect(path, &presence, settings.synchronous)?;
    begin(&mut write, &boot)?;
    admit(&mut write, &presence, alone, &boot, settings, until)?;
    if end_due(&mut write, settings).map_err(Fault::into_error)? {
        presence.ring();
    }
    let read = connect(path, &presence, settings.synchronous)?;
    let identity = Identity::of(path)?;
    write.busy_timeout(Duration::ZERO).map_err(refused)?;
    Ok(Opened { identity, presence, write, read })
}

fn refused(error: rusqlite::Error) -> Error {
    classify(&error, During::Work)
}

/// Fails if the file is somebody else's. Changes nothing.
fn examine(path: &Path) -> Result<()> {
    let conn =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .and_then(|conn| conn.busy_timeout(PATIENCE).map(|()| conn))
            .map_err(refused)?;
    ensure_ours(&conn.unchecked_transaction().map_err(refused)?).map(|_| ())
}

/// Whether the tables are there; an error if they are another program's, or of a newer form.
///
/// In a transaction, or a file that somebody makes between two looks has no name yet and tables already.
fn ensure_ours(txn: &Transaction<'_>) -> Result<bool> {
    let number = |name| txn.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map_err(refused);
    let (application, schema) = (number("application_id")?, number("user_version")?);
    let tables: i64 =
        txn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).map_err(refused)?;
    match (application, schema) {
        (APPLICATION, SCHEMA) => Ok(true),
        (APPLICATION, newer) => {
            Err(Error::config("the file was written by a newer coord: use that version, or another file")
                .with_context("schema", newer))
        }
        (0, 0) if tables == 0 => Ok(false),
        _ => Err(Error::config("the file is a database of another program: name another file")),
    }
}

/// Says that the store is open here. `true` while nobody else can have it open.
fn enter(presence: &Presence, until: Instant) -> Result<bool> {
    while !presence.alone() {
        if presence.among_others() {
            return Ok(false);
        }
        // Somebody opens it for the first time since the boot.
        if Instant::now() > until {
            return Err(Error::unavailable("another process does not finish opening the file"));
        }
        std::thread::park_timeout(PAUSE);
    }
    Ok(true)
}

fn connect(path: &Path, presence: &Presence, synchronous: Synchronous) -> Result<Connection> {
    // A new file gets the permissions of the small one beside it: for this user alone.
    let uri = format!("file:{}?modeof={}", encoded(path)?, encoded(presence.path())?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let set_up = |conn: &Connection| {
        conn.busy_timeout(PATIENCE)?;
        conn.set_prepared_statement_cache_capacity(64);
        conn.pragma_update(None, "synchronous", synchronous.pragma())?;
        conn.pragma_update(None, "trusted_schema", false)?;
        // What a burst of large values made of it is given back.
        conn.pragma_update_and_check(None, "journal_size_limit", 16 << 20, |_| Ok(()))
    };
    let conn = Connection::open_with_flags(uri, flags).map_err(refused)?;
    set_up(&conn).map_err(refused)?;
    Ok(conn)
}

/// A path as part of a URI.
fn encoded(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| Error::config("the path of the file is not UTF-8"))?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match plain(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(out)
}

/// Makes the tables of a new file. Whoever comes second finds them.
fn begin(conn: &mut Connection, boot: &str) -> Result<()> {
    ensure_ours(&conn.unchecked_transaction().map_err(refused)?)?;
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(refused)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(Error::config("the file system cannot share memory, which SQLite's WAL needs")
            .with_context("journal_mode", mode));
    }
    let txn = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(refused)?;
    if ensure_ours(&txn)? {
        return Ok(());
    }
    // As large as no revision of an earlier file at this place, unless the wall clock was set back.
    let first = i64::try_from(host::wall_micros()).unwrap_or(0);
    let made = txn
        .execute_batch(TABLES)
        .and_then(|()| txn.execute("INSERT INTO meta VALUES (1, ?1, ?2, ?2, 0, 0)", (boot, first)))
        .and_then(|_| txn.pragma_update(None, "application_id", APPLICATION))
        .and_then(|()| txn.pragma_update(None, "user_version", SCHEMA));
    made.map_err(refused)?;
    txn.commit().map_err(|error| classify(&error, During::Commit))
}

/// Makes sure that the sessions in the file are of this boot.
fn admit(
    conn: &mut Connection,
    presence: &Presence,
    mut alone: bool,
    boot: &str,
    settings: &Settings,
    until: Instant,
) -> Result<()> {
    loop {
        let written: Option<String> =
            conn.query_row("SELECT boot FROM meta", [], |row| row.get(0)).optional().map_err(refused)?;
        let same = written.as_deref() == Some(boot);
        if alone && !same {
            // All who had it open are gone, and with them all sessions.
            new_boot(conn, boot, settings).map_err(Fault::into_error)?;
        }
        if alone || same {
            break;
        }
        // Either others are about to do the same, or they live in another boot than we: in a container with a boot id of
        // its own, and their sessions end by a clock that may not be ours.
        if Instant::now() > until {
            return Err(Error::config(
                "the file is open in a process that has another boot id: a container with one of its own cannot share a \
                 file with the host",
            ));
        }
        std::thread::park_timeout(PAUSE);
        alone = enter(presence, until)?;
    }
    // Between being alone and being one of many, another may be alone for a moment.
    while !presence.among_others() {
        if Instant::now() > until {
            return Err(error::busy());
        }
        std::thread::park_timeout(PAUSE);
    }
    Ok(())
}

/// The host was booted: all sessions are over, and history begins anew, since a power cut may have taken the last
/// commits of a store that does not wait for the disk.
fn new_boot(conn: &mut Connection, boot: &str, settings: &Settings) -> Result<(), Fault> {
    let txn = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut state = State::load(&txn, 0, Limit::new(settings))?;
    state.end_all_sessions()?;
    state.restart_history(host::wall_micros())?;
    state.save()?;
    txn.execute("UPDATE meta SET boot = ?1", [boot])?;
    txn.commit()?;
    Ok(())
}

/// Ends the sessions that are due; whether there were any. Before anything is read here: a process that is gone before its
/// first look at the sessions of others would show what the dead left, and so would all that come after it.
fn end_due(conn: &mut Connection, settings: &Settings) -> Result<bool, Fault> {
    let now = BootClock::new().now_ms();
    if query::next_deadline(conn)?.is_none_or(|next| next > now) {
        return Ok(false);
    }
    let txn = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut state = State::load(&txn, now, Limit::new(settings))?;
    state.end_due_sessions()?;
    state.save()?;
    txn.commit()?;
    Ok(true)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
