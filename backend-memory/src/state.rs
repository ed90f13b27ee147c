//! The data, and how a transaction changes it.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use coord_api::{
    Check, Child, Dir, Entry, Error, Failed, Key, Lifetime, Listing, Meta, Nonce, Op, OrderedCreate,
    Rejection, Result, Revision, SessionId, Tag, Txn, Version, Written,
    kit::{Change, Names, Rank},
};

use crate::{log::Log, session::Row};

/// Everything the store knows; always used under its lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) revision: Revision,
    pub(crate) entries: BTreeMap<Key, Entry>,
    names: Names,
    /// When the set of names in a directory last changed.
    children_changed: BTreeMap<Dir, Revision>,
    pub(crate) sessions: HashMap<SessionId, Row>,
    pub(crate) next_session: u64,
    pub(crate) log: Log,
    pub(crate) observer: Option<Observer>,
}

/// Is told of every change: its revision, and the session whose end made it.
type Observe = dyn Fn(Revision, &[Change], Option<&SessionId>) + Send;

/// Whoever is told of every change.
pub(crate) struct Observer(pub(crate) Box<Observe>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

impl State {
    pub(crate) fn new(first: Revision) -> Self {
        Self {
            revision: first,
            entries: BTreeMap::new(),
            names: Names::new(order),
            children_changed: BTreeMap::new(),
            sessions: HashMap::new(),
            next_session: 1,
            log: Log::new(first),
            observer: None,
        }
    }

    /// The data alone.
    pub(crate) fn without_sessions(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            children_changed: self.children_changed.clone(),
            ..Self::new(self.revision)
        }
    }

    /// All keys in `dir` and below.
    pub(crate) fn below<'s>(&'s self, dir: &'s Dir) -> impl Iterator<Item = &'s Entry> {
        let first = Key::from_store(&dir.prefix());
        self.entries.range(first..).map(|(_, entry)| entry).take_while(|entry| dir.contains(&entry.key))
    }

    pub(crate) fn listing(&mut self, dir: &Dir) -> Listing {
        let children = self.names.listing(dir, &self.entries);
        Listing::new(children, self.children_changed(dir))
    }

    pub(crate) fn children_changed(&self, dir: &Dir) -> Revision {
        self.children_changed.get(dir).copied().unwrap_or(Revision::ZERO)
    }

    /// Which condition of `txn` does not hold, if any.
    pub(crate) fn rejection(&self, txn: &Txn) -> Option<Rejection> {
        let check = txn.checks().iter().position(|check| !self.holds(check)).map(Failed::Check);
        let failed = check.or_else(|| txn.ops().iter().position(|op| !self.expected(op)).map(Failed::Op));
        failed.map(|failed| Rejection::new(Some(failed)))
    }

    fn holds(&self, check: &Check) -> bool {
        let meta = self.entries.get(check.key()).map(|entry| &entry.meta);
        match check {
            Check::Absent(_) => meta.is_none(),
            Check::Exists(_) => meta.is_some(),
            Check::Version(_, version) => meta.is_some_and(|meta| meta.version == *version),
            Check::Created(_, created) => meta.is_some_and(|meta| meta.created == *created),
            _ => false,
        }
    }

    fn expected(&self, op: &Op) -> bool {
        match op {
            Op::Create { key, .. } => !self.entries.contains_key(key),
            Op::Update { key, .. } | Op::Delete { key } => self.entries.contains_key(key),
            _ => true,
        }
    }

    /// The leaf rule: no key is an ancestor of another, also not of one made in the same transaction.
    pub(crate) fn check_leaves(&self, ops: &[Op]) -> Result<()> {
        let made: Vec<&Key> = ops.iter().filter(|op| !matches!(op, Op::Delete { .. })).map(Op::key).collect();
        for key in &made {
            let dir = key.as_dir();
            let made_below = || made.iter().copied().find(|other| dir.contains(other));
            let below = self.below(&dir).next().map(|entry| &entry.key);
            if let Some(other) = below.or_else(made_below) {
                return Err(leaf_rule(key, other));
            }
            self.check_above(key)?;
        }
        Ok(())
    }

    /// The half of the leaf rule that concerns the keys above one that is made.
    fn check_above(&self, key: &Key) -> Result<()> {
        let mut above = key.parent();
        while !above.is_root() {
            let parent = Key::from_store(above.as_str());
            if self.entries.contains_key(&parent) {
                return Err(leaf_rule(key, &parent));
            }
            above = parent.parent();
        }
        Ok(())
    }

    /// Applies the writes of a transaction at one new revision.
    pub(crate) fn apply(
        &mut self,
        ops: Vec<Op>,
        owner: Option<&SessionId>,
    ) -> (Vec<Option<Written>>, Vec<Change>) {
        let revision = self.advance();
        let mut written = Vec::with_capacity(ops.len());
        let mut changes = Vec::with_capacity(ops.len());
        for op in ops {
            match op {
                Op::Create { key, value, lifetime } => {
                    let owner = owner.filter(|_| lifetime == Lifetime::Session).cloned();
                    changes.push(self.insert(key, value, owner));
                    written.push(Some(Written::new(revision, version_at(revision))));
                }
                Op::Update { key, value } | Op::Put { key, value } => {
                    changes.push(self.insert(key, value, None));
                    written.push(Some(Written::new(revision, version_at(revision))));
                }
                Op::Delete { key } => {
                    changes.extend(self.remove(&key));
                    written.push(None);
                }
                _ => written.push(None),
            }
        }
        self.record(revision, &changes, None);
        (written, changes)
    }

    /// The entry that an earlier try with the same nonce made.
    pub(crate) fn find_place(&self, req: &OrderedCreate) -> Option<&Entry> {
        self.entries.get(&place_key(req))
    }

    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the line would be below a key.
    pub(crate) fn create_place(
        &mut self,
        req: OrderedCreate,
        owner: &SessionId,
    ) -> Result<(Entry, Vec<Change>)> {
        let key = place_key(&req);
        self.check_above(&key)?;
        let revision = self.advance();
        let owner = (req.lifetime == Lifetime::Session).then(|| owner.clone());
        let entry = Entry::new(
            key.clone(),
            req.value.clone(),
            Meta::new(revision, revision, version_at(revision), owner.clone()),
        );
        let changes = vec![self.insert(key, req.value, owner)];
        self.record(revision, &changes, None);
        Ok((entry, changes))
    }

    /// Ends a session: all its keys go at one revision.
    pub(crate) fn end_session(&mut self, id: &SessionId) -> Option<(Row, Vec<Change>)> {
        let row = self.sessions.remove(id)?;
        let owned = |entry: &&Entry| entry.meta.owner.as_ref() == Some(id);
        let doomed: Vec<Key> = self.entries.values().filter(owned).map(|entry| entry.key.clone()).collect();
        let mut changes = Vec::with_capacity(doomed.len());
        if !doomed.is_empty() {
            let revision = self.advance();
            for key in doomed {
                changes.extend(self.remove(&key));
            }
            self.record(revision, &changes, Some(id));
        }
        Some((row, changes))
    }

    fn record(&mut self, revision: Revision, changes: &[Change], ended: Option<&SessionId>) {
        if let Some(observer) = &self.observer {
            (observer.0)(revision, changes, ended);
        }
        self.log.push(revision, changes.to_vec());
    }

    fn advance(&mut self) -> Revision {
        self.revision = Revision::new(self.revision.get() + 1);
        self.revision
    }

    fn insert(&mut self, key: Key, value: Bytes, owner: Option<SessionId>) -> Change {
        let now = self.revision;
        let old = self.entries.get(&key).map(|old| (old.meta.created, old.meta.owner.clone()));
        let is_new = old.is_none();
        let (created, owner) = old.unwrap_or((now, owner));
        let entry = Entry::new(key.clone(), value, Meta::new(created, now, version_at(now), owner));
        if is_new {
            let dirs = self.touch_dirs(&key);
            self.names.insert(&dirs, &entry);
        }
        self.entries.insert(key, entry.clone());
        Change::Put(entry)
    }

    fn remove(&mut self, key: &Key) -> Option<Change> {
        let entry = self.entries.remove(key)?;
        let dirs = self.touch_dirs(key);
        self.names.remove(&dirs, &entry);
        Some(Change::Delete(entry.key))
    }

    /// The directories that `key` is in, whose names change now.
    fn touch_dirs(&mut self, key: &Key) -> Vec<Dir> {
        let dirs = dirs_above(key);
        self.children_changed.extend(dirs.iter().map(|dir| (dir.clone(), self.revision)));
        dirs
    }
}

