//! The one list of what happened, and the one clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use coord_api::{Entry, Key, Revision, SessionId, kit::Change};
use tokio::time::Instant;

use super::faults::Kind;
use crate::checkers::{
    History, What,
    facts::{Election, Fault, Line, Mode, Queue, Rendezvous, Session, Step, Stored, Why},
};

/// Which entries stand in a line, and for how much: name and mode.
pub(crate) type LineOf = fn(&Entry) -> Option<(String, Mode)>;

/// What is recorded of the store's side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger {
    /// Entries that stand in a line.
    pub(crate) line_of: LineOf,
    /// Whether every change of a key is recorded.
    pub(crate) changes: bool,
    /// Whether an entry may ask for something else later.
    pub(crate) modes_change: bool,
    /// Whether the lines are elections: an operator who deletes an entry deposes.
    pub(crate) elections: bool,
    /// Whether the lines are double barriers: whose entry goes with its session, or by hand, has given up its round.
    pub(crate) rounds: bool,
}

impl Ledger {
    /// Entries of lines, and nothing else.
    pub(crate) const fn line(line_of: LineOf) -> Self {
        Self { line_of, changes: false, modes_change: false, elections: false, rounds: false }
    }

    /// Every change.
    pub(crate) const fn changes() -> Self {
        Self { line_of: |_| None, changes: true, modes_change: false, elections: false, rounds: false }
    }
}

/// How much happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls to the store.
    pub calls: u64,
    /// Calls whose outcome the client does not know.
    pub unknown: u64,
    /// Faults that struck, by kind, in the order of [`Kind::ALL`].
    pub faults: [u64; Kind::ALL.len()],
    /// Writes to the fenced resource of the lock that came from a holder of the past, and were refused.
    pub refused_writes: u64,
    /// All writes to it.
    pub writes: u64,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    began: Instant,
    history: History,
    pub(crate) tally: Tally,
    ids: u64,
    /// What programs found that must not be.
    pub(crate) complaints: Vec<String>,
    ledger: Ledger,
    /// Entries of lines that are there, by key: line, revision, session.
    standing: BTreeMap<Key, (String, u64, u64)>,
    /// Takes of a queue whose item is in the hand of a client.
    in_hand: Vec<(u32, u64)>,
    /// The client of each session.
    clients: BTreeMap<u64, u32>,
    /// Sessions that the store has ended.
    ended: BTreeSet<u64>,
    /// The revision that created each entry that ever stood in a line. Keys of entries are never used twice.
    born: BTreeMap<Key, u64>,
    /// The largest token that the fenced resource has seen.
    resource: u128,
    /// Entries that an operator took from their owners, who cannot know it at once.
    disowned: BTreeSet<u64>,
    /// Whether an operator is at work: what is deleted now is disowned.
    pub(crate) operator: bool,
}

impl Recorder {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self {
            began: Instant::now(),
            history: History::new(),
            tally: Tally::default(),
            ids: 0,
            complaints: Vec::new(),
            ledger,
            standing: BTreeMap::new(),
            in_hand: Vec::new(),
            clients: BTreeMap::new(),
            ended: BTreeSet::new(),
            born: BTreeMap::new(),
            resource: 0,
            disowned: BTreeSet::new(),
            operator: false,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn record(&mut self, client: u32, what: impl Into<What>) {
        let now = self.now();
        self.history.record(now, client, what);
    }

    pub(crate) const fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// A program found something that must not be.
    pub(crate) fn complain(&mut self, message: String) {
        self.complaints.push(message);
    }

    /// A fault struck.
    pub(crate) fn fired(&mut self, kind: Kind, client: u32) {
        self.tally.faults[kind as usize] += 1;
        self.record(client, Fault { kind: kind.as_str().to_owned() });
    }

    /// The revision that created the entry of this key, as the store knows it.
    pub(crate) fn entry_of(&self, key: &Key) -> u64 {
        self.born.get(key).copied().unwrap_or(0)
    }

    /// The revision that wrote this value to this key; 0 if none did. Needs a ledger of all changes.
    pub(crate) fn revision_of(&self, of: &str, written: u64) -> u64 {
        let found = self.history.events().iter().rev().find_map(|event| match &event.what {
            What::Stored(Stored::Put { key, revision, value, .. }) if key == of && *value == written => {
                Some(*revision)
            }
            _ => None,
        });
        found.unwrap_or(0)
    }

    pub(crate) fn is_disowned(&self, entry: u64) -> bool {
        self.disowned.contains(&entry)
    }

