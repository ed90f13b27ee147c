//! Reading the tables. Several reads that must agree need a transaction around them.

use coord_api::{
    Child, Dir, Entry, Key, Listing, Meta, Revision,
    kit::{Change, Rank, in_order},
};
use rusqlite::{Connection, OptionalExtension, Row, types::Type};

use crate::{
    line::{end_of, order},
    state::{entry, meta as meta_of},
};

/// Where the history stands: the newest revision, and the one behind which all changes are in the log.
pub(crate) fn history(conn: &Connection) -> rusqlite::Result<(Revision, Revision)> {
    let mut find = conn.prepare_cached("SELECT revision, floor FROM meta")?;
    find.query_row([], |row| Ok((Revision::new(row.get(0)?), Revision::new(row.get(1)?))))
}

/// A number that differs once another connection has committed.
pub(crate) fn data_version(conn: &Connection) -> rusqlite::Result<i64> {
    conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// The sessions that are past their deadline.
pub(crate) fn due(conn: &Connection, now_ms: i64) -> rusqlite::Result<Vec<String>> {
    let mut find = conn.prepare_cached("SELECT id FROM session WHERE deadline_ms <= ?1 ORDER BY id")?;
    find.query_map([now_ms], |row| row.get(0))?.collect()
}

/// The deadline that comes first.
pub(crate) fn next_deadline(conn: &Connection) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT min(deadline_ms) FROM session")?.query_row([], |row| row.get(0))
}

/// A key without its value.
pub(crate) fn meta(conn: &Connection, key: &Key) -> rusqlite::Result<Option<Meta>> {
    let mut find = conn.prepare_cached("SELECT created, modified, owner FROM entry WHERE path = ?1")?;
    find.query_row([key.as_str()], |row| Ok(meta_of(row.get(0)?, row.get(1)?, row.get(2)?))).optional()
}

/// A key with its value.
pub(crate) fn get(conn: &Connection, key: &Key) -> rusqlite::Result<Option<Entry>> {
    let mut find =
        conn.prepare_cached("SELECT value, created, modified, owner FROM entry WHERE path = ?1")?;
    find.query_row([key.as_str()], |row| {
        Ok(entry(key.clone(), row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })
    .optional()
}

/// The path in a column. Whoever writes into the file by other means may write what is none.
fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<Key> {
    let path: String = row.get(column)?;
    match path.starts_with('/') && path.len() > 1 {
        true => Ok(Key::from_store(&path)),
        false => Err(rusqlite::Error::InvalidColumnType(column, path, Type::Text)),
    }
}

/// The names in a directory, at the revision of the transaction; `None` if there are more than `most`.
pub(crate) fn listing(
    conn: &Connection,
    dir: &Dir,
    at: Revision,
    most: Option<usize>,
) -> rusqlite::Result<Option<Listing>> {
    let mut find =
        conn.prepare_cached("SELECT path, created FROM entry WHERE path >= ?1 AND path < ?2 ORDER BY path")?;
    let (mut from, end) = (dir.prefix(), end_of(dir));
    let mut children = Vec::new();
    // From one directory below to what is behind it, not through it.
    'jump: loop {
        let mut rows = find.query((&from, &end))?;
        while let Some(row) = rows.next()? {
            let key = key(row, 0)?;
            let Some(child) = dir.child_towards(&key) else { continue };
            if most == Some(children.len()) {
                return Ok(None);
            }
            if child != key {
                from = end_of(&child.as_dir());
                children.push((Rank::Other, Child::new(child, None, None)));
                continue 'jump;
            }
            children.push(order(&key, Revision::new(row.get(1)?)));
        }
        return Ok(Some(Listing::new(in_order(children), at)));
    }
}

/// What was found. A row that others broke is left out with a warning: it must not keep a watch from going on.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub(crate) rows: Vec<T>,
    /// There was such a row.
    pub(crate) left_out: bool,
}

/// Everything in a directory and below.
pub(crate) fn below(conn: &Connection, dir: &Dir) -> rusqlite::Result<Found<Entry>> {
    let mut find = conn.prepare_cached(
        "SELECT path, value, created, modified, owner FROM entry WHERE path >= ?1 AND path < ?2 ORDER BY path",
    )?;
    let whole = |row: &Row<'_>| {
        let key = key(row, 0)?;
        Ok(entry(key, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    };
    let mut rows = find.query((dir.prefix(), end_of(dir)))?;
    let mut found = Found { rows: Vec::new(), left_out: false };
    while let Some(row) = rows.next()? {
        let entry = or_left_out(whole(row));
        found.left_out |= entry.is_none();
        found.rows.extend(entry);
    }
    Ok(found)
}

/// One revision, and what it changed.
pub(crate) type Step = (Revision, Vec<Change>);

/// What changed after a revision, one step a revision.
pub(crate) fn after(conn: &Connection, after: Revision) -> rusqlite::Result<Found<Step>> {
    let mut find = conn.prepare_cached(
        "SELECT revision, path, value, created, owner FROM log WHERE revision > ?1 ORDER BY revision, nth",
    )?;
    let change = |row: &Row<'_>, revision: u64| {
        let key = key(row, 1)?;
        Ok(match row.get::<_, Option<Vec<u8>>>(2)? {
            None => Change::Delete(key),
            Some(value) => Change::Put(entry(key, value, row.get(3)?, revision, row.get(4)?)),
        })
    };
    let mut rows = find.query([after.get()])?;
    let mut found: Found<Step> = Found { rows: Vec::new(), left_out: false };
    while let Some(row) = rows.next()? {
        let at: u64 = row.get(0)?;
        let Some(change) = or_left_out(change(row, at)) else {
            found.left_out = true;
            continue;
        };
        match found.rows.last_mut() {
            Some((last, changes)) if last.get() == at => changes.push(change),
            _ => found.rows.push((Revision::new(at), vec![change])),
        }
    }
    Ok(found)
}

fn or_left_out<T>(row: rusqlite::Result<T>) -> Option<T> {
    match row {
        Ok(whole) => Some(whole),
        Err(error) => {
            tracing::warn!(%error, "a row of the store is not of our form and is left out");
            None
        }
    }
}
