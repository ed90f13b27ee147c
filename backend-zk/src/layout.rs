//! How names in a directory become places in a line: Curator's layout.
//!
//! `_c_<uuid>-<tag><sequence>`, where the uuid and its frame may be missing in names of other programs. The sequence
//! is a signed 32-bit counter printed with `%010d`: after 2147483647 comes -2147483648, so places are ordered by
//! serial-number arithmetic and never as text.

use coord_api::{Child, Entry, Nonce, Tag};

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

/// Orders the children of a directory: places by their number, then all others by name.
pub(crate) fn order(entries: &[&Entry]) -> Vec<Child> {
    line(entries.iter().map(|entry| entry.key.clone()))
}

/// The same for keys, in any order.
pub(crate) fn line(keys: impl Iterator<Item = coord_api::Key>) -> Vec<Child> {
    let mut places = Vec::new();
    let mut others = Vec::new();
    for key in keys {
        match parse(key.name()) {
            Some(place) => {
                places.push((place.sequence.cast_unsigned(), Child::new(key, Some(place.tag), place.nonce)))
            }
            None => others.push(Child::new(key, None, None)),
        }
    }
    places.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.key.cmp(&y.key)));
    let first = first_in_line(&places.iter().map(|(number, _)| *number).collect::<Vec<_>>());
    places.rotate_left(first);
    others.sort_by(|x, y| x.key.cmp(&y.key));
    places.into_iter().map(|(_, child)| child).chain(others).collect()
}

/// The index of the oldest of some counter readings, sorted as unsigned numbers.
///
/// The counter runs in a circle; what is in line covers less than half of it, so the oldest stands behind the
/// largest gap. Unlike a comparison of two numbers this is an order whatever strangers write.
fn first_in_line(sorted: &[u32]) -> usize {
    let Some(last) = sorted.last() else { return 0 };
    let mut best = 0;
    let mut largest = 0;
    let mut before = *last;
    for (index, number) in sorted.iter().enumerate() {
        let gap = number.wrapping_sub(before);
        if gap > largest {
            largest = gap;
            best = index;
        }
        before = *number;
    }
    best
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