    /// A write with this token arrives at the fenced resource, which refuses tokens of the past.
    pub(crate) fn fenced_write(&mut self, token: u128) {
        self.tally.writes += 1;
        if token < self.resource {
            self.tally.refused_writes += 1;
        }
        self.resource = self.resource.max(token);
    }

    pub(crate) fn take_history(&mut self) -> History {
        std::mem::take(&mut self.history)
    }

    /// What the store did.
    pub(crate) fn changed(&mut self, revision: Revision, changes: &[Change], ended: Option<&SessionId>) {
        for change in changes {
            match change {
                Change::Put(entry) => self.put(entry),
                Change::Delete(key) => self.deleted(key, revision, ended.is_some()),
            }
        }
    }

    /// The store began a session.
    pub(crate) fn session_began(&mut self, session: u64, ttl: Duration, client: u32) {
        self.clients.insert(session, client);
        self.record(client, Session::Opened { session, ttl });
    }

    /// The store ended a session: what its client took from a queue is there again.
    pub(crate) fn session_ended(&mut self, session: u64) {
        self.ended.insert(session);
        let client = self.clients.get(&session).copied().unwrap_or(0);
        let (returned, rest) = self.in_hand.iter().partition(|(whose, _)| *whose == client);
        self.in_hand = rest;
        let returned: Vec<(u32, u64)> = returned;
        for (_, take) in returned {
            self.record(client, Queue::Returned { take });
        }
    }

    /// A client has an item in hand, until it is finished or its session ends.
    pub(crate) fn took(&mut self, client: u32, take: u64) {
        self.in_hand.push((client, take));
    }

    /// Whether the store has ended this session.
    pub(crate) fn is_over(&self, session: u64) -> bool {
        self.ended.contains(&session)
    }

    /// The item is no longer in hand; whether it was.
    pub(crate) fn finished(&mut self, take: u64) -> bool {
        let before = self.in_hand.len();
        self.in_hand.retain(|(_, held)| *held != take);
        self.in_hand.len() < before
    }

    /// The member of this session is no longer in its round, and does not know it yet.
    fn give_up(&mut self, session: u64) {
        let member = self.clients.get(&session).copied().unwrap_or(0);
        let last = self.history.events().iter().rev().find_map(|event| match &event.what {
            What::Rendezvous(fact) if event.client == member => Some(fact.clone()),
            _ => None,
        });
        if let Some(fact) = last.filter(|fact| !matches!(fact.step, Step::Departed | Step::GaveUp)) {
            self.record(member, Rendezvous { step: Step::GaveUp, ..fact });
        }
    }

    fn put(&mut self, entry: &Entry) {
        let session = entry.meta.owner.as_ref().map(number_of);
        if self.ledger.changes {
            self.record(
                0,
                Stored::Put {
                    key: entry.key.to_string(),
                    revision: entry.meta.modified.get(),
                    value: fingerprint(&entry.value),
                    session,
                },
            );
        }
        if let Some((name, mode)) = (self.ledger.line_of)(entry) {
            let created = entry.meta.created.get();
            let before = self.born.get(&entry.key).copied();
            // An entry that was changed joins again in its new mode: a writer steps down to reader.
            if before == Some(created) && !self.ledger.modes_change {
                return;
            }
            let session = session.unwrap_or(0);
            self.standing.insert(entry.key.clone(), (name.clone(), created, session));
            self.born.insert(entry.key.clone(), created);
            self.record(0, Line::Joined { name, entry: created, session, mode, ask: None });
        }
    }

    fn deleted(&mut self, key: &Key, revision: Revision, with_session: bool) {
        if self.ledger.changes {
            self.record(0, Stored::Gone { key: key.to_string(), revision: revision.get(), with_session });
        }
        if let Some((name, entry, session)) = self.standing.remove(key) {
            if self.ledger.rounds && (with_session || self.operator) {
                self.give_up(session);
            }
            if self.operator {
                self.disowned.insert(entry);
                if self.ledger.elections {
                    self.record(0, Election::Deposed { name: name.clone(), epoch: entry.into() });
                }
            }
            let why = match (self.operator, with_session) {
                (true, _) => Why::Operator,
                (false, true) => Why::SessionEnded,
                (false, false) => Why::Owner,
            };
            self.record(0, Line::Left { name, entry, why });
        }
    }
}

/// The number of a session of the memory store.
pub(crate) fn number_of(session: &SessionId) -> u64 {
    u64::from_str_radix(session.as_str(), 16).unwrap_or(0)
}

/// A value as a number: itself if it is one, else a hash (FNV-1a).
pub(crate) fn fingerprint(value: &[u8]) -> u64 {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| {
        value.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    })
}
