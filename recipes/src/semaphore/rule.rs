//! Who is granted a permit, and what the others wait for.

use coord_api::{Child, Freshness, Key, Result, Seen, Tag};

use super::{
    limit::{Known, Limit},
    too_many,
};
use crate::line::{Place, Rule, Verdict};
use crate::planted::{Bug, planted};

/// The tag of an entry that stands for one permit: Curator's. One for several has their number behind it: `lease-3-`.
pub(super) const LEASE: &str = "lease-";

/// The tag of the mark that a change of the number leaves in the line.
pub(super) const MARK: &str = "limit-";

/// Grants `count` permits if, together with all that is ahead, there are so many.
#[derive(Debug)]
pub(super) struct Lease<'l> {
    pub(super) limit: &'l Limit,
    pub(super) count: u32,
}

impl Lease<'_> {
    /// The tag of its entry.
    pub(super) fn tag(&self) -> Result<Tag> {
        match self.count {
            1 => Tag::new(LEASE),
            count => Tag::new(format!("{LEASE}{count}-")),
        }
    }

    /// The entries that must not all stay, or `None` if it is our turn.
    ///
    /// The nearest ones ahead that leave too little: while they all stand there, we cannot be granted, and with releases
    /// in the order of the line the first of them to go is one whose permits are ours.
    fn behind(&self, ahead: &[Child], known: &Known) -> Result<Option<Vec<Key>>> {
        if self.count > known.permits {
            return Err(too_many(self.count, known.permits));
        }
        let mut left = known.permits - self.count + u32::from(planted(Bug::SemaphoreOneTooMany));
        let mut nearest = Vec::new();
        for child in ahead.iter().rev().filter(|child| !is_mark(child)) {
            nearest.push(child.key.clone());
            match left.checked_sub(permits_of(child)) {
                Some(less) => left = less,
                None => return Ok(Some(nearest)),
            }
        }
        Ok(None)
    }
}

impl Rule for Lease<'_> {
    async fn judge(&self, place: &Place, line: &[Child], at: usize) -> Result<Verdict> {
        let mark = line.iter().rev().find(|child| is_mark(child)).map(|child| &child.key);
        let known = self.limit.at(place, mark).await?;
        if self.behind(&line[..at], &known)?.is_none() {
            return Ok(Verdict::Granted);
        }
        // Before we wait: there may be more permits than we know of.
        let known = self.limit.look(place, mark, Freshness::Session).await?;
        let Some(nearest) = self.behind(&line[..at], &known)? else { return Ok(Verdict::Granted) };
        let mut seen: Vec<Seen> = nearest.into_iter().map(Seen::Exists).collect();
        seen.push(Seen::Value(self.limit.key().clone(), known.modified));
        Ok(Verdict::Until(seen))
    }
}

/// Whether it is the mark of a change, which stands for no permit.
pub(super) fn is_mark(child: &Child) -> bool {
    child.tag.as_ref().is_some_and(|tag| tag.as_str() == MARK)
}

/// How many permits an entry stands for; one, if it is not ours.
fn permits_of(child: &Child) -> u32 {
    let several = child.tag.as_ref().and_then(|tag| tag.as_str().strip_prefix(LEASE)?.strip_suffix('-'));
    several.and_then(|count| count.parse().ok()).unwrap_or(1).max(1)
}
