//! Barriers while links fail.

use std::sync::Arc;

use coord_api::ErrorKind;
use coord_recipes::{Barrier, DoubleBarrier};

use super::lock::entries;
use crate::{CaseResult, Cx, eventually, within};

cases!("double_barrier_faults", needs Link:
    a_gate_removed_behind_a_cut_lets_the_waiter_go,
    any_lost_reply_lets_the_group_in_and_out,
    a_member_cut_off_inside_is_not_waited_for_longer_than_its_session,
    a_member_cut_off_outside_does_not_complete_the_group,
);

/// Promise: a waiter that was cut off while the gate was removed goes on when it is back.
async fn a_gate_removed_behind_a_cut_lets_the_waiter_go(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (here, there) = (Barrier::new(&a.coord, "/gates/x")?, Barrier::new(&b.coord, "/gates/x")?);
    assert!(there.set().await?);
    let waiter = tokio::spawn(async move { here.wait().await });
    a.link.reset().await?;
    a.link.blackhole().await;
    assert!(there.remove().await?);
    a.link.heal().await;
    within("the waiter", waiter).await?.expect("no panic")?;
    Ok(())
}

/// Promise: whichever reply is lost, each member has one entry, gets in with the group and out again.
async fn any_lost_reply_lets_the_group_in_and_out(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) = (a.coord.session(Cx::LONG).await?, b.coord.session(Cx::LONG).await?);
    let (here, there) = (
        DoubleBarrier::new(&session_a, "/barriers/x", 2)?,
        DoubleBarrier::new(&session_b, "/barriers/x", 2)?,
    );
    for nth in 1..=6 {
        a.link.lose_reply(nth).await?;
        let round = futures::future::try_join(here.enter(), there.enter());
        let (one, two) = within(&format!("entering with reply {nth} lost"), round).await??;
        assert_eq!(entries(&b.coord, "/barriers/x").await?, 2, "reply {nth} lost");
        let round = futures::future::try_join(one.leave(), two.leave());
        within(&format!("leaving with reply {nth} lost"), round).await??;
        assert_eq!(entries(&b.coord, "/barriers/x").await?, 0, "reply {nth} lost");
    }
    Ok(())
}

/// Promise: a member that is cut off inside has left for the others once its session is over, and is told.
async fn a_member_cut_off_inside_is_not_waited_for_longer_than_its_session(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) = (a.coord.session(Cx::SHORT).await?, b.coord.session(Cx::LONG).await?);
    let (here, there) = (
        DoubleBarrier::new(&session_a, "/barriers/x", 2)?,
        DoubleBarrier::new(&session_b, "/barriers/x", 2)?,
    );
    let (cut, healthy) = within("entering", futures::future::try_join(here.enter(), there.enter())).await??;
    a.link.blackhole().await;
    let leaving = tokio::spawn(healthy.leave());
    within("the member is told", cut.lost()).await?;
    assert!(!cut.is_valid());
    within("the other leaves", leaving).await?.expect("no panic")?;
    a.link.heal().await;
    Ok(())
}

/// Promise: a member that is cut off before the round opens is told when its session is over, and does not count.
async fn a_member_cut_off_outside_does_not_complete_the_group(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) = (a.coord.session(Cx::SHORT).await?, b.coord.session(Cx::LONG).await?);
    let here = DoubleBarrier::new(&session_a, "/barriers/x", 2)?;
    let there = DoubleBarrier::new(&session_b, "/barriers/x", 2)?;
    let cut = tokio::spawn(async move { here.enter().await });
    eventually("it is here", || async { Ok(entries(&b.coord, "/barriers/x").await? == 1) }).await?;
    a.link.blackhole().await;
    let error = within("it is told", cut).await?.expect("no panic").expect_err("its session is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    eventually("its entry is gone", || async { Ok(entries(&b.coord, "/barriers/x").await? == 0) }).await?;
    a.link.heal().await;
    let round = futures::future::try_join(there.enter(), there.enter());
    let (one, two) = within("the others enter", round).await??;
    within("and leave", futures::future::try_join(one.leave(), two.leave())).await??;
    Ok(())
}
