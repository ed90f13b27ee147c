//! The facts that a history is made of, one enum a subject.
//!
//! Ids (`ask`, `op`, `watch`, ...) are unique in the history. Values are numbers: recorders write unique ones, or a
//! fingerprint.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

/// A fencing token or an epoch, as one number.
pub type Token = u128;

macro_rules! what {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One fact.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum What { $($(#[$doc])* $name($name),)* }
        $(impl From<$name> for What {
            fn from(fact: $name) -> Self {
                Self::$name(fact)
            }
        })*
    };
}

what! {
    /// Reads and writes of one key.
    Register,
    /// Who asks for a lock or permits, gets them, and ends.
    Hold,
    /// Who stands in which line, in the store.
    Line,
    /// Who leads.
    Election,
    /// Who waits at a barrier or latch, and passes.
    Barrier,
    /// Who enters and leaves a double barrier.
    Rendezvous,
    /// What goes through a queue.
    Queue,
    /// What is added to a counter.
    Counter,
    /// An id that was drawn.
    Drawn,
    /// A run of a scheduled job.
    Job,
    /// What changed in the store.
    Stored,
    /// What a watch told.
    Watch,
    /// What a cache told.
    Cache,
    /// When sessions began and ended.
    Session,
    /// What was left over at the end.
    Leftover,
    /// A fault that struck.
    Fault,
}

/// Whether a write was applied, as its caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Applied {
    /// Surely applied.
    Yes,
    /// Surely not applied.
    No,
    /// Nobody knows.
    Unknown,
}

/// Calls on one key, each with its answer. A call without an answer may have been applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Register {
    /// A call is about to be made.
    Call {
        /// Its id.
        op: u64,
        /// The key.
        key: String,
        /// What is asked.
        action: Action,
    },
    /// The caller has the answer.
    Return {
        /// The call.
        op: u64,
        /// The answer.
        answer: Answer,
    },
}

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Read it.
    Read,
    /// Write this, whatever was there; `None` deletes.
    Write(Option<u64>),
    /// Write `to` if the key was last changed by `at`; `None` means if it is absent.
    Swap {
        /// The revision that is expected.
        at: Option<u64>,
        /// The new value; `None` deletes.
        to: Option<u64>,
    },
}

/// What the caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A read: value and the revision that wrote it; `None` if the key is absent.
    Value(Option<(u64, u64)>),
    /// A write that was applied, by this revision.
    Done(u64),
    /// A swap that found something else, and did nothing.
    Rejected,
    /// Surely not applied, for a reason that is not the key's.
    NotApplied,
    /// Nobody knows.
    Unknown,
}

/// How much of a name is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// All of it: a lock, a writer.
    Exclusive,
    /// Together with other readers.
    Shared,
    /// Some permits of a semaphore.
    Permits {
        /// How many.
        take: u64,
        /// Of how many.
        of: u64,
    },
}

/// The life of one hold, as its client sees it. The hold believes in itself from `Granted` to the last `Believed`, or
/// to `Releasing` if it was valid when that was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    /// `acquire` is called.
    Asked {
        /// The id of the call and of the hold that it may give.
        ask: u64,
        /// The name of the lock.
        name: String,
        /// Whoever asks: re-entry is by the same owner.
        owner: u64,
        /// How much.
        mode: Mode,
        /// Set for the parts of one multi-lock: the same number for all.
        group: Option<u64>,
    },
    /// `acquire` gave a guard.
    Granted {
        /// The call.
        ask: u64,
        /// The fencing token.
        token: Token,
        /// The entry in the line: the revision that created it.
        entry: u64,
    },
    /// `acquire` returned without a guard, or was dropped.
    Refused {
        /// The call.
        ask: u64,
    },
    /// `is_valid` answered yes.
    Believed {
        /// The hold.
        ask: u64,
    },
    /// `release` is called, or the guard is dropped, while it is valid.
    Releasing {
        /// The hold.
        ask: u64,
    },
    /// The hold is over for its client: released, or lost.
    Ended {
        /// The hold.
        ask: u64,
        /// Whether the client was told that it is lost.
        lost: bool,
    },
}

