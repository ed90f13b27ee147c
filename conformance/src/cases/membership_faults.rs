//! Groups and their division of work, while links fail.

use std::{sync::Arc, time::Duration};

use coord_api::SessionOptions;
use coord_recipes::{Membership, Partition, SessionKeeper};
use futures::StreamExt;

use super::membership::{GROUP, Watcher, join};
use crate::{CaseResult, Cx, eventually, within};

cases!("membership_faults", needs Link:
    a_dead_member_is_gone_within_the_bound,
    a_member_behind_a_cut_is_back_after_the_heal,
    a_watcher_that_was_cut_off_is_told_the_truth,
    a_member_that_may_be_out_owns_nothing,
);

/// Promise: who dies is no member after its ttl.
///
/// BB-220 (nacos#12095): a power cut left instances in the list. BB-223 (spring-cloud-zookeeper#295): dead ones were
/// served for long.
async fn a_dead_member_is_gone_within_the_bound(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Cx::SHORT));
    let mut dead = Vec::new();
    for id in ["d1", "d2", "d3"] {
        dead.push(Membership::new(&a.coord, GROUP)?.join(&keeper, id, "").await?);
    }
    let alive = join(&b.coord, "alive").await?;
    let mut watcher = Watcher::new(&b.coord).await?;
    watcher.see("all", &[("alive", "alive"), ("d1", ""), ("d2", ""), ("d3", "")]).await?;
    a.link.blackhole().await;
    watcher.see("one is left", &[("alive", "alive")]).await?;
    assert!(alive.is_member() && dead.iter().all(|one| !one.is_member()));
    Ok(())
}

/// Promise: members that lost their session come back by themselves.
async fn a_member_behind_a_cut_is_back_after_the_heal(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Cx::SHORT));
    let one = Membership::new(&a.coord, GROUP)?.join(&keeper, "one", "1").await?;
    let mut watcher = Watcher::new(&b.coord).await?;
    watcher.see("there", &[("one", "1")]).await?;
    a.link.blackhole().await;
    watcher.see("gone", &[]).await?;
    a.link.heal().await;
    watcher.see("back", &[("one", "1")]).await?;
    within("a member", one.registration().registered()).await??;
    assert!(one.is_member());
    Ok(())
}

/// Promise: what a watcher missed it is told after, as who is there now.
async fn a_watcher_that_was_cut_off_is_told_the_truth(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (stays, goes) = (join(&b.coord, "stays").await?, join(&b.coord, "goes").await?);
    let mut watcher = Watcher::new(&a.coord).await?;
    watcher.see("both", &[("goes", "goes"), ("stays", "stays")]).await?;
    a.link.blackhole().await;
    goes.leave().await?;
    stays.update("changed").await?;
    let comes = join(&b.coord, "comes").await?;
    a.link.heal().await;
    watcher.see("the truth", &[("comes", "comes"), ("stays", "changed")]).await?;
    drop(comes);
    watcher.see("and on", &[("stays", "changed")]).await
}

/// Promise: a member that is cut off owns nothing before the others take over its share.
async fn a_member_that_may_be_out_owns_nothing(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let keeper = SessionKeeper::new(&a.coord, SessionOptions::new(Duration::from_secs(3)));
    let one = Membership::new(&a.coord, GROUP)?.join(&keeper, "one", "").await?;
    let two = join(&b.coord, "two").await?;
    let (first, second) = (Partition::new(&one).await?, Partition::new(&two).await?);
    let items: Vec<_> = (0..64).map(|i| format!("item-{i}")).collect();
    let owned = |partition: &Partition| items.iter().filter(|item| partition.is_mine(item)).count();
    eventually("both have a share", || async {
        Ok(owned(&first) > 0 && owned(&second) > 0 && owned(&first) + owned(&second) == items.len())
    })
    .await?;
    let mut shares = first.mine(items.iter().map(String::as_str));
    let share = within("the share", shares.next()).await?.expect("endless")?;
    a.link.blackhole().await;
    eventually("the other has it all", || async {
        let all = owned(&second) == items.len();
        assert!(!all || owned(&first) == 0, "two own an item by the clock");
        Ok(all)
    })
    .await?;
    let nothing = within("told", shares.next()).await?.expect("endless")?;
    assert!(nothing.mine.is_empty() && nothing.lost == share.mine);
    a.link.heal().await;
    let back = within("told", shares.next()).await?.expect("endless")?;
    assert_eq!(back.mine, share.mine, "the same members, the same shares");
    Ok(())
}
