//! Everything below a directory, by the means that every store has: listing and reading.

use std::collections::BTreeMap;

use coord::{Coord, Dir, Key, Revision, SessionId, config_centre::WallTime};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{Failure, age};

/// How many calls are under way at once.
pub(crate) const AT_ONCE: usize = 16;

/// What a walk keeps of a key; not the value.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) owner: Option<SessionId>,
    pub(crate) created: Revision,
    /// Whether it is a place in a line, whose name and order are the store's business.
    pub(crate) place: bool,
    /// When it joined the line, if it tells.
    pub(crate) joined: Option<WallTime>,
    /// Of the value.
    pub(crate) bytes: u64,
}

/// All keys in `dir` and below. Not one moment: what comes or goes meanwhile may be in it or not.
///
/// `seen` hears the number of keys so far.
pub(crate) async fn walk(
    coord: &Coord,
    dir: &Dir,
    mut seen: impl FnMut(usize),
) -> Result<BTreeMap<Key, Found>, Failure> {
    let mut found = BTreeMap::new();
    let mut level = vec![dir.clone()];
    while !level.is_empty() {
        let listings = stream::iter(level).map(|dir| async move { coord.list(&dir).await });
        let listings: Vec<_> = listings.buffered(AT_ONCE).try_collect().await?;
        let children: Vec<_> = listings.into_iter().flat_map(|listing| listing.children).collect();
        // A key may be a directory too where a store of others has it so: Redis and etcd take that.
        level = children.iter().filter(|child| child.tag.is_none()).map(|child| child.key.as_dir()).collect();
        let reads = stream::iter(children).map(|child| async move {
            coord.get(&child.key).await.map(|entry| entry.map(|entry| (entry, child)))
        });
        let mut reads = reads.buffered(AT_ONCE);
        while let Some(read) = reads.try_next().await? {
            let Some((entry, child)) = read else { continue };
            let bytes = u64::try_from(entry.value.len()).unwrap_or(u64::MAX);
            let (place, joined) = (child.tag.is_some(), age::joined(&child));
            let kept = Found { owner: entry.meta.owner, created: entry.meta.created, place, joined, bytes };
            found.insert(entry.key, kept);
            seen(found.len());
        }
    }
    Ok(found)
}
