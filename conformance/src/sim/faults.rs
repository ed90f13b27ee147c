//! The kinds of faults, and sets of them.

use std::{fmt, str::FromStr};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The kind's name in tables and on the command line.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

kinds! {
    /// A request never arrives.
    RequestLost = "request-lost",
    /// A request is applied, its reply never arrives.
    ReplyLost = "reply-lost",
    /// A call is refused before it is sent: the connection is known to be down.
    Refused = "refused",
    /// A call takes much longer than most.
    Delayed = "delayed",
    /// A request arrives when its caller has given up, perhaps after its session ended.
    Late = "late",
    /// A request arrives twice.
    Twice = "twice",
    /// A client is cut off in both directions.
    Partition = "partition",
    /// A client's requests arrive, and no replies.
    OneWay = "one-way",
    /// All tasks of a client stand still.
    Pause = "pause",
    /// A client dies at once, and nothing of it goes on.
    Crash = "crash",
    /// A call of the recipe is dropped before its end.
    Cancel = "cancel",
    /// A watch is cut: it goes on with a new snapshot.
    WatchCut = "watch-cut",
    /// The store forgets its history: a watch that lags gets a snapshot.
    WatchGap = "watch-gap",
    /// A watch tells that nothing happened.
    EmptyEvent = "empty-event",
    /// A watch tells an event twice.
    RepeatedEvent = "repeated-event",
    /// A wait returns for no reason.
    EarlyWake = "early-wake",
    /// The store ends a session that is renewed, as an operator can.
    Expiry = "expiry",
    /// The clock of the store runs faster than those of the clients.
    FastClock = "fast-clock",
    /// Somebody deletes one entry by hand.
    EntryDeleted = "entry-deleted",
    /// Somebody deletes everything in a directory.
    DirectoryDeleted = "directory-deleted",
    /// The store's counter begins just below 2^31, 2^32 or 2^53.
    LargeNumbers = "large-numbers",
    /// A read that did not ask for the latest is answered from the past, though never from before what its client has
    /// seen: by a server that lags behind.
    StaleRead = "stale-read",
    /// The reply to a renewal takes long, and nothing goes through behind it for longer than a session lives.
    LastReply = "last-reply",
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Faults(u32);

impl Faults {
    /// None.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self((1 << Kind::ALL.len()) - 1);

    /// The set with `kind`.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self(self.0 | (1 << kind as u32))
    }

    /// The set without `kind`.
    #[must_use]
    pub const fn without(self, kind: Kind) -> Self {
        Self(self.0 & !(1 << kind as u32))
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether `kind` is in it.
    #[must_use]
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// What is in it, in order.
    pub fn kinds(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.iter().copied().filter(move |kind| self.has(*kind))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.kinds().map(Kind::as_str).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(","))
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::NONE;
        for name in text.split(',').filter(|name| !name.is_empty() && *name != "none") {
            let kind = Kind::ALL.iter().find(|kind| kind.as_str() == name);
            faults = faults.with(*kind.ok_or_else(|| format!("no kind of fault is named {name}"))?);
        }
        Ok(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_and_read() {
        let set = Faults::NONE.with(Kind::Pause).with(Kind::ReplyLost);
        assert_eq!(set.to_string(), "reply-lost,pause");
        assert_eq!(set.to_string().parse(), Ok(set));
        assert_eq!("none".parse(), Ok(Faults::NONE));
        assert_eq!(Faults::ALL.to_string().parse(), Ok(Faults::ALL));
        assert!("reply-lots".parse::<Faults>().is_err());
    }
}