/// The entries of lines, as the store has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Line {
    /// An entry was created.
    Joined {
        /// The name of the lock.
        name: String,
        /// The revision that created it: its place in the order.
        entry: u64,
        /// The session that owns it.
        session: u64,
        /// How much it asks for.
        mode: Mode,
        /// The call that made it, where the recorder knows.
        ask: Option<u64>,
    },
    /// An entry is gone.
    Left {
        /// The name of the lock.
        name: String,
        /// The revision that created it.
        entry: u64,
    },
}

/// Leadership, as candidates and observers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Election {
    /// A candidate was told that it leads.
    Led {
        /// The election.
        name: String,
        /// Who.
        candidate: String,
        /// The epoch.
        epoch: Token,
    },
    /// `is_leader` answered.
    Answered {
        /// The election.
        name: String,
        /// Who was asked.
        candidate: String,
        /// The epoch that it leads or led.
        epoch: Token,
        /// Whether it leads.
        leads: bool,
    },
    /// Somebody who looks was told who leads.
    Observed {
        /// The election.
        name: String,
        /// Who looks.
        observer: u64,
        /// Who leads, in which epoch; `None` if nobody does.
        leader: Option<(String, Token)>,
    },
}

/// A barrier that is up or down, and a latch that counts down. A latch of n is down after n counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Barrier {
    /// The barrier is surely up from now on.
    Raised {
        /// The barrier.
        name: String,
    },
    /// Somebody calls to lower it, or to count down: from now on it may be lower by one.
    Lowering {
        /// The barrier.
        name: String,
    },
    /// That call was applied.
    Lowered {
        /// The barrier.
        name: String,
    },
    /// A latch was set up: it takes this many counts.
    Counts {
        /// The latch.
        name: String,
        /// How many.
        count: u64,
    },
    /// Somebody begins to wait.
    Waiting {
        /// The barrier.
        name: String,
        /// The id of this wait.
        wait: u64,
    },
    /// The wait ended: the way is free.
    Passed {
        /// The wait.
        wait: u64,
    },
    /// The wait ended by time-out, error or cancellation.
    GaveUp {
        /// The wait.
        wait: u64,
    },
}

/// A double barrier. A member does not enter twice in one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendezvous {
    /// The barrier.
    pub name: String,
    /// Counted by the members: each begins with 0 and adds 1 when it has left.
    pub round: u64,
    /// Who.
    pub member: u64,
    /// How many must come.
    pub of: u64,
    /// How far it came.
    pub step: Step,
}

/// How far a member of a double barrier came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Calls `enter`.
    Entering,
    /// `enter` returned: all are there.
    Entered,
    /// Calls `leave`.
    Leaving,
    /// `leave` returned: all have left.
    Departed,
    /// Ends otherwise: died, timed out, was cancelled or refused.
    GaveUp,
}

/// The way of items through a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Queue {
    /// `put` is called.
    Putting {
        /// The queue.
        name: String,
        /// The item.
        item: u64,
        /// Smaller comes first.
        priority: u32,
    },
    /// `put` returned.
    Put {
        /// The queue.
        name: String,
        /// The item.
        item: u64,
        /// Whether it is in the queue.
        applied: Applied,
    },
    /// `take` is called.
    Taking {
        /// The queue.
        name: String,
        /// The id of this take.
        take: u64,
    },
    /// `take` gave an item.
    Taken {
        /// The take.
        take: u64,
        /// The item.
        item: u64,
    },
    /// The consumer said that the item is done.
    Done {
        /// The take.
        take: u64,
        /// Whether the store has it.
        applied: Applied,
    },
    /// The consumer died, lost its session or gave the item back: it may be taken again.
    Returned {
        /// The take.
        take: u64,
    },
}

/// Additions to a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counter {
    /// `add` is called.
    Adding {
        /// The counter.
        name: String,
        /// The call.
        op: u64,
        /// How much.
        delta: i64,
    },
    /// `add` returned.
    Added {
        /// The call.
        op: u64,
        /// Whether it counts.
        applied: Applied,
        /// The value behind this addition, if it was told.
        value: Option<i64>,
    },
    /// Somebody read the counter when nobody added any more.
    Total {
        /// The counter.
        name: String,
        /// What it says.
        value: i64,
    },
}

/// An id that a generator gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// The generator.
    pub name: String,
    /// The id.
    pub id: u64,
}

/// A run of a scheduled job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// A period begins: somebody must run the job.
    Due {
        /// The job.
        job: String,
        /// The period.
        period: u64,
    },
    /// The body of the job began.
    Began {
        /// The job.
        job: String,
        /// The period.
        period: u64,
    },
}

