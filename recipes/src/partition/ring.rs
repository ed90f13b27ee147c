//! A consistent hash: who owns what, as a pure function of the members.

use std::collections::{BTreeMap, BTreeSet};

use coord_api::{Error, ErrorKind, Result};

/// Points of a member on the ring for each unit of its weight.
const POINTS: u32 = 128;
/// Most points of a ring: 16 MiB.
const POINTS_MAX: u64 = 1 << 20;

/// Which member owns which item, by consistent hashing.
///
/// A pure function of members and weights: equal on every process and in every version of this crate. When a member of
/// `n` comes or goes, about one item in `n` changes its owner, and none moves between two members that stayed.
///
/// The function, for other languages: the hash of some bytes is 64-bit FNV-1a, put through the finalizer of MurmurHash3
/// (`fmix64`). A member of weight `w` has `128 w` points; the `i`th is the hash of its id, a zero byte, and `i` as four
/// bytes, big-endian. An item belongs to the first point at or after its hash, around the ring; of equal points the
/// member with the smaller id counts.
///
/// ```
/// # use coord_recipes::HashRing;
///
/// let ring = HashRing::new([("a", 1), ("b", 1), ("c", 2)])?;
/// let owner = ring.owner("shard-17").expect("there are members").to_owned();
/// // The same, without somebody else:
/// let gone = if owner == "a" { "b" } else { "a" };
/// let smaller = HashRing::new([("a", 1), ("b", 1), ("c", 2)].into_iter().filter(|(id, _)| *id != gone))?;
/// assert_eq!(smaller.owner("shard-17"), Some(owner.as_str()));
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashRing {
    /// By id.
    members: Vec<String>,
    /// Sorted; the number is an index of `members`.
    points: Vec<(u64, usize)>,
}

impl HashRing {
    /// The ring of these members, with a weight each. Weight 0 owns nothing.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if an id comes twice, [`LimitExceeded`](ErrorKind::LimitExceeded)
    /// if all weights together are more than 8,192.
    pub fn new<M: Into<String>>(members: impl IntoIterator<Item = (M, u32)>) -> Result<Self> {
        let mut weights = BTreeMap::new();
        for (id, weight) in members {
            let id = id.into();
            if weights.contains_key(&id) {
                return Err(Error::invalid("a member comes twice").with_context("member", id));
            }
            weights.insert(id, weight);
        }
        let total = weights.values().map(|weight| u64::from(*weight) * u64::from(POINTS)).sum::<u64>();
        if total > POINTS_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, "the weights of the members are too large")
                .with_context("sum", total / u64::from(POINTS))
                .with_context("limit", POINTS_MAX / u64::from(POINTS)));
        }
        Ok(Self::with_points(weights.into_iter().map(|(id, weight)| (id, weight * POINTS))))
    }

    /// The ring of these members, with a number of points each instead of 128 for each unit of a weight: for weights
    /// that are large, or many members. A point takes 16 bytes. Of a member that comes twice the last number counts.
    ///
    /// ```
    /// # use coord_recipes::HashRing;
    ///
    /// assert_eq!(HashRing::with_points([("a", 256)]), HashRing::new([("a", 2)])?);
    /// # Ok::<(), coord_api::Error>(())
    /// ```
    #[must_use]
    pub fn with_points<M: Into<String>>(members: impl IntoIterator<Item = (M, u32)>) -> Self {
        let members: BTreeMap<String, u32> =
            members.into_iter().map(|(id, count)| (id.into(), count)).collect();
        let mut points = Vec::new();
        for (index, (id, count)) in members.iter().enumerate() {
            points.extend((0..*count).map(|i| (point(id, i), index)));
        }
        points.sort_unstable();
        Self { members: members.into_keys().collect(), points }
    }

    /// The owner of an item; `None` if nobody has a weight.
    #[must_use]
    pub fn owner(&self, item: impl AsRef<[u8]>) -> Option<&str> {
        self.owners(item).next()
    }

    /// The owner of an item, then who would own it without the owner, and so on: all members with a weight, each once.
    ///
    /// ```
    /// # use coord_recipes::HashRing;
    ///
    /// let ring = HashRing::new([("a", 1), ("b", 1), ("c", 1)])?;
    /// let owners: Vec<&str> = ring.owners("shard-17").collect();
    /// let smaller = HashRing::new([(owners[1], 1), (owners[2], 1)])?;
    /// assert_eq!(smaller.owner("shard-17"), Some(owners[1]));
    /// # Ok::<(), coord_api::Error>(())
    /// ```
    pub fn owners(&self, item: impl AsRef<[u8]>) -> impl Iterator<Item = &str> {
        let hash = hash(item.as_ref());
        let (before, after) = self.points.split_at(self.points.partition_point(|(point, _)| *point < hash));
        let mut seen = BTreeSet::new();
        let members = after.iter().chain(before).map(|(_, member)| *member);
        members
            .filter(move |member| seen.insert(*member))
            .filter_map(|member| self.members.get(member).map(String::as_str))
    }

    /// The members, by id.
    #[must_use]
    pub fn members(&self) -> &[String] {
        &self.members
    }
}

