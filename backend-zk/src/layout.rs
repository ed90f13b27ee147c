//! How names in a directory become places in a line: Curator's layout.
//!
//! `_c_<uuid>-<tag><sequence>`, where the uuid and its frame may be missing in names of other programs. The sequence
//! is a signed 32-bit counter printed with `%010d`: after 2147483647 comes -2147483648, so places are ordered by
//! serial-number arithmetic and never as text.

use coord_api::{
    Child, Key, Nonce, Revision, Tag,
    kit::{Rank, in_order},
};

/// A name that is a place in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) tag: Tag,
    pub(crate) nonce: Option<Nonce>,
    pub(crate) sequence: i32,
}

/// What the server puts the sequence behind.
pub(crate) fn prefix(nonce: Nonce, tag: &Tag) -> String {
    format!("_c_{nonce}-{tag}")
}

/// Reads a name; `None` if it is no place.
pub(crate) fn parse(name: &str) -> Option<Place> {
    let (nonce, rest) = match curator_frame(name) {
        Some((nonce, rest)) => (Some(nonce), rest),
        None => (None, name),
    };
    let (tag, sequence) = split_sequence(rest)?;
    Some(Place { tag: Tag::new(tag.to_owned()).ok()?, nonce, sequence })
}

fn curator_frame(name: &str) -> Option<(Nonce, &str)> {
    let rest = name.strip_prefix("_c_")?;
    let nonce = Nonce::from_uuid(rest.get(..36)?)?;
    Some((nonce, rest.get(36..)?.strip_prefix('-')?))
}

/// Splits the number from what is before it.
///
/// A dash before ten digits may belong to the tag (`lock-0000000005`) or be a sign (`lock--2147483648`). It is a
/// sign where the number is one that only a negative sequence has or where the tag ends in a separator without it.
fn split_sequence(text: &str) -> Option<(&str, i32)> {
    let split = text.len().checked_sub(10)?;
    if !text.is_char_boundary(split) {
        return None;
    }
    let (tag, digits) = text.split_at(split);
    if let Some(nine) = digits.strip_prefix('-') {
        // -1 to -999999999, padded to ten characters with the sign.
        return is_number(nine).then(|| nine.parse::<i32>().ok()).flatten().map(|n| (tag, -n));
    }
    if !is_number(digits) {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    if let Some(shorter) = tag.strip_suffix('-')
        && number >= 1_000_000_000
        && (number > i64::from(i32::MAX) || shorter.ends_with(['-', '_']))
        && let Ok(negative) = i32::try_from(-number)
    {
        return Some((shorter, negative));
    }
    Some((tag, i32::try_from(number).ok()?))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// What a node is in the listing of its directory: places stand by their number.
pub(crate) fn order(key: &Key, _: Revision) -> (Rank, Child) {
    match parse(key.name()) {
        Some(place) => (
            Rank::Round(place.sequence.cast_unsigned()),
            Child::new(key.clone(), Some(place.tag), place.nonce),
        ),
        None => (Rank::Other, Child::new(key.clone(), None, None)),
    }
}

/// The children of a directory in order.
pub(crate) fn line(keys: impl Iterator<Item = Key>) -> Vec<Child> {
    in_order(keys.map(|key| order(&key, Revision::ZERO)).collect())
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
