//! The names in directories, kept in the order of their listings while keys come and go.

use std::collections::{BTreeMap, HashMap};

use crate::{Child, Dir, Entry, Key, Revision};

/// Where a name stands in the listing of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A place in the line, by a number that only grows.
    Place(u64),
    /// A place in the line, by a counter that begins again behind its largest number.
    Round(u32),
    /// No place: behind all of them, by name.
    Other,
}

/// The layout's rule: what a key that is directly in its directory is in the listing. Gets the key and the revision that
/// created it.
pub type LineOrder = fn(&Key, Revision) -> (Rank, Child);

/// Puts the children of a directory in order; a name that is there twice, as a key and as a directory, is shown once.
///
/// ```
/// use coord_api::{Child, Key, kit::{Rank, in_order}};
///
/// let child = |name| Child::new(Key::from_store(name), None, None);
/// let line = in_order(vec![(Rank::Other, child("/l/a")), (Rank::Place(7), child("/l/z")), (Rank::Place(3), child("/l/y"))]);
/// assert_eq!(line.iter().map(|child| child.key.name()).collect::<Vec<_>>(), ["y", "z", "a"]);
/// ```
#[must_use]
pub fn in_order(mut children: Vec<(Rank, Child)>) -> Vec<Child> {
    children.sort_by(|(a, x), (b, y)| (a, &x.key).cmp(&(b, &y.key)));
    children.dedup_by(|(a, x), (b, y)| a == b && x.key == y.key);
    let oldest = oldest(children.iter().map(|(rank, _)| rank));
    turned(children.into_iter().map(|(_, child)| child).collect(), oldest)
}

/// The names in the directories of a copy, so that a listing costs no more than to copy it.
///
/// A line of a thousand is listed twice a grant. It is put in order when it is listed first, and kept so from then on.
#[derive(Debug)]
pub struct Names {
    order: LineOrder,
    listed: HashMap<Dir, Children>,
}

#[derive(Debug, Default)]
struct Children {
    /// Each with the number of keys that it stands for: itself, and those below it.
    names: BTreeMap<(Rank, Key), (Child, usize)>,
    /// How many keys are not directly in the directory.
    deeper: usize,
}

impl Names {
    /// Nothing is listed yet.
    #[must_use]
    pub fn new(order: LineOrder) -> Self {
        Self { order, listed: HashMap::new() }
    }

    /// A key was created. `dirs` are those that it is in, at least as far up as any that is listed.
    pub fn insert(&mut self, dirs: &[Dir], entry: &Entry) {
        for dir in dirs {
            if let Some(children) = self.listed.get_mut(dir) {
                children.insert(self.order, dir, entry);
            }
        }
    }

    /// A key was deleted; `entry` is what was inserted.
    pub fn remove(&mut self, dirs: &[Dir], entry: &Entry) {
        for dir in dirs {
            if let Some(children) = self.listed.get_mut(dir) {
                children.remove(self.order, dir, entry);
                if children.names.is_empty() {
                    self.listed.remove(dir);
                }
            }
        }
    }

    /// Everything may be another.
    pub fn clear(&mut self) {
        self.listed.clear();
    }

    /// The names in `dir` of all that `entries` hold.
    #[must_use]
    pub fn listing(&mut self, dir: &Dir, entries: &BTreeMap<Key, Entry>) -> Vec<Child> {
        let children = self.children(dir, entries).in_order();
        if children.is_empty() {
            self.listed.remove(dir);
        }
        children
    }

    /// The same, if all keys below `dir` are directly in it.
    #[must_use]
    pub fn flat_listing(&mut self, dir: &Dir, entries: &BTreeMap<Key, Entry>) -> Option<Vec<Child>> {
        let flat = self.children(dir, entries).deeper == 0;
        flat.then(|| self.listing(dir, entries))
    }

    fn children(&mut self, dir: &Dir, entries: &BTreeMap<Key, Entry>) -> &Children {
        let order = self.order;
        self.listed.entry(dir.clone()).or_insert_with(|| {
            let mut children = Children::default();
            let first = Key::from_store(&dir.prefix());
            let below = entries.range(first..).take_while(|(key, _)| dir.contains(key));
            below.for_each(|(_, entry)| children.insert(order, dir, entry));
            children
        })
    }
}

impl Children {
    fn insert(&mut self, order: LineOrder, dir: &Dir, entry: &Entry) {
        let Some((rank, child, direct)) = seen_from(order, dir, entry) else { return };
        self.deeper += usize::from(!direct);
        self.names.entry((rank, child.key.clone())).or_insert((child, 0)).1 += 1;
    }

    fn remove(&mut self, order: LineOrder, dir: &Dir, entry: &Entry) {
        let Some((rank, child, direct)) = seen_from(order, dir, entry) else { return };
        let name = (rank, child.key);
        let Some((_, keys)) = self.names.get_mut(&name) else { return };
        *keys -= 1;
        if *keys == 0 {
            self.names.remove(&name);
        }
        self.deeper -= usize::from(!direct);
    }

    fn in_order(&self) -> Vec<Child> {
        let children = self.names.values().map(|(child, _)| child.clone()).collect();
        turned(children, oldest(self.names.keys().map(|(rank, _)| rank)))
    }
}

/// What `entry` is in the listing of `dir`, and whether it is directly in it.
fn seen_from(order: LineOrder, dir: &Dir, entry: &Entry) -> Option<(Rank, Child, bool)> {
    let rest = dir.relative(&entry.key)?;
    if !rest.contains('/') {
        let (rank, child) = order(&entry.key, entry.meta.created);
        return Some((rank, child, true));
    }
    Some((Rank::Other, Child::new(dir.child_towards(&entry.key)?, None, None), false))
}

/// Begins the places with the oldest.
fn turned(mut children: Vec<Child>, (oldest, places): (usize, usize)) -> Vec<Child> {
    children[..places].rotate_left(oldest);
    children
}

/// Which of the sorted readings of a round counter is the oldest, and how many there are; 0 of 0 for other ranks.
///
/// What is in line covers less than half of the circle, so the oldest stands behind the largest gap. Unlike a comparison
/// of two numbers this is an order whatever strangers write.
fn oldest<'r>(ranks: impl Iterator<Item = &'r Rank> + Clone) -> (usize, usize) {
    let numbers = ranks.map_while(|rank| match rank {
        Rank::Round(number) => Some(*number),
        Rank::Place(_) | Rank::Other => None,
    });
    let Some(last) = numbers.clone().last() else { return (0, 0) };
    let (mut oldest, mut largest, mut before, mut count) = (0, 0, last, 0);
    for (index, number) in numbers.enumerate() {
        let gap = number.wrapping_sub(before);
        if gap > largest {
            (oldest, largest) = (index, gap);
        }
        before = number;
        count = index + 1;
    }
    (oldest, count)
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
