//! Reading a whole directory at one revision, in pieces that keep the scripts short.

use std::collections::BTreeMap;

use bytes::Bytes;
use coord_api::{Child, Dir, Entry, Error, Key, Listing, Result, Revision, kit::Change};
use redis::Value;
use tokio::time::Instant;

use crate::{
    conn::{Conn, RESPONSE},
    error::is_stateless,
    line::{self, child},
    record::{Batch, array, bytes, entry, malformed, number, revision, stored_key, text},
    script::{self, Script},
};

/// Names that one call lists; directories with more are read in pages.
const NAMES_MAX: usize = 1000;
/// Paths of one page.
const PAGE: usize = 1000;
/// Bytes of records of one page, about.
const PAGE_BYTES: usize = 1 << 20;
/// Entries of the log of one page.
pub(crate) const HISTORY: usize = 256;
/// How often a reading starts over because the log was trimmed meanwhile.
const ATTEMPTS: usize = 5;

/// Calls a script that reads. A namespace that was flushed is begun again first.
pub(crate) async fn read(
    conn: &Conn,
    script: &Script,
    args: impl Fn(&mut redis::Cmd) + Send + Sync,
    until: Instant,
) -> Result<Value> {
    match conn.read(script, &args, until).await {
        Err(error) if is_stateless(&error) => {
            conn.tick(until).await?;
            conn.read(script, &args, until).await
        }
        result => result,
    }
}

/// The names in a directory.
pub(crate) async fn names(conn: &Conn, dir: &Dir, until: Instant) -> Result<Listing> {
    let prefix = dir.prefix();
    let reply = read(conn, &script::NAMES, |call| _ = call.arg(&prefix).arg(NAMES_MAX), until).await?;
    let [at, all, names] = parts(reply)?;
    if number(&all)? == 1 {
        return Ok(Listing::new(children(dir, names)?, Revision::new(revision(&at)?)));
    }
    let found = whole(conn, dir, 0, until).await?;
    let keys = found.records.keys().filter_map(|path| child(dir, path));
    Ok(Listing::new(line::children(keys), Revision::new(found.revision)))
}

/// The children that a script named.
pub(crate) fn children(dir: &Dir, names: Value) -> Result<Vec<Child>> {
    // A name that is not UTF-8 cannot be a key here: whoever wrote it, it is not shown.
    let names = array(names)?.into_iter().filter_map(|name| text(name).ok());
    Ok(line::children(names.filter_map(|name| child(dir, &name))))
}

/// Everything in a directory and below.
pub(crate) struct Snapshot {
    pub(crate) revision: Revision,
    pub(crate) entries: Vec<Entry>,
    /// There are names whose records cannot be read: they are not among the entries.
    pub(crate) left_out: bool,
}

/// Reads everything in a directory and below.
pub(crate) async fn snapshot(conn: &Conn, dir: &Dir) -> Result<Snapshot> {
    let until = Instant::now() + 30 * RESPONSE;
    let found = whole(conn, dir, PAGE_BYTES, until).await?;
    let left_out = found.records.values().any(Option::is_none);
    let entries = found.records.into_values().flatten().collect();
    Ok(Snapshot { revision: Revision::new(found.revision), entries, left_out })
}

struct Whole {
    revision: u64,
    /// By path; `None` where the record was not asked for or cannot be read.
    records: BTreeMap<String, Option<Entry>>,
}

async fn whole(conn: &Conn, dir: &Dir, page_bytes: usize, until: Instant) -> Result<Whole> {
    for _ in 0..ATTEMPTS {
        let (first, mut found) = pages(conn, dir, page_bytes, until).await?;
        if first == found.revision || catch_up(conn, dir, first, &mut found, until).await? {
            return Ok(found);
        }
    }
    Err(Error::unavailable("the directory changes faster than it can be read: raise log_max")
        .with_context("dir", dir))
}

/// All pages, with the revision of the first; that of the last is the result's.
async fn pages(conn: &Conn, dir: &Dir, page_bytes: usize, until: Instant) -> Result<(u64, Whole)> {
    let (prefix, mut after) = (dir.prefix(), Bytes::new());
    let (mut first, mut records) = (None, BTreeMap::new());
    loop {
        let args = |call: &mut redis::Cmd| _ = call.arg(&prefix).arg(&*after).arg(PAGE).arg(page_bytes);
        let mut reply = array(read(conn, &script::PAGE, args, until).await?)?.into_iter();
        let (Some(at), Some(end)) = (reply.next(), reply.next()) else { return Err(bad_page()) };
        let (at, end) = (revision(&at)?, number(&end)? == 1);
        while let (Some(path), Some(record)) = (reply.next(), reply.next()) {
            after = Bytes::from(bytes(path)?);
            let Some(key) = stored_key(&after) else { continue };
            let path = key.as_str().to_owned();
            let record = match record {
                Value::Nil => None,
                record => {
                    entry(key, bytes(record)?).inspect_err(|error| tracing::warn!(%error, "left out")).ok()
                }
            };
            records.insert(path, record);
        }
        let first = *first.get_or_insert(at);
        if end {
            return Ok((first, Whole { revision: at, records }));
        }
    }
}

/// Applies what changed since the first page: what each page shows is then as of one moment. `false` if the log no
/// longer has it.
async fn catch_up(conn: &Conn, dir: &Dir, first: u64, found: &mut Whole, until: Instant) -> Result<bool> {
    let (mut at, goal) = (first, found.revision);
    while at < goal {
        let (_, batches) = history(conn, at, until).await?;
        for batch in batches {
            let (true, Some(changes)) = (batch.previous == at, batch.changes) else { return Ok(false) };
            at = batch.revision;
            for change in changes {
                match change {
                    Change::Put(entry) if dir.contains(&entry.key) => {
                        found.records.insert(entry.key.as_str().to_owned(), Some(entry));
                    }
                    Change::Delete(key) => drop(found.records.remove(key.as_str())),
                    Change::Put(_) => {}
                }
            }
        }
    }
    found.revision = at;
    Ok(true)
}

/// Entries of the log behind `after`, and the revision of the store.
///
/// # Errors
/// Also malformed if there are none although the revision moved on.
pub(crate) async fn history(conn: &Conn, after: u64, until: Instant) -> Result<(u64, Vec<Batch>)> {
    let reply = read(conn, &script::HISTORY, |call| _ = call.arg(after).arg(HISTORY), until).await?;
    let [at, entries] = parts(reply)?;
    let at = revision(&at)?;
    let batches: Vec<_> = array(entries)?.into_iter().map(Batch::read).collect::<Result<_>>()?;
    // Trimmed away altogether: one that follows nothing says so.
    if batches.is_empty() && at != after {
        return Ok((at, vec![Batch { previous: u64::MAX, revision: at, changes: None }]));
    }
    Ok((at, batches))
}

/// Whether `key` is a child or below one: what a snapshot of `dir` holds.
pub(crate) fn concerns(dir: &Dir, change: &Change) -> bool {
    let key: &Key = match change {
        Change::Put(entry) => &entry.key,
        Change::Delete(key) => key,
    };
    dir.contains(key)
}

fn parts<const N: usize>(reply: Value) -> Result<[Value; N]> {
    array(reply)?.try_into().map_err(|_| bad_page())
}

fn bad_page() -> Error {
    malformed("a reply of the server has another number of parts")
}
