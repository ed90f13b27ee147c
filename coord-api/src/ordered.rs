//! Joining the line of a directory.

use std::{borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;

use crate::{Dir, Error, Key, Lifetime, Listing, Result, Revision};

/// What kind of place in the line: the literal text that the name carries, such as `lock-`.
///
/// Recipes use the tags of Curator (`lock-`, `latch-`, `__READ__`, `__WRIT__`, `lease-`), so that on ZooKeeper the
/// names are those that Curator respects.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tag(Arc<str>); // a listing copies one a child

impl Tag {
    /// A tag of 1 to 32 ASCII letters, digits, `_` and `-` that does not end in a digit.
    ///
    /// A trailing digit could not be told from the sequence number behind it.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) if the text is not of that form.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Result<Self> {
        let text = text.into();
        let letters = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let ends_well = text.bytes().last().is_some_and(|b| !b.is_ascii_digit());
        if text.len() <= 32 && letters && ends_well {
            Ok(Self(text.as_ref().into()))
        } else {
            Err(Error::invalid("a tag is 1 to 32 of A-Z a-z 0-9 _ - and does not end in a digit")
                .with_context("tag", text))
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A number made by the client that finds its own create again after a lost reply.
///
/// One nonce belongs to one acquire: every retry of it uses the same, and no other call ever does. It may tell when it
/// was drawn: so a line tells since when its entries stand in it, which no store keeps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nonce(u128);

impl Nonce {
    /// The nonce with this number. Take fresh ones from [`Runtime::nonce`](crate::kit::Runtime::nonce).
    #[must_use]
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// A nonce that tells when it was drawn, in milliseconds since the beginning of 1970, UTC: a UUID of version 7.
    ///
    /// 74 bits of `random` are kept, and of the time those before the year 10889.
    ///
    /// ```
    /// # use coord_api::Nonce;
    /// let nonce = Nonce::dated(1_700_000_000_123, 42);
    /// assert_eq!(nonce.drawn_at(), Some(1_700_000_000_123));
    /// assert_eq!(nonce.to_uuid(), "018bcfe5-687b-7000-8000-00000000002a");
    /// ```
    #[must_use]
    pub const fn dated(millis: u64, random: u128) -> Self {
        let kept = random & !(Self::TIME | Self::KIND);
        Self(((millis as u128) << 80) | Self::VERSION_7 | kept)
    }

    /// When it was drawn, by the wall clock of whoever drew it, in milliseconds since the beginning of 1970, UTC; `None`
    /// if it does not tell. For people to read: clocks differ and jump.
    #[must_use]
    pub const fn drawn_at(self) -> Option<u64> {
        if self.0 & Self::KIND == Self::VERSION_7 { Some((self.0 >> 80) as u64) } else { None }
    }

    /// The bits of the time in a UUID of version 7.
    const TIME: u128 = u128::MAX << 80;
    /// The bits of the version and the variant.
    const KIND: u128 = (0xf << 76) | (0x3 << 62);
    /// What they are in a UUID of version 7.
    const VERSION_7: u128 = (0x7 << 76) | (0x2 << 62);

    /// The number.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// The form that names in a store carry: a UUID, as Curator writes it.
    #[must_use]
    pub fn to_uuid(self) -> String {
        let hex = format!("{:032x}", self.0);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Reads what [`Nonce::to_uuid`] wrote; `None` for any other text.
    #[must_use]
    pub fn from_uuid(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let dashes = bytes.len() == 36 && [8, 13, 18, 23].iter().all(|at| bytes[*at] == b'-');
        let hex: String = text.chars().filter(|c| *c != '-').collect();
        if !dashes || hex.len() != 32 {
            return None;
        }
        u128::from_str_radix(&hex, 16).ok().map(Self)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_uuid())
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({self})")
    }
}

/// A request to join the line of a directory.
#[derive(Clone, Debug)]
pub struct OrderedCreate {
    /// Whose line.
    pub dir: Dir,
    /// What kind of place.
    pub tag: Tag,
    /// Finds the entry again after a lost reply.
    pub nonce: Nonce,
    /// The value of the entry.
    pub value: Bytes,
    /// How long the entry lives.
    pub lifetime: Lifetime,
}

/// A place in the line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ordered {
    /// The key of the entry. Its name is the store's business: do not parse it.
    pub key: Key,
    /// The revision that created it: the fence of this place.
    pub created: Revision,
    /// The line as the same round trip showed it; at least up to this place.
    pub line: Option<Listing>,
}

impl Ordered {
    /// Puts the parts together; for backends.
    #[must_use]
    pub const fn new(key: Key, created: Revision, line: Option<Listing>) -> Self {
        Self { key, created, line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_reads_back_and_hostile_names_do_not() {
        for n in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            assert_eq!(Nonce::from_uuid(&Nonce::new(n).to_uuid()), Some(Nonce::new(n)));
        }
        for bad in [
            "",
            "-",
            "00000000-0000-0000-0000-00000000000",
            "0000000000000000000000000000000000é0",
            "+0000000-0000-0000-0000-000000000000\u{e9}",
        ] {
            assert_eq!(Nonce::from_uuid(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_nonce_that_is_no_uuid_of_version_7_tells_no_time() {
        // The first three are of versions 4 and 1, and of another variant; Curator draws those of version 4.
        for undated in [
            "f81d4fae-7dec-41d0-a765-00a0c91e6bf6",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "018bcfe5-687b-7000-c000-00000000002a",
            "00000000-0000-0000-0000-000000000007",
        ] {
            assert_eq!(Nonce::from_uuid(undated).map(Nonce::drawn_at), Some(None), "{undated}");
        }
    }

    #[test]
    fn nonces_of_one_moment_differ_by_what_is_random() {
        for (millis, random) in [(0, 0), (1, u128::MAX), ((1 << 48) - 1, 1), (7, 1 << 61), (7, 1 << 64)] {
            let nonce = Nonce::dated(millis, random);
            assert_eq!(nonce.drawn_at(), Some(millis), "{nonce}");
            assert_eq!(Nonce::from_uuid(&nonce.to_uuid()), Some(nonce));
        }
        let of = |random| Nonce::dated(7, random);
        assert!(of(1) != of(2) && of(1 << 61) != of(0) && of(1 << 64) != of(0) && of(1 << 75) != of(0));
    }

    #[test]
    fn a_tag_cannot_run_into_the_sequence() {
        assert!(Tag::new("lock-").is_ok() && Tag::new("__READ__").is_ok());
        for bad in ["", "lock1", "a/b", "ü", "x".repeat(33).as_str()] {
            assert!(Tag::new(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
