//! What members of a group take for their own.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Session, Stored},
};

/// The items of a group at a settled moment: who owns each.
struct Settled {
    owned: BTreeMap<u64, usize>,
    of: u64,
    last: usize,
}

/// Members that see the same members divide the items alike: no item is two members'. Who has dropped out with its
/// session owns nothing. When all is calm, each item is somebody's.
///
/// While a change spreads, members see different members and may both take an item: that is not judged. A session that
/// somebody ended by hand is not either, since its owner cannot know.
///
/// # Errors
/// `share-twice`: two members take an item for theirs and see the same members; `share-outlived`: a member whose session
/// the store has ended owns something; `share-nobody`: an item that is nobody's when all is calm.
pub fn shares(history: &History) -> Verdict {
    let mut stats = Stats::default();
    // Who owns an item, by those who see the same members.
    let mut owners: BTreeMap<(&str, &[String], u64), (&str, usize)> = BTreeMap::new();
    let mut settled: BTreeMap<&str, Settled> = BTreeMap::new();
    let mut sessions: BTreeMap<String, u64> = BTreeMap::new();
    let mut dropped: BTreeMap<String, usize> = BTreeMap::new();
    let mut by_hand: BTreeSet<u64> = BTreeSet::new();
    for (at, what) in history.facts() {
        match what {
            What::Stored(Stored::Put { key, session: Some(session), .. }) => {
                sessions.insert(key.clone(), *session);
                dropped.remove(key);
            }
            What::Stored(Stored::Gone { key, with_session: true, .. })
                if !sessions.get(key).is_some_and(|session| by_hand.contains(session)) =>
            {
                dropped.insert(key.clone(), at);
            }
            What::Session(Session::Closed { session }) => drop(by_hand.insert(*session)),
            What::Share(share) => {
                stats.judged += 1;
                stats.contended += usize::from(share.ring.len() > 1);
                if let (Some(gone), false) =
                    (dropped.get(&format!("{}{}", share.dir, share.member)), share.items.is_empty())
                {
                    let message = format!("{} owns {:?} and is there no more", share.member, share.items);
                    return Err(Violation::new("share-outlived", message, [*gone, at]));
                }
                for item in &share.items {
                    let (owner, when) =
                        owners.entry((&share.dir, &share.ring, *item)).or_insert((&share.member, at));
                    if *owner != share.member {
                        let message = format!("{item} is {owner}'s and {}'s", share.member);
                        return Err(Violation::new("share-twice", message, [*when, at]));
                    }
                }
                if share.settled {
                    let all = settled.entry(&share.dir).or_insert_with(|| Settled {
                        owned: BTreeMap::new(),
                        of: share.of,
                        last: at,
                    });
                    all.last = at;
                    all.owned.extend(share.items.iter().map(|item| (*item, at)));
                }
            }
            _ => {}
        }
    }
    for (dir, all) in settled {
        if let Some(item) = (0..all.of).find(|item| !all.owned.contains_key(item)) {
            return Err(Violation::new("share-nobody", format!("{dir}: {item} is nobody's"), [all.last]));
        }
    }
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::Share,
            story::{breaks, story},
        },
        *,
    };

    fn share(member: &str, ring: &[&str], items: &[u64], settled: bool) -> What {
        let ring = ring.iter().map(|&member| member.to_owned()).collect();
        let (dir, member, items) = ("/g/".to_owned(), member.to_owned(), items.to_vec());
        Share { dir, member, ring, items, of: 2, settled }.into()
    }

    fn put() -> What {
        Stored::Put { key: "/g/a".into(), revision: 1, value: 1, session: Some(7) }.into()
    }

    fn gone() -> What {
        Stored::Gone { key: "/g/a".into(), revision: 2, with_session: true }.into()
    }

    #[test]
    fn the_same_view_gives_one_owner() {
        let both = ["a", "b"];
        shares(&story([share("a", &both, &[0], true), share("b", &both, &[1], true)])).unwrap();
        // They see different members.
        shares(&story([share("a", &["a"], &[0, 1], false), share("b", &both, &[1], false)])).unwrap();
        breaks(
            shares(&story([share("a", &both, &[0], false), share("b", &both, &[0], false)])),
            "share-twice",
        );
    }

    #[test]
    fn who_dropped_out_owns_nothing() {
        shares(&story([put(), gone(), share("a", &["a"], &[], false)])).unwrap();
        breaks(shares(&story([put(), gone(), share("a", &["a"], &[0], false)])), "share-outlived");
        shares(&story([put(), gone(), put(), share("a", &["a"], &[0], false)])).unwrap();
        let by_hand = Session::Closed { session: 7 };
        shares(&story([put(), by_hand.into(), gone(), share("a", &["a"], &[0], false)])).unwrap();
    }

    #[test]
    fn each_item_is_somebodys_in_the_end() {
        breaks(shares(&story([share("a", &["a", "b"], &[0], true)])), "share-nobody");
    }
}
