//! Who is granted a permit, and what the others wait for.

use coord_api::{Child, Freshness, Key, Result, Revision, Seen, Tag};

use super::{
    limit::{Known, Limit},
    too_many,
};
use crate::line::{Place, Rule, Verdict};
use crate::planted::{Bug, planted};

/// The tag of an entry that stands for one permit: Curator's. One for several has their number behind it: `lease-3-`.
pub(super) const LEASE: &str = "lease-";

/// What the tag of the mark begins with that a change of the number leaves in the line. The revision of the change is
/// behind it, as in `limit-17-`: a mark that comes late, or again, is known by it to be of the past.
const MARK: &str = "limit-";

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
        for child in ahead.iter().rev().filter(|child| marked(child).is_none()) {
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
        let known = self.limit.at(place, line.iter().filter_map(marked).max()).await?;
        if self.behind(&line[..at], &known)?.is_none() {
            return Ok(Verdict::Granted);
        }
        // Before we wait: there may be more permits than we know of.
        let known = self.limit.look(place, Freshness::Session).await?;
        let Some(nearest) = self.behind(&line[..at], &known)? else { return Ok(Verdict::Granted) };
        let mut seen: Vec<Seen> = nearest.into_iter().map(Seen::Exists).collect();
        seen.push(Seen::Value(self.limit.key().clone(), known.modified));
        Ok(Verdict::Until(seen))
    }
}

/// The tag of the mark of the change at this revision.
pub(super) fn mark(changed: Revision) -> Result<Tag> {
    Tag::new(format!("{MARK}{}-", changed.get()))
}

/// The revision of the change that an entry marks, if it is a mark: it stands for no permit.
pub(super) fn marked(child: &Child) -> Option<Revision> {
    let revision = child.tag.as_ref()?.as_str().strip_prefix(MARK)?.strip_suffix('-')?;
    revision.parse().ok().map(Revision::new)
}

/// How many permits an entry stands for; one, if it is not ours.
fn permits_of(child: &Child) -> u32 {
    let several = child.tag.as_ref().and_then(|tag| tag.as_str().strip_prefix(LEASE)?.strip_suffix('-'));
    several.and_then(|count| count.parse().ok()).unwrap_or(1).max(1)
}
