//! Several locks at once: all or none, in one order.

use std::collections::BTreeMap;

use super::{
    History, Stats, Verdict, Violation, What,
    facts::Line,
    holds::{Ask, asks},
};

/// A group of asks is granted as a whole or refused as a whole, and all groups join the lines of the names that they
/// share in one order. What a refused group leaves in a line is found by [`leaks`](super::leaks).
///
/// # Errors
/// `multi-part`: a group of which one part was granted and another refused; `multi-order`: two groups that joined two
/// lines in opposite orders.
pub fn multi(history: &History) -> Verdict {
    let mut groups: BTreeMap<u64, Vec<Ask<'_>>> = BTreeMap::new();
    let mut group_of: BTreeMap<u64, u64> = BTreeMap::new();
    for (id, ask) in asks(history) {
        if let Some(group) = ask.group {
            group_of.insert(id, group);
            groups.entry(group).or_default().push(ask);
        }
    }
    let mut stats = Stats::default();
    for (group, asks) in &groups {
        stats.judged += 1;
        let granted = asks.iter().find_map(|ask| ask.granted.map(|grant| grant.at));
        let refused = asks.iter().find_map(|ask| ask.refused);
        if let (Some(granted), Some(refused)) = (granted, refused) {
            let message = format!("group {group}: one part granted, another refused");
            return Err(Violation::new("multi-part", message, [granted, refused]));
        }
    }
    let mut joins: Joins<'_> = BTreeMap::new();
    for (at, what) in history.facts() {
        let What::Line(Line::Joined { name, ask: Some(ask), .. }) = what else { continue };
        if let Some(group) = group_of.get(ask) {
            joins.entry(*group).or_default().push((name, at));
        }
    }
    stats.contended = one_order(&joins)?;
    Ok(stats)
}

/// The lines that each group joined, in order.
type Joins<'a> = BTreeMap<u64, Vec<(&'a str, usize)>>;

/// How many pairs of groups share two lines; all must have joined them in the same order.
fn one_order(joins: &Joins<'_>) -> Result<usize, Violation> {
    // Which name was joined before which, and where that was seen first.
    let mut before: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    let mut shared = 0;
    for joined in joins.values() {
        for (at, (first, one)) in joined.iter().enumerate() {
            for (second, two) in joined[at + 1..].iter().filter(|(second, _)| second != first) {
                if let Some((other, another)) = before.get(&(*second, *first)) {
                    let message = format!("{first} and {second} were joined in both orders");
                    return Err(Violation::new("multi-order", message, [*one, *two, *other, *another]));
                }
                shared += usize::from(before.insert((first, second), (*one, *two)).is_some());
            }
        }
    }
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::{Hold, Mode},
            story::{breaks, story},
        },
        *,
    };

    fn asked(ask: u64, name: &str, group: u64) -> What {
        Hold::Asked { ask, name: name.into(), owner: group, mode: Mode::Exclusive, group: Some(group) }.into()
    }

    fn granted(ask: u64) -> What {
        Hold::Granted { ask, token: ask.into(), entry: ask }.into()
    }

    fn refused(ask: u64) -> What {
        Hold::Refused { ask }.into()
    }

    fn joined(ask: u64, name: &str) -> What {
        Line::Joined { name: name.into(), entry: ask, session: 1, mode: Mode::Exclusive, ask: Some(ask) }
            .into()
    }

    #[test]
    fn all_or_none() {
        multi(&story([asked(1, "/a", 9), asked(2, "/b", 9), granted(1), granted(2)])).unwrap();
        multi(&story([asked(1, "/a", 9), asked(2, "/b", 9), refused(1), refused(2)])).unwrap();
        let half = story([asked(1, "/a", 9), asked(2, "/b", 9), granted(1), refused(2)]);
        breaks(multi(&half), "multi-part");
    }

    #[test]
    fn one_order_for_all() {
        let ask = [asked(1, "/a", 8), asked(2, "/b", 8), asked(3, "/a", 9), asked(4, "/b", 9)];
        let [a, b, c, d] = ask.clone();
        let same = story([a, b, c, d, joined(1, "/a"), joined(2, "/b"), joined(3, "/a"), joined(4, "/b")]);
        assert_eq!(multi(&same).unwrap().contended, 1);
        let [a, b, c, d] = ask;
        let cross = story([a, b, c, d, joined(1, "/a"), joined(2, "/b"), joined(4, "/b"), joined(3, "/a")]);
        breaks(multi(&cross), "multi-order");
    }
}
