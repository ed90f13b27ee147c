//! Barriers, while everything works.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, Dir, ErrorKind, Freshness, Lifetime, OrderedCreate, Session, Tag};
use coord_recipes::{Barrier, DoubleBarrier, Entered};

use super::lock::entries;
use crate::{CaseResult, Cx, Failure, eventually, sweep::drop_after, within};

cases!("double_barrier", needs Store:
    a_gate_holds_everybody_until_it_is_removed,
    a_gate_is_set_once_and_waits_in_time,
    a_group_enters_together_and_leaves_together,
    rounds_follow_each_other_and_nobody_slips_into_two,
    more_than_agreed_wait_for_the_next_round,
    a_cancelled_member_is_not_counted,
    dropping_at_any_await_point_leaves_nothing_behind,
    a_member_that_dies_outside_is_not_counted_and_inside_has_left,
    tries_and_time_outs_leave_nothing_behind,
    bad_numbers_are_refused,
    keys_of_others_are_no_members,
    a_join_that_nobody_knows_of_is_no_member,
    a_foreign_key_of_the_round_is_refused_and_untouched,
);

type Entering = tokio::task::JoinHandle<coord_api::Result<Entered>>;

/// Starts to enter in a task, and returns once `here` members stand at the barrier.
async fn come(session: &Session, members: usize, here: usize) -> Result<Entering, Failure> {
    let barrier = DoubleBarrier::new(session, "/barriers/x", members)?;
    let entering = tokio::spawn(async move { barrier.enter().await });
    let coord = session.coord().clone();
    eventually("the member is here", || async {
        Ok(entries(&coord, "/barriers/x").await? >= here && all_have_said_so(&coord).await?)
    })
    .await?;
    Ok(entering)
}

