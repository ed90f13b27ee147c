//! What a transaction does to the tables.

use bytes::Bytes;
use coord_api::{
    Check, Commit, Dir, Entry, Error, Failed, Key, Lifetime, Meta, Op, Ordered, OrderedCreate, Rejection,
    Revision, SessionId, Txn, TxnOutcome, Version, Written,
};
use rusqlite::{Connection, OptionalExtension};

use crate::{error::Fault, line, query, settings::Settings};

/// Bytes of values that the log keeps.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// How much the log keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    rows: u64,
}

impl Limit {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { rows: settings.log_max.into() }
    }
}

/// The store inside of one write transaction. Many callers' jobs run in one, each at a revision of its own.
///
/// A job that is refused has written nothing: everything is judged before the first write.
#[derive(Debug)]
pub(crate) struct State<'c> {
    conn: &'c Connection,
    now_ms: i64,
    limit: Limit,
    revision: u64,
    floor: u64,
    rows: u64,
    bytes: u64,
    /// The changes so far at this revision.
    nth: u64,
    loaded: u64,
}

impl<'c> State<'c> {
    /// The state as the transaction finds it.
    pub(crate) fn load(conn: &'c Connection, now_ms: i64, limit: Limit) -> rusqlite::Result<Self> {
        let mut found = conn.prepare_cached("SELECT revision, floor, log_rows, log_bytes FROM meta")?;
        found.query_row([], |row| {
            let revision = row.get(0)?;
            let (floor, rows, bytes) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(Self { conn, now_ms, limit, revision, floor, rows, bytes, nth: 0, loaded: revision })
        })
    }

    /// Whether anything changed that watchers are told of.
    pub(crate) const fn moved(&self) -> bool {
        self.revision != self.loaded
    }

    /// Writes down where the history stands, and cuts the log.
    pub(crate) fn save(&mut self) -> rusqlite::Result<()> {
        if !self.moved() {
            return Ok(());
        }
        self.trim()?;
        let mut save = self
            .conn
            .prepare_cached("UPDATE meta SET revision = ?1, floor = ?2, log_rows = ?3, log_bytes = ?4")?;
        save.execute((self.revision, self.floor, self.rows, self.bytes)).map(|_| ())
    }

    /// Cuts the log to its limit, in steps: whole revisions, the oldest first.
    fn trim(&mut self) -> rusqlite::Result<()> {
        if self.rows <= self.limit.rows + self.limit.rows / 10 && self.bytes <= LOG_BYTES_MAX {
            return Ok(());
        }
        let mut oldest = self.conn.prepare_cached(
            "SELECT revision, count(*), sum(coalesce(length(value), 0)) FROM log GROUP BY revision ORDER BY revision",
        )?;
        let mut oldest = oldest.query([])?;
        while self.rows > self.limit.rows || self.bytes > LOG_BYTES_MAX / 2 {
            let Some(row) = oldest.next()? else { break };
            self.floor = row.get(0)?;
            self.rows = self.rows.saturating_sub(row.get(1)?);
            self.bytes = self.bytes.saturating_sub(row.get(2)?);
        }
        let mut cut = self.conn.prepare_cached("DELETE FROM log WHERE revision <= ?1")?;
        cut.execute([self.floor]).map(|_| ())
    }

    /// Forgets the history and goes on at a revision that no earlier life of the store can have reached.
    pub(crate) fn restart_history(&mut self, at_least: u64) -> rusqlite::Result<()> {
        self.revision = (self.revision + 1).max(at_least);
        (self.floor, self.rows, self.bytes) = (self.revision, 0, 0);
        self.conn.execute("DELETE FROM log", []).map(|_| ())
    }

    // ---- sessions ------------------------------------------------------------------------------------------------

    /// Opens a session, or finds it again after a lost reply.
    pub(crate) fn open_session(&mut self, id: &SessionId, ttl_ms: i64) -> rusqlite::Result<()> {
        let mut open = self.conn.prepare_cached("INSERT OR REPLACE INTO session VALUES (?1, ?2, ?3)")?;
        open.execute((id.as_str(), ttl_ms, self.now_ms.saturating_add(ttl_ms))).map(|_| ())
    }

    /// Gives a session its ttl again.
    pub(crate) fn renew_session(&mut self, id: &SessionId) -> Result<(), Fault> {
        let mut renew =
            self.conn.prepare_cached("UPDATE session SET deadline_ms = ?2 + ttl_ms WHERE id = ?1")?;
        match renew.execute((id.as_str(), self.now_ms))? {
            0 => Err(over(id)),
            _ => Ok(()),
        }
    }

    fn ensure_session(&self, id: &SessionId) -> Result<(), Fault> {
        let mut find = self.conn.prepare_cached("SELECT 1 FROM session WHERE id = ?1")?;
        if find.exists([id.as_str()])? { Ok(()) } else { Err(over(id)) }
    }

