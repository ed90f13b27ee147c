//! What a line says: which recipe stands in it, who passes and who waits.
//!
//! The tags of the recipes are those of Curator, so that this tells of its users on ZooKeeper too.

use coord::{Child, Entry, Key, config_centre::WallTime};

use crate::age;

/// What a writer's entry says once it only reads.
const DOWNGRADED: &[u8] = READ.as_bytes();
/// What the holder's entry says once somebody asked for the lock.
const REVOKED: &[u8] = b"__REVOKE__";
const READ: &str = "__READ__";
const WRITE: &str = "__WRIT__";
const LEASE: &str = "lease-";
/// What a semaphore leaves in its line when the number of its permits is changed.
const NOTE: &str = "limit-";

/// Which recipe stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lock,
    Election,
    RwLock,
    Semaphore,
    DoubleBarrier,
}

impl Kind {
    const fn of_tag(tag: &str) -> Option<Self> {
        Some(match tag.as_bytes() {
            b"lock-" => Self::Lock,
            b"latch-" => Self::Election,
            b"__READ__" | b"__WRIT__" => Self::RwLock,
            b"member-" => Self::DoubleBarrier,
            [b'l', b'e', b'a', b's', b'e', b'-', ..] => Self::Semaphore,
            _ => return None,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Election => "election",
            Self::RwLock => "read/write lock",
            Self::Semaphore => "semaphore",
            Self::DoubleBarrier => "double barrier",
        }
    }
}

/// Where somebody stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Holds,
    Waits,
    /// In the line, of which it is not known who passes.
    InLine,
    /// No place in the line.
    Beside,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Waits => "waits",
            Self::InLine => "in line",
            Self::Beside => "beside",
        }
    }
}

/// A key of the line, or beside it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) key: Key,
    tag: Option<String>,
    /// When it joined the line, by the clock of whoever did; `None` if the entry does not tell.
    pub(super) joined: Option<WallTime>,
    /// `None` for a directory below.
    pub(super) entry: Option<Entry>,
    pub(super) state: State,
}

impl Part {
    /// The key of that very name.
    pub(super) fn key(entry: Entry) -> Self {
        Self { key: entry.key.clone(), tag: None, joined: None, entry: Some(entry), state: State::Beside }
    }

    pub(super) fn child(child: &Child, entry: Entry) -> Self {
        let tag = child.tag.as_ref().map(ToString::to_string);
        Self { tag, joined: age::joined(child), ..Self::key(entry) }
    }

    /// A directory, or a key that went in this moment.
    pub(super) const fn below(key: Key) -> Self {
        Self { key, tag: None, joined: None, entry: None, state: State::Beside }
    }

    fn value(&self) -> &[u8] {
        self.entry.as_ref().map_or(&[], |entry| &entry.value)
    }

    fn has_tag(&self, tag: &str) -> bool {
        self.tag.as_deref() == Some(tag)
    }

    /// What it wants: `read`, `write`, or a number of permits.
    pub(super) fn wants(&self) -> Option<String> {
        match self.tag.as_deref()? {
            READ => Some("read".to_owned()),
            WRITE if self.value() == DOWNGRADED => Some("read".to_owned()),
            WRITE => Some("write".to_owned()),
            tag if tag.starts_with(LEASE) => Some(self.permits().to_string()),
            _ => None,
        }
    }

    /// Whether somebody asked the holder to give it back.
    pub(super) fn is_asked(&self) -> bool {
        self.has_tag("lock-") && self.value() == REVOKED
    }

    /// How many permits it stands for; one, if it does not say.
    fn permits(&self) -> u32 {
        let several = self.tag.as_deref().and_then(|tag| tag.strip_prefix(LEASE)?.strip_suffix('-'));
        several.and_then(|count| count.parse().ok()).unwrap_or(1).max(1)
    }

    fn reads(&self) -> bool {
        self.wants().as_deref() == Some("read")
    }
}

/// A line and what it means.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) kind: Option<Kind>,
    /// Of a semaphore, if they were agreed on.
    pub(super) permits: Option<u32>,
    pub(super) parts: Vec<Part>,
}

