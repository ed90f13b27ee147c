//! Dividing work between members.

use std::{collections::BTreeSet, sync::Arc};

use coord_api::Coord;
use coord_recipes::{HashRing, Joined, Membership, Partition};
use futures::StreamExt;

use super::{
    membership::{GROUP, join},
    persistent::keeper,
};
use crate::{CaseResult, Cx, Failure, eventually, within};

cases!("partition", needs Store:
    every_item_has_one_owner_on_whom_all_agree,
    a_newcomer_takes_its_share_and_nothing_else_moves,
    shares_follow_the_weights_in_the_payloads,
    who_leaves_owns_nothing_and_is_told,
    a_lost_session_is_a_share_lost_and_gained,
);

fn items() -> Vec<String> {
    (0..200).map(|i| format!("item-{i}")).collect()
}

fn owned(partition: &Partition) -> BTreeSet<String> {
    items().into_iter().filter(|item| partition.is_mine(item)).collect()
}

async fn partitions(coord: &Coord, ids: &[&str]) -> Result<Vec<(Joined, Partition)>, Failure> {
    let mut all = Vec::new();
    for id in ids {
        let one = join(coord, id).await?;
        let partition = Partition::new(&one).await?;
        all.push((one, partition));
    }
    for (_, partition) in &all {
        eventually("all are seen", || async { Ok(partition.ring().members().len() == ids.len()) }).await?;
    }
    Ok(all)
}

/// Promise: once all see the same members, each item is owned by exactly one.
async fn every_item_has_one_owner_on_whom_all_agree(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let all = partitions(&coord, &["a", "b", "c"]).await?;
    let expected = HashRing::new([("a", 1), ("b", 1), ("c", 1)])?;
    for item in items() {
        assert_eq!(all.iter().filter(|(_, partition)| partition.is_mine(&item)).count(), 1, "{item}");
        for (_, partition) in &all {
            assert_eq!(partition.owner(&item).as_deref(), expected.owner(&item));
        }
    }
    Ok(())
}

/// Promise: an item moves to the newcomer or not at all; the streams tell what.
async fn a_newcomer_takes_its_share_and_nothing_else_moves(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let all = partitions(&coord, &["a", "b", "c"]).await?;
    let before: Vec<_> = all.iter().map(|(_, partition)| owned(partition)).collect();
    let mut streams: Vec<_> = all.iter().map(|(_, partition)| partition.mine(items())).collect();
    for (stream, before) in streams.iter_mut().zip(&before) {
        let first = within("the first share", stream.next()).await?.expect("endless")?;
        assert!(first.gained.iter().eq(before) && first.lost.is_empty());
    }
    let newcomer = join(&coord, "d").await?;
    let partition = Partition::new(&newcomer).await?;
    eventually("the newcomer sees all", || async { Ok(partition.ring().members().len() == 4) }).await?;
    let taken = owned(&partition);
    assert!(!taken.is_empty() && taken.len() < 120, "{} of 200", taken.len());
    let mut lost = BTreeSet::new();
    for (stream, before) in streams.iter_mut().zip(&before) {
        let share = within("the change", stream.next()).await?.expect("endless")?;
        assert!(share.gained.is_empty() && share.lost.iter().all(|item| before.contains(item)));
        lost.extend(share.lost);
    }
    assert_eq!(lost, taken);
    newcomer.leave().await?;
    for (stream, before) in streams.iter_mut().zip(&before) {
        let share = within("the change back", stream.next()).await?.expect("endless")?;
        assert!(share.mine.iter().eq(before));
    }
    Ok(())
}

/// Promise: who says it takes more gets more.
async fn shares_follow_the_weights_in_the_payloads(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let group = Membership::new(&coord, GROUP)?;
    let weight = |member: &coord_recipes::Member| {
        std::str::from_utf8(member.payload()).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
    };
    let small = group.join(&keeper(&coord), "small", "1").await?;
    let large = group.join(&keeper(&coord), "large", "3").await?;
    let (few, many) =
        (Partition::with_weights(&small, weight).await?, Partition::with_weights(&large, weight).await?);
    eventually("the larger has more", || async {
        Ok(owned(&few).len() + owned(&many).len() == 200 && owned(&many).len() > 2 * owned(&few).len())
    })
    .await?;
    // A weight of 0 is a pause.
    large.update("0").await?;
    eventually("it has nothing", || async { Ok(owned(&many).is_empty() && owned(&few).len() == 200) }).await
}

/// Promise: leaving ends the share, at once and by itself.
async fn who_leaves_owns_nothing_and_is_told(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let mut all = partitions(&coord, &["a", "b"]).await?;
    let (leaves, partition) = all.remove(0);
    let mut stream = partition.mine(items());
    let share = within("the share", stream.next()).await?.expect("endless")?;
    leaves.leave().await?;
    assert!(owned(&partition).is_empty());
    let end = within("told", stream.next()).await?.expect("told")?;
    assert!(end.lost == share.mine && end.mine.is_empty());
    assert!(within("the end", stream.next()).await?.is_some_and(|end| end.is_err()));
    let (_, rest) = &all[0];
    eventually("the other has it all", || async { Ok(owned(rest).len() == 200) }).await
}

/// Promise: no share is held on the strength of a session that is over.
async fn a_lost_session_is_a_share_lost_and_gained(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let kept = keeper(&coord);
    let one = Membership::new(&coord, GROUP)?.join(&kept, "one", "").await?;
    let partition = Partition::new(&one).await?;
    let mut stream = partition.mine(items());
    assert_eq!(within("the share", stream.next()).await?.expect("endless")?.mine.len(), 200);
    kept.session().await?.close().await?;
    assert!(owned(&partition).is_empty());
    let lost = within("told", stream.next()).await?.expect("endless")?;
    assert_eq!((lost.mine.len(), lost.lost.len()), (0, 200));
    let gained = within("told", stream.next()).await?.expect("endless")?;
    assert_eq!((gained.mine.len(), gained.gained.len()), (200, 200));
    Ok(())
}
