//! Who holds what: locks, permits, leadership.

use serde::{Deserialize, Serialize};

use super::{Applied, Token};

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
        /// Why.
        why: Why,
    },
}

/// Why an entry left the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Its own client deleted it.
    Owner,
    /// Its session ended.
    SessionEnded,
    /// Somebody else deleted it, or its parent: who holds by it is entitled no longer, and learns so from a watch.
    Operator,
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
    /// Somebody deleted the leader's entry by hand: it is entitled no longer, and learns so from a watch.
    Deposed {
        /// The election.
        name: String,
        /// The epoch that ended.
        epoch: Token,
    },
}

/// The body of a scheduled job began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The job.
    pub name: String,
    /// The period that it ran for.
    pub period: u64,
}

/// Changes of the number of permits of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resize {
    /// `resize` is called, or the semaphore opened for the first time: from now on there may be so many.
    Calling {
        /// The id of the call.
        resize: u64,
        /// The semaphore.
        name: String,
        /// How many.
        to: u64,
    },
    /// The call returned: whoever joins from now on knows.
    Done {
        /// The call.
        resize: u64,
    },
}

/// Writes that apply only while a hold holds. Each writes a value of its own to the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Guarded {
    /// The write is sent.
    Sent {
        /// The id of the write, which is the value that it writes.
        write: u64,
        /// The name of the lock.
        name: String,
        /// The entry of the hold: the revision that created it.
        entry: u64,
        /// The key.
        key: String,
    },
    /// The answer.
    Told {
        /// The write.
        write: u64,
        /// Whether it was applied, as the holder was told.
        applied: Applied,
    },
}