fn point(id: &str, index: u32) -> u64 {
    let mut bytes = Vec::with_capacity(id.len() + 5);
    bytes.extend_from_slice(id.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(&index.to_be_bytes());
    hash(&bytes)
}

/// 64-bit FNV-1a, finished by MurmurHash3's `fmix64`: FNV alone leaves the high bits of short, similar texts alike.
fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut hash = fnv;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEMS: usize = 20_000;

    fn ring(members: &[(&str, u32)]) -> HashRing {
        HashRing::new(members.iter().copied()).unwrap()
    }

    fn owners(ring: &HashRing) -> Vec<String> {
        (0..ITEMS).map(|i| ring.owner(format!("item-{i}")).unwrap().to_owned()).collect()
    }

    fn share(owners: &[String], id: &str) -> f64 {
        f64::from(u32::try_from(owners.iter().filter(|owner| *owner == id).count()).unwrap())
            / f64::from(u32::try_from(ITEMS).unwrap())
    }

    /// What other programs and later versions must compute, too. Never change these numbers.
    #[test]
    fn the_hash_is_the_documented_one_for_ever() {
        assert_eq!(hash(b""), 0xefd0_1f60_ba99_2926);
        assert_eq!(hash(b"a"), 0x82a2_a958_a9be_ce5b);
        assert_eq!(hash(b"shard-17"), 0xc363_a95a_e6c2_1669);
        assert_eq!(point("a", 1), 0xed8f_cb97_218b_6eee);
    }

    #[test]
    fn the_order_of_the_members_does_not_matter() {
        assert_eq!(ring(&[("a", 1), ("b", 2), ("c", 1)]), ring(&[("c", 1), ("b", 2), ("a", 1)]));
    }

    #[test]
    fn about_one_in_n_moves_and_only_to_or_from_the_one_that_changed() {
        let ids: Vec<String> = (0..10).map(|i| format!("member-{i}")).collect();
        let all = HashRing::new(ids.iter().map(|id| (id.as_str(), 1))).unwrap();
        let fewer = HashRing::new(ids.iter().skip(1).map(|id| (id.as_str(), 1))).unwrap();
        let (before, after) = (owners(&all), owners(&fewer));
        let mut moved = 0;
        for (before, after) in before.iter().zip(&after) {
            if before != after {
                assert_eq!(before, "member-0", "an item moved between two that stayed");
                moved += 1;
            }
        }
        assert!((ITEMS / 20..ITEMS / 6).contains(&moved), "{moved} of {ITEMS} moved");
    }

    #[test]
    fn shares_follow_the_weights() {
        let owners = owners(&ring(&[("a", 1), ("b", 1), ("c", 2), ("idle", 0)]));
        for (id, wanted) in [("a", 0.25), ("b", 0.25), ("c", 0.5), ("idle", 0.0)] {
            assert!((share(&owners, id) - wanted).abs() < 0.06, "{id}: {}", share(&owners, id));
        }
    }

    #[test]
    fn a_ring_of_nobody_has_no_owner() {
        assert_eq!(ring(&[]).owner("x"), None);
        assert_eq!(ring(&[("a", 0)]).owner("x"), None);
        assert_eq!(ring(&[("a", 1)]).owner(""), Some("a"));
    }

    #[test]
    fn the_next_owner_is_who_would_be_without_those_before() {
        let members = [("a", 1), ("b", 2), ("c", 1), ("idle", 0)];
        let all = ring(&members);
        for item in 0..200 {
            let owners: Vec<&str> = all.owners(format!("item-{item}")).collect();
            assert_eq!(owners.len(), 3, "{owners:?}");
            for (nth, owner) in owners.iter().enumerate() {
                let gone = owners.get(..nth).unwrap();
                let left: Vec<_> = members.into_iter().filter(|(id, _)| !gone.contains(id)).collect();
                assert_eq!(ring(&left).owner(format!("item-{item}")), Some(*owner), "without {gone:?}");
            }
        }
    }

    #[test]
    fn bad_members_are_refused() {
        assert_eq!(HashRing::new([("a", 1), ("a", 2)]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(HashRing::new([("a", u32::MAX)]).unwrap_err().kind(), ErrorKind::LimitExceeded);
        assert_eq!(HashRing::new([("a", 8192)]).map(|ring| ring.points.len()).unwrap(), 1 << 20);
        assert_eq!(HashRing::new([("a", 8192), ("b", 1)]).unwrap_err().kind(), ErrorKind::LimitExceeded);
    }
}