/// Whether all members in the line have said that they are there.
async fn all_have_said_so(coord: &Coord) -> Result<bool, Failure> {
    let latest = coord.clone().with_freshness(Freshness::Latest);
    for child in latest.list("/barriers/x").await?.children {
        let member = child.tag.is_some_and(|tag| tag.as_str() == "member-");
        if member && latest.get(&child.key).await?.is_some_and(|entry| entry.value.is_empty()) {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn entered(entering: Entering) -> Result<Entered, Failure> {
    Ok(within("the member enters", entering).await?.expect("no panic")?)
}

/// Promise: everybody who comes while the gate is set waits, and all go on when it is removed.
async fn a_gate_holds_everybody_until_it_is_removed(cx: Arc<Cx>) -> CaseResult {
    let (near, far) =
        (Barrier::new(&cx.coord().await?, "/gates/x")?, Barrier::new(&cx.coord().await?, "/gates/x")?);
    assert!(near.set().await?);
    let waiters: Vec<_> = (0..32)
        .map(|i| {
            let barrier = if i % 2 == 0 { near.clone() } else { far.clone() };
            tokio::spawn(async move { barrier.wait().await })
        })
        .collect();
    assert!(!far.wait_timeout(Duration::from_millis(200)).await?);
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    assert!(far.remove().await?);
    for waiter in waiters {
        within("every waiter", waiter).await?.expect("no panic")?;
    }
    Ok(())
}

/// Promise: setting and removing say whether they did it; a gate that is not set holds nobody.
async fn a_gate_is_set_once_and_waits_in_time(cx: Arc<Cx>) -> CaseResult {
    let barrier = Barrier::new(&cx.coord().await?, "/gates/x")?;
    within("open", barrier.wait()).await??;
    assert!(barrier.wait_timeout(Duration::ZERO).await? && !barrier.is_set().await?);
    assert!(barrier.set().await? && !barrier.set().await? && barrier.is_set().await?);
    assert!(!barrier.wait_timeout(Duration::ZERO).await?);
    assert!(barrier.remove().await? && !barrier.remove().await?);
    assert!(within("for ever", barrier.wait_timeout(Duration::MAX)).await??);
    assert_eq!(Barrier::new(&cx.coord().await?, "/").expect_err("no key").kind(), ErrorKind::InvalidArgument);
    Ok(())
}

/// Promise: nobody enters before all are here, and leaving ends for nobody before all have left.
async fn a_group_enters_together_and_leaves_together(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let first = come(&a, 3, 1).await?;
    let second = come(&b, 3, 2).await?;
    assert!(!first.is_finished() && !second.is_finished(), "one is missing");
    let third = come(&b, 3, 3).await?;
    let (first, second, third) = (entered(first).await?, entered(second).await?, entered(third).await?);
    assert_eq!(first.members(), 3);
    assert!(first.is_valid());

    let leaving = [tokio::spawn(first.leave()), tokio::spawn(second.leave())];
    eventually("two have left", || async { Ok(entries(a.coord(), "/barriers/x").await? == 1) }).await?;
    assert!(leaving.iter().all(|leaving| !leaving.is_finished()), "one is inside");
    within("the last leaves", third.leave()).await??;
    for leaving in leaving {
        within("the others", leaving).await?.expect("no panic")?;
    }
    Ok(())
}

/// GH-1290 of Curator: who is fast and comes again while others are inside waits for the next round, whatever wakes it.
async fn rounds_follow_each_other_and_nobody_slips_into_two(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    for _ in 0..3 {
        let (one, two) = (come(&a, 2, 1).await?, come(&b, 2, 2).await?);
        let (fast, slow) = (entered(one).await?, entered(two).await?);
        let leaving = tokio::spawn(fast.leave());
        eventually("the fast one has left", || async { Ok(entries(a.coord(), "/barriers/x").await? == 1) })
            .await?;
        let again = come(&a, 2, 2).await?;
        let other = come(&a, 2, 3).await?;
        assert!(!again.is_finished() && !other.is_finished(), "the slow one is inside");
        within("the slow one leaves", slow.leave()).await??;
        within("the fast one", leaving).await?.expect("no panic")?;
        let (again, other) = (entered(again).await?, entered(other).await?);
        within("the next round ends", futures::future::try_join(again.leave(), other.leave())).await??;
    }
    assert_eq!(entries(a.coord(), "/barriers/x").await?, 0);
    Ok(())
}

/// BB-292 (CURATOR-233, CURATOR-536), BB-295 (etcd#14603): five are agreed and eight come; five pass, leaving ends for
/// them, and the others wait for a round of their own.
async fn more_than_agreed_wait_for_the_next_round(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let mut all = Vec::new();
    for i in 0..8 {
        all.push(come(&session, 5, i + 1).await?);
    }
    let late = all.split_off(5);
    let mut inside = Vec::new();
    for entering in all {
        inside.push(entered(entering).await?);
    }
    assert!(late.iter().all(|entering| !entering.is_finished()), "no more than agreed");
    within("leaving ends", futures::future::try_join_all(inside.into_iter().map(Entered::leave))).await??;
    assert!(late.iter().all(|entering| !entering.is_finished()), "three are not enough");
    let mut next = vec![come(&session, 5, 4).await?, come(&session, 5, 5).await?];
    next.extend(late);
    let mut inside = Vec::new();
    for entering in next {
        inside.push(entered(entering).await?);
    }
    within("leaving ends", futures::future::try_join_all(inside.into_iter().map(Entered::leave))).await??;
    Ok(())
}

/// BB-293 (CURATOR-80): who gives up before the round opens is not counted.
async fn a_cancelled_member_is_not_counted(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let first = come(&session, 3, 1).await?;
    let gone = come(&session, 3, 2).await?;
    gone.abort();
    eventually("it has left", || async { Ok(entries(session.coord(), "/barriers/x").await? == 1) }).await?;
    let second = come(&session, 3, 2).await?;
    assert!(!first.is_finished() && !second.is_finished(), "two are not three");
    let third = come(&session, 3, 3).await?;
    for entering in [first, second, third] {
        drop(entered(entering).await?);
    }
    eventually("all have left", || async { Ok(entries(session.coord(), "/barriers/x").await? == 0) }).await
}

/// Promise: entering that is dropped at any await point leaves nothing behind (G9).
async fn dropping_at_any_await_point_leaves_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let alone = DoubleBarrier::new(&session, "/barriers/x", 1)?;
    for polls in 1.. {
        let ended = within("entering", drop_after(alone.enter(), polls)).await?;
        if let Some(entered) = ended {
            within("leaving", entered?.leave()).await??;
            break;
        }
        eventually("it has left", || async { Ok(entries(session.coord(), "/barriers/x").await? == 0) })
            .await?;
    }
    // And leaving, too: the entry goes whenever the future is dropped.
    for polls in 1.. {
        let entered = within("entering", alone.enter()).await??;
        let left = within("leaving", drop_after(entered.leave(), polls)).await?.is_some();
        eventually("it has left", || async { Ok(entries(session.coord(), "/barriers/x").await? == 0) })
            .await?;
        if left {
            break;
        }
    }
    Ok(())
}

/// Promise: a member whose session ends before the round is not counted, and one whose session ends in it has left.
async fn a_member_that_dies_outside_is_not_counted_and_inside_has_left(cx: Arc<Cx>) -> CaseResult {
    let (a, b, c) = (cx.session().await?, cx.session().await?, cx.session().await?);
    let first = come(&a, 2, 1).await?;
    let doomed = come(&b, 3, 2).await?;
    b.close().await?;
    let error = within("it is told", doomed).await?.expect("no panic").expect_err("its session is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert_eq!(entries(a.coord(), "/barriers/x").await?, 1);
    assert!(!first.is_finished());
    let second = come(&c, 2, 2).await?;
    let (first, second) = (entered(first).await?, entered(second).await?);
    let leaving = tokio::spawn(first.leave());
    c.close().await?;
    within("the dead are not waited for", leaving).await?.expect("no panic")?;
    // It has left with its session; whether it can be told that all have depends on the store.
    if let Err(error) = second.leave().await {
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    }
    Ok(())
}

/// Promise: who does not get in in time is gone, and zero is one try.
async fn tries_and_time_outs_leave_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let barrier = DoubleBarrier::new(&session, "/barriers/x", 2)?;
    for timeout in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(200)] {
        assert!(within("the try", barrier.enter_timeout(timeout)).await??.is_none());
        eventually("it has left", || async { Ok(entries(session.coord(), "/barriers/x").await? == 0) })
            .await?;
    }
    let first = come(&session, 2, 1).await?;
    let second = barrier.enter_timeout(Duration::ZERO).await?.expect("it makes the group complete");
    let first = entered(first).await?;
    assert!(!first.leave_timeout(Duration::from_millis(200)).await?, "the second is inside");
    assert!(within("both have left", second.leave_timeout(Duration::MAX)).await??);
    Ok(())
}

/// Promise: a barrier of nobody, or of a crowd that no transaction holds, is refused.
async fn bad_numbers_are_refused(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    for (members, kind) in [
        (0, ErrorKind::InvalidArgument),
        (101, ErrorKind::LimitExceeded),
        (usize::MAX, ErrorKind::LimitExceeded),
    ] {
        let error = DoubleBarrier::new(&session, "/barriers/x", members).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
    }
    let error = DoubleBarrier::new(&session, "/", 2).expect_err("the root is nobody's own");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let alone = DoubleBarrier::new(&session, "/barriers/x", 1)?;
    let inside = within("one is enough", alone.enter()).await??;
    within("and leaves", inside.leave()).await??;
    // Who thinks that fewer are enough waits behind those who wait for more, and is no round of its own.
    let patient = [come(&session, 5, 1).await?, come(&session, 5, 2).await?];
    assert!(within("the try", alone.enter_timeout(Duration::from_millis(300))).await??.is_none());
    assert!(patient.iter().all(|entering| !entering.is_finished()));
    for entering in patient {
        entering.abort();
    }
    Ok(())
}

/// Promise: keys that no member made do not complete a group, and stay.
async fn keys_of_others_are_no_members(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    for name in ["readme", "member", "zz-member"] {
        session.coord().put(format!("/barriers/x/{name}"), "").await?;
    }
    let first = come(&session, 2, 4).await?;
    assert!(!first.is_finished(), "three strangers and one member are not two");
    let second = come(&session, 2, 5).await?;
    let (first, second) = (entered(first).await?, entered(second).await?);
    within("leaving", futures::future::try_join(first.leave(), second.leave())).await??;
    assert_eq!(entries(session.coord(), "/barriers/x").await?, 3);
    Ok(())
}

/// Promise: an entry that a late request to join has made, whose member has gone or was never told, completes no group.
async fn a_join_that_nobody_knows_of_is_no_member(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let first = come(&session, 3, 1).await?;
    let late = OrderedCreate {
        dir: Dir::parse("/barriers/x")?,
        tag: Tag::new("member-")?,
        nonce: session.coord().runtime().nonce(),
        value: Default::default(),
        lifetime: Lifetime::Session,
    };
    let coord = session.coord();
    let late = coord.backend().create_ordered(coord.context(), late).await?;
    let barrier = DoubleBarrier::new(&session, "/barriers/x", 3)?;
    assert!(within("the try", barrier.enter_timeout(Duration::ZERO)).await??.is_none(), "two are not three");
    let others = [barrier.clone(), barrier].map(|barrier| tokio::spawn(async move { barrier.enter().await }));
    let inside = [first].into_iter().chain(others);
    for entering in inside {
        drop(entered(entering).await?);
    }
    coord.delete(&late.key).await?;
    eventually("all have left", || async { Ok(entries(coord, "/barriers/x").await? == 0) }).await
}

/// Promise: what is no round is an error, and is left as it is.
async fn a_foreign_key_of_the_round_is_refused_and_untouched(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let barrier = DoubleBarrier::new(&session, "/barriers/x", 1)?;
    for foreign in [&b""[..], b"something", b"\xff"] {
        session.coord().put("/barriers/x.meta/round", foreign.to_vec()).await?;
        let error = within("the try", barrier.enter()).await?.expect_err("foreign");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert_eq!(session.coord().get("/barriers/x.meta/round").await?.expect("there").value, foreign);
    }
    eventually("nobody is left", || async { Ok(entries(session.coord(), "/barriers/x").await? == 0) }).await
}