impl Line {
    /// Judges parts in the order of the store. `untagged` says that keys without a tag are places as well.
    pub(super) fn judge(mut parts: Vec<Part>, permits: Option<u32>, untagged: bool) -> Self {
        let mut tags =
            parts.iter().filter_map(|part| part.tag.as_deref()).filter(|tag| !tag.starts_with(NOTE));
        let kind = tags.next().and_then(Kind::of_tag);
        let mixed = tags.any(|tag| Kind::of_tag(tag) != kind);
        let kind = kind.filter(|_| !mixed);
        // Strangers in a directory in which nobody has a session stand in no line.
        let line = parts.iter().any(|part| part.tag.is_some())
            || parts.iter().any(|part| part.entry.as_ref().is_some_and(|entry| entry.meta.owner.is_some()));
        let is_place = |part: &Part| match &part.tag {
            Some(tag) => !tag.starts_with(NOTE),
            None => untagged && line && part.entry.is_some(),
        };
        let permits = permits.filter(|_| kind == Some(Kind::Semaphore));
        let mut ahead = Ahead::default();
        for part in parts.iter_mut().filter(|part| is_place(part)) {
            part.state = ahead.state(kind, permits, part);
        }
        Self { kind, permits, parts }
    }
}

/// What stands ahead of a place.
#[derive(Default)]
struct Ahead {
    places: u32,
    permits: u32,
    /// Whether one of them keeps readers out.
    writes: bool,
}

impl Ahead {
    /// The state of the next place, which is ahead of all others then.
    fn state(&mut self, kind: Option<Kind>, permits: Option<u32>, place: &Part) -> State {
        let passes = match kind {
            // A line of strangers is one of etcd's own, in which the first passes.
            None if place.tag.is_none() => Some(self.places == 0),
            None | Some(Kind::DoubleBarrier) => None,
            Some(Kind::Lock | Kind::Election) => Some(self.places == 0),
            Some(Kind::RwLock) => Some(self.places == 0 || (place.reads() && !self.writes)),
            Some(Kind::Semaphore) => {
                permits.map(|permits| self.permits.saturating_add(place.permits()) <= permits)
            }
        };
        self.places += 1;
        self.permits = self.permits.saturating_add(place.permits());
        self.writes |= !place.reads();
        match passes {
            Some(true) => State::Holds,
            Some(false) => State::Waits,
            None => State::InLine,
        }
    }
}

#[cfg(test)]
mod tests {
    use coord::{Meta, Revision, SessionId, Version};

    use super::*;

    fn part(tag: &str, value: &'static str) -> Part {
        let one = Revision::new(1);
        let meta = Meta::new(one, one, Version::new(1), Some(SessionId::new("s")));
        let entry = Entry::new(Key::parse("/l/a").unwrap(), value.into(), meta);
        Part { tag: (!tag.is_empty()).then(|| tag.to_owned()), ..Part::key(entry) }
    }

    fn states(parts: &[(&str, &'static str)], permits: Option<u32>, untagged: bool) -> String {
        let parts = parts.iter().map(|(tag, value)| part(tag, value)).collect();
        let line = Line::judge(parts, permits, untagged);
        line.parts.iter().map(|part| &part.state.name()[..1]).collect()
    }

    #[test]
    fn the_first_has_a_lock_and_leads() {
        assert_eq!(states(&[("lock-", ""), ("lock-", "")], None, false), "hw");
        assert_eq!(states(&[("latch-", "a"), ("latch-", "b")], None, false), "hw");
        assert_eq!(states(&[("", "x"), ("lock-", "")], None, false), "bh", "strangers do not count");
        assert_eq!(states(&[("", "x"), ("lock-", "")], None, true), "hw", "on etcd they do");
        assert_eq!(states(&[("", ""), ("", "")], None, true), "hw", "a line of etcdctl");
    }

    #[test]
    fn readers_share_until_the_next_writer() {
        let (r, w) = (("__READ__", ""), ("__WRIT__", ""));
        assert_eq!(states(&[r, r, w, r], None, false), "hhww");
        assert_eq!(states(&[w, r, w], None, false), "hww");
        assert_eq!(states(&[("__WRIT__", "__READ__"), r, w], None, false), "hhw", "a writer that reads now");
    }

    #[test]
    fn permits_go_in_the_order_of_the_line() {
        let line = [("lease-", ""), ("limit-7-", ""), ("lease-2-", ""), ("lease-2-", ""), ("lease-", "")];
        assert_eq!(states(&line, Some(3), false), "hbhww", "nobody overtakes");
        assert_eq!(states(&line, None, false), "ibiii", "Curator does not say how many there are");
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        assert_eq!(states(&[("member-", ""), ("member-", "")], None, false), "ii");
        assert_eq!(
            states(&[("lock-", ""), ("lease-", "")], None, false),
            "ii",
            "two recipes in one directory"
        );
        assert_eq!(states(&[("own-", "")], None, false), "i");
    }
}