/// Changes of keys, as the store makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stored {
    /// A key was created or changed.
    Put {
        /// The key.
        key: String,
        /// By which revision.
        revision: u64,
        /// Its value.
        value: u64,
        /// The session that owns it, if it is ephemeral.
        session: Option<u64>,
    },
    /// A key is gone.
    Gone {
        /// The key.
        key: String,
        /// By which revision.
        revision: u64,
        /// Whether it went because its session ended, and not because somebody deleted it.
        with_session: bool,
    },
}

/// What a watch told its consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Watch {
    /// A watch of everything below a directory begins.
    Opened {
        /// Its id.
        watch: u64,
        /// The directory, ending with a slash; `""` and `/` watch everything.
        dir: String,
        /// It resumes behind this revision; `None` if it begins with a snapshot.
        after: Option<u64>,
    },
    /// Everything there is.
    Snapshot {
        /// The watch.
        watch: u64,
        /// The moment.
        revision: u64,
        /// Each key with the revision that wrote it and its value.
        entries: BTreeMap<String, (u64, u64)>,
    },
    /// A key was created or changed.
    Put {
        /// The watch.
        watch: u64,
        /// The key.
        key: String,
        /// By which revision.
        revision: u64,
        /// Its value.
        value: u64,
    },
    /// A key was deleted.
    Deleted {
        /// The watch.
        watch: u64,
        /// The key.
        key: String,
        /// When: by this revision, or later.
        revision: u64,
    },
    /// Nothing more happened up to this revision.
    Progress {
        /// The watch.
        watch: u64,
        /// The revision.
        revision: u64,
    },
    /// The stream ended, or was dropped. One that is not closed must be up to date at the end of the run.
    Closed {
        /// The watch.
        watch: u64,
    },
}

/// What a cache told its listener and its readers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cache {
    /// A cache of everything below a directory begins.
    Opened {
        /// Its id.
        cache: u64,
        /// The directory, as in [`Watch::Opened`].
        dir: String,
    },
    /// The listener was told: all that was there has been put.
    Initialised {
        /// The cache.
        cache: u64,
    },
    /// The listener was told: a key has a value.
    Put {
        /// The cache.
        cache: u64,
        /// The key.
        key: String,
        /// The value before, as the event says; `None` if it is new.
        old: Option<u64>,
        /// The value now.
        new: u64,
        /// The revision that wrote it.
        revision: u64,
    },
    /// The listener was told: a key is gone.
    Deleted {
        /// The cache.
        cache: u64,
        /// The key.
        key: String,
        /// The value before, as the event says.
        old: u64,
    },
    /// The listener was told: the cache is up to date again after a gap.
    Resynced {
        /// The cache.
        cache: u64,
    },
    /// A reader looked at the whole cache.
    Read {
        /// The cache.
        cache: u64,
        /// The moment that it shows.
        revision: u64,
        /// Each key with the revision that wrote it and its value.
        entries: BTreeMap<String, (u64, u64)>,
    },
    /// The cache was closed. One that is not must be up to date at the end of the run.
    Closed {
        /// The cache.
        cache: u64,
    },
}

/// Sessions, as the store has them; `Lost` as the client does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Session {
    /// The store began a session.
    Opened {
        /// Its id.
        session: u64,
        /// How long it lives after a renewal.
        ttl: Duration,
    },
    /// The store accepted a renewal.
    Renewed {
        /// The session.
        session: u64,
    },
    /// The client closed the session, or an operator ended it, and the store did so: from now on its keys may go.
    Closed {
        /// The session.
        session: u64,
    },
    /// The client was told that it is lost.
    Lost {
        /// The session.
        session: u64,
    },
}

/// What was left over when all clients had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Of what.
    pub kind: LeftoverKind,
    /// Which, for a person who reads it: keys, names of tasks.
    pub which: Vec<String>,
    /// How many.
    pub count: u64,
}

/// What can be left over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LeftoverKind {
    /// Keys in the store.
    Keys,
    /// Watches and waits at the store.
    Watches,
    /// Tasks of the runtime.
    Tasks,
    /// Sessions at the store.
    Sessions,
}

/// A fault that struck something, not one that was planned and hit nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Its kind: `reply-lost`, `partition`.
    pub kind: String,
}
