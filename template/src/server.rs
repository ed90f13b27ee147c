//! Stands for your server: a map with revisions, conditional transactions, sessions and a feed of changes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use coord_api::kit::Runtime;
use tokio::{sync::broadcast, time::Instant};

/// How often sessions that are due are looked for.
const REAPING: Duration = Duration::from_millis(100);
/// How many changes a subscriber may lag behind before it has a gap.
const CHANGES_KEPT: usize = 1024;

/// A key as the server keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) value: Bytes,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    pub(crate) session: Option<u64>,
}

/// The changes of one revision; a key without a row was deleted.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) revision: u64,
    pub(crate) changes: Vec<(String, Option<Row>)>,
}

/// What a request expects of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expect {
    Absent,
    Present,
    Modified(u64),
    Created(u64),
}

/// What a request does with a key.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// Keeps the session of a key that is there.
    Put {
        key: String,
        value: Bytes,
        session: Option<u64>,
    },
    Delete {
        key: String,
    },
}

/// The answer to a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) revision: u64,
    /// Which condition did not hold; nothing was written then.
    pub(crate) failed: Option<usize>,
    /// What stands below the prefix that was asked for, afterwards.
    pub(crate) rows: Vec<Row>,
}

/// The session of a request is not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoSession;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) revision: u64,
    rows: BTreeMap<String, Row>,
    sessions: HashMap<u64, (Duration, Instant)>,
    changes: broadcast::Sender<Arc<Batch>>,
}

#[derive(Debug)]
pub(crate) struct Server(Mutex<State>);

/// One counter for all servers of the process: a server that is made anew must not begin below its former self.
fn next() -> u64 {
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    COUNTER.fetch_add(1, Ordering::Relaxed)
}

impl Server {
    /// The server of this name; it goes with its last client.
    pub(crate) fn named(name: &str, runtime: &Runtime) -> Arc<Self> {
        static SERVERS: OnceLock<Mutex<HashMap<String, Weak<Server>>>> = OnceLock::new();
        let mut servers = SERVERS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(name).and_then(Weak::upgrade) {
            return server;
        }
        let server = Arc::new(Self(Mutex::new(State {
            revision: next(),
            rows: BTreeMap::new(),
            sessions: HashMap::new(),
            changes: broadcast::Sender::new(CHANGES_KEPT),
        })));
        servers.insert(name.to_owned(), Arc::downgrade(&server));
        let reaped = Arc::downgrade(&server);
        runtime.spawn(async move {
            while let Some(server) = reaped.upgrade() {
                drop(server.state());
                drop(server);
                tokio::time::sleep(REAPING).await;
            }
        });
        server
    }

    /// The state, with the sessions that are due gone.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = |(id, (_, until)): (&u64, &(Duration, Instant))| (*until <= now).then_some(*id);
        let due: Vec<u64> = state.sessions.iter().filter_map(due).collect();
        due.into_iter().for_each(|id| state.end_session(id));
        state
    }
}

impl State {
    pub(crate) fn get(&self, key: &str) -> Option<Row> {
        self.rows.get(key).cloned()
    }

    pub(crate) fn below(&self, prefix: &str) -> Vec<Row> {
        let from = self.rows.range(prefix.to_owned()..);
        from.take_while(|(key, _)| key.starts_with(prefix)).map(|(_, row)| row.clone()).collect()
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<Batch>> {
        self.changes.subscribe()
    }

    /// All conditions are judged, then all is written at one revision, or nothing.
    pub(crate) fn transact(
        &mut self,
        expected: &[(String, Expect)],
        writes: Vec<Write>,
        read: Option<&str>,
    ) -> Result<Answer, NoSession> {
        let failed = expected.iter().position(|(key, expect)| !self.holds(key, *expect));
        if failed.is_none() && !writes.is_empty() {
            let gone = |id: &u64| !self.sessions.contains_key(id);
            if writes.iter().any(|w| matches!(w, Write::Put { session: Some(id), .. } if gone(id))) {
                return Err(NoSession);
            }
            let revision = next();
            let changes = writes.into_iter().map(|write| self.write(write, revision)).collect();
            self.publish(revision, changes);
        }
        let rows = read.map(|prefix| self.below(prefix)).unwrap_or_default();
        Ok(Answer { revision: self.revision, failed, rows })
    }

    fn holds(&self, key: &str, expect: Expect) -> bool {
        let row = self.rows.get(key);
        match expect {
            Expect::Absent => row.is_none(),
            Expect::Present => row.is_some(),
            Expect::Modified(at) => row.is_some_and(|row| row.modified == at),
            Expect::Created(at) => row.is_some_and(|row| row.created == at),
        }
    }

    fn write(&mut self, write: Write, revision: u64) -> (String, Option<Row>) {
        match write {
            Write::Put { key, value, session } => {
                let old = self.rows.get(&key);
                let (created, session) = old.map_or((revision, session), |old| (old.created, old.session));
                let row = Row { key: key.clone(), value, created, modified: revision, session };
                self.rows.insert(key.clone(), row.clone());
                (key, Some(row))
            }
            Write::Delete { key } => {
                self.rows.remove(&key);
                (key, None)
            }
        }
    }

    fn publish(&mut self, revision: u64, changes: Vec<(String, Option<Row>)>) {
        self.revision = revision;
        // An error means that nobody listens.
        let _ = self.changes.send(Arc::new(Batch { revision, changes }));
    }

    pub(crate) fn open_session(&mut self, ttl: Duration) -> u64 {
        let id = next();
        self.sessions.insert(id, (ttl, Instant::now() + ttl));
        id
    }

    /// Whether the session is still there.
    pub(crate) fn renew_session(&mut self, id: u64) -> bool {
        let Some((ttl, until)) = self.sessions.get_mut(&id) else { return false };
        *until = Instant::now() + *ttl;
        true
    }

    /// All keys of a session go at one revision.
    pub(crate) fn end_session(&mut self, id: u64) {
        self.sessions.remove(&id);
        let owned = self.rows.values().filter(|row| row.session == Some(id));
        let keys: Vec<String> = owned.map(|row| row.key.clone()).collect();
        if keys.is_empty() {
            return;
        }
        let revision = next();
        let changes = keys.into_iter().map(|key| self.write(Write::Delete { key }, revision)).collect();
        self.publish(revision, changes);
    }
}