    /// Ends the sessions that are past their deadline, whosever they are. Done before anything else, so that no
    /// transaction sees what they owned.
    pub(crate) fn end_due_sessions(&mut self) -> rusqlite::Result<()> {
        for id in query::due(self.conn, self.now_ms)? {
            self.end_session(&id)?;
        }
        Ok(())
    }

    /// Ends every session: nobody can own one any more.
    pub(crate) fn end_all_sessions(&mut self) -> rusqlite::Result<()> {
        for id in query::due(self.conn, i64::MAX)? {
            self.end_session(&id)?;
        }
        Ok(())
    }

    /// Ends a session: all its keys go at one revision.
    pub(crate) fn end_session(&mut self, id: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached("DELETE FROM session WHERE id = ?1")?.execute([id])?;
        let mut owned = self.conn.prepare_cached("SELECT path FROM entry WHERE owner = ?1 ORDER BY path")?;
        let owned: Vec<String> = owned.query_map([id], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if !owned.is_empty() {
            self.advance();
            for path in owned {
                self.delete(&path)?;
            }
        }
        Ok(())
    }

    // ---- keys ----------------------------------------------------------------------------------------------------

    /// Carries out a transaction, at one new revision if it writes.
    pub(crate) fn commit(&mut self, txn: Txn, session: Option<&SessionId>) -> Result<TxnOutcome, Fault> {
        let owner = session.filter(|_| txn.needs_session());
        if let Some(id) = owner {
            self.ensure_session(id)?;
        }
        if let Some(failed) = self.failed(&txn)? {
            return Ok(TxnOutcome::Rejected(Rejection::new(Some(failed))));
        }
        self.ensure_leaves(txn.ops())?;
        let (_, ops) = txn.into_parts();
        if ops.is_empty() {
            return Ok(TxnOutcome::Committed(Commit::default()));
        }
        self.advance();
        let mut written = Vec::with_capacity(ops.len());
        for op in ops {
            written.push(match op {
                Op::Create { key, value, lifetime } => {
                    let owner = owner.filter(|_| lifetime == Lifetime::Session);
                    Some(self.insert(&key, &value, owner)?)
                }
                Op::Update { key, value } | Op::Put { key, value } => Some(self.write(&key, &value)?),
                Op::Delete { key } => {
                    self.delete(key.as_str())?;
                    None
                }
                // Refused before: see `ensure_known`.
                _ => None,
            });
        }
        Ok(TxnOutcome::Committed(Commit::new(written)))
    }

    /// Joins a line, or finds the place that an earlier try with the same nonce made; with the line, if it has at most
    /// `most` names.
    pub(crate) fn join(
        &mut self,
        req: &OrderedCreate,
        session: &SessionId,
        most: usize,
    ) -> Result<Ordered, Fault> {
        self.ensure_session(session)?;
        let key = line::place(req);
        let created = match query::meta(self.conn, &key)? {
            Some(meta) => meta.created,
            None => {
                self.ensure_leaf_below_none(&key)?;
                self.advance();
                let owner = (req.lifetime == Lifetime::Session).then_some(session);
                self.insert(&key, &req.value, owner)?.revision
            }
        };
        let line = query::listing(self.conn, &req.dir, Revision::new(self.revision), Some(most))?;
        Ok(Ordered::new(key, created, line))
    }

    /// Which condition does not hold, if any.
    fn failed(&self, txn: &Txn) -> rusqlite::Result<Option<Failed>> {
        for (nth, check) in txn.checks().iter().enumerate() {
            let meta = query::meta(self.conn, check.key())?;
            let holds = match check {
                Check::Absent(_) => meta.is_none(),
                Check::Exists(_) => meta.is_some(),
                Check::Version(_, version) => meta.is_some_and(|meta| meta.version == *version),
                Check::Created(_, created) => meta.is_some_and(|meta| meta.created == *created),
                _ => false,
            };
            if !holds {
                return Ok(Some(Failed::Check(nth)));
            }
        }
        for (nth, op) in txn.ops().iter().enumerate() {
            let wanted = match op {
                Op::Create { .. } => false,
                Op::Update { .. } | Op::Delete { .. } => true,
                _ => continue,
            };
            if query::meta(self.conn, op.key())?.is_some() != wanted {
                return Ok(Some(Failed::Op(nth)));
            }
        }
        Ok(None)
    }

    /// The leaf rule: no key is an ancestor of another, also not of one made in the same transaction.
    fn ensure_leaves(&self, ops: &[Op]) -> Result<(), Fault> {
        let mut made = Vec::new();
        for op in ops.iter().filter(|op| !matches!(op, Op::Delete { .. } | Op::Update { .. })) {
            if query::meta(self.conn, op.key())?.is_none() {
                made.push(op.key());
            }
        }
        for key in &made {
            let dir = key.as_dir();
            if let Some(other) = made.iter().find(|other| dir.contains(other)) {
                return Err(leaf_rule(key, other.as_str()));
            }
            let mut below =
                self.conn.prepare_cached("SELECT path FROM entry WHERE path > ?1 AND path < ?2 LIMIT 1")?;
            let found: Option<String> =
                below.query_row((dir.prefix(), line::end_of(&dir)), |row| row.get(0)).optional()?;
            if let Some(other) = found {
                return Err(leaf_rule(key, &other));
            }
            self.ensure_leaf_below_none(key)?;
        }
        Ok(())
    }

    /// The half of the leaf rule that concerns the keys above one that is made.
    fn ensure_leaf_below_none(&self, key: &Key) -> Result<(), Fault> {
        let mut above: Dir = key.parent();
        while !above.is_root() {
            let parent = Key::from_store(above.as_str());
            if query::meta(self.conn, &parent)?.is_some() {
                return Err(leaf_rule(key, parent.as_str()));
            }
            above = parent.parent();
        }
        Ok(())
    }

    // ---- writing -------------------------------------------------------------------------------------------------

    fn advance(&mut self) {
        self.revision += 1;
        self.nth = 0;
    }

    fn written(&self) -> Written {
        Written::new(Revision::new(self.revision), Version::new(self.revision))
    }

    fn insert(&mut self, key: &Key, value: &[u8], owner: Option<&SessionId>) -> rusqlite::Result<Written> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO entry (path, value, created, modified, owner) VALUES (?1, ?2, ?3, ?3, ?4)",
        )?;
        let owner = owner.map(SessionId::as_str);
        insert.execute((key.as_str(), value, self.revision, owner))?;
        self.record(key.as_str(), Some(value), self.revision, owner)?;
        Ok(self.written())
    }

    /// Changes the value and keeps the owner, or makes the key.
    fn write(&mut self, key: &Key, value: &[u8]) -> rusqlite::Result<Written> {
        let mut update = self.conn.prepare_cached(
            "UPDATE entry SET value = ?2, modified = ?3 WHERE path = ?1 RETURNING created, owner",
        )?;
        let found: Option<(u64, Option<String>)> = update
            .query_row((key.as_str(), value, self.revision), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match found {
            None => self.insert(key, value, None),
            Some((created, owner)) => {
                self.record(key.as_str(), Some(value), created, owner.as_deref())?;
                Ok(self.written())
            }
        }
    }

    fn delete(&mut self, path: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached("DELETE FROM entry WHERE path = ?1")?.execute([path])?;
        self.record(path, None, self.revision, None)
    }

    fn record(
        &mut self,
        path: &str,
        value: Option<&[u8]>,
        created: u64,
        owner: Option<&str>,
    ) -> rusqlite::Result<()> {
        let mut record = self.conn.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        record.execute((self.revision, self.nth, path, value, created, owner))?;
        self.nth += 1;
        self.rows += 1;
        self.bytes += value.map_or(0, |value| u64::try_from(value.len()).unwrap_or(u64::MAX));
        Ok(())
    }
}