fn leaf_rule(key: &Key, other: &Key) -> Error {
    Error::invalid("a key cannot be above or below another key (the leaf rule)")
        .with_context("key", key)
        .with_context("other", other)
}

/// Opaque and different after every write, also after a deletion and a new creation.
const fn version_at(revision: Revision) -> Version {
    Version::new(revision.get())
}

/// The directory of `key` and all above, up to the root.
pub(crate) fn dirs_above(key: &Key) -> Vec<Dir> {
    let mut dirs = vec![key.parent()];
    while let Some(last) = dirs.last().filter(|dir| !dir.is_root()) {
        dirs.push(Key::from_store(last.as_str()).parent());
    }
    dirs
}

/// Places are named by nonce and tag; their order is the revision that created them.
fn place_key(req: &OrderedCreate) -> Key {
    Key::from_store(&format!("{}{}:{}", req.dir.prefix(), req.tag, req.nonce))
}

fn parse_place(key: &Key) -> Option<(Tag, Nonce)> {
    let (tag, nonce) = key.name().rsplit_once(':')?;
    Some((Tag::new(tag.to_owned()).ok()?, Nonce::from_uuid(nonce)?))
}

fn order(key: &Key, created: Revision) -> (Rank, Child) {
    match parse_place(key) {
        Some((tag, nonce)) => (Rank::Place(created.get()), Child::new(key.clone(), Some(tag), Some(nonce))),
        None => (Rank::Other, Child::new(key.clone(), None, None)),
    }
}