/// Refuses a kind of check or write that this backend does not know, before anything is begun.
pub(crate) fn ensure_known(txn: &Txn) -> coord_api::Result<()> {
    let checks = txn.checks().iter().all(|check| {
        matches!(check, Check::Absent(_) | Check::Exists(_) | Check::Version(..) | Check::Created(..))
    });
    let ops = txn
        .ops()
        .iter()
        .all(|op| matches!(op, Op::Create { .. } | Op::Update { .. } | Op::Put { .. } | Op::Delete { .. }));
    if checks && ops {
        return Ok(());
    }
    Err(Error::invalid("a kind of check or write that this backend does not know"))
}

fn over(id: &SessionId) -> Fault {
    Fault::Refused(Error::session_lost("the session is over: open a new one").with_context("session", id))
}

fn leaf_rule(key: &Key, other: &str) -> Fault {
    let error = Error::invalid("a key cannot be above or below another key (the leaf rule)");
    Fault::Refused(error.with_context("key", key).with_context("other", other))
}

/// An entry of the tables. Opaque and different after every write: the version is the last revision.
pub(crate) fn entry(key: Key, value: Vec<u8>, created: u64, modified: u64, owner: Option<String>) -> Entry {
    Entry::new(key, Bytes::from(value), meta(created, modified, owner))
}

pub(crate) fn meta(created: u64, modified: u64, owner: Option<String>) -> Meta {
    Meta::new(
        Revision::new(created),
        Revision::new(modified),
        Version::new(modified),
        owner.map(SessionId::new),
    )
}
