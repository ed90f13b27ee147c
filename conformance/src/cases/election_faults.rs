//! Elections while links fail.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use coord_api::{ErrorKind, Freshness, SessionOptions, Txn};
use coord_recipes::{Candidate, CandidateState, Election, SessionKeeper};
use futures::StreamExt;
use tokio::time::Instant;

use super::{
    election::{DIR, elected, ids, stand},
    lock::entries,
};
use crate::{CaseResult, Client, Cx, Failure, cut_briefly, eventually, within};

cases!("election_faults", needs Link:
    a_cut_off_leader_knows_before_the_next_leads,
    a_body_has_stopped_before_the_next_leads,
    a_leader_of_the_past_comes_back_with_a_larger_epoch,
    a_term_that_ended_does_not_come_back_with_the_link,
    a_short_cut_costs_the_leader_nothing,
    a_cut_off_candidate_stands_again_after_the_heal,
    a_candidate_that_started_cut_off_leads_after_the_heal,
    a_run_can_be_stopped_while_nobody_answers,
    any_lost_reply_leaves_one_entry_or_none,
    broken_connections_cost_no_place,
    a_wiped_election_elects_again,
    an_observer_that_was_cut_off_sees_no_step_back,
);

fn candidate(client: &Client, id: &str, ttl: Duration) -> Result<Candidate, Failure> {
    let keeper = SessionKeeper::new(&client.coord, SessionOptions::new(ttl));
    Ok(Candidate::new(&keeper, DIR, id)?)
}

/// Promise: `is_leader` is false before another can lead, by the clock and not by a message (G2).
///
/// BB-013 (druid#16528): two coordinators after a suspension. BB-034 (patroni#316): a leader that went on because of what
/// it read. BB-052 (CURATOR-444): two latches lead after a hiccup.
async fn a_cut_off_leader_knows_before_the_next_leads(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (one, two) = (candidate(&a, "one", Cx::SHORT)?, candidate(&b, "two", Cx::LONG)?);
    let old = one.leadership().await?;
    let next = tokio::spawn({
        let (one, two) = (one.clone(), two.clone());
        async move { two.leadership().await.map(|next| (next, one.is_leader())) }
    });
    eventually("the next is in the line", || async { Ok(entries(&b.coord, DIR).await? == 2) }).await?;
    a.link.blackhole().await;
    let (next, believed) = within("the next", next).await?.expect("no panic")?;
    assert!(!believed, "elected while the old leader believed");
    assert!(!one.is_leader() && !old.is_valid() && next.epoch() > old.epoch());
    let mut states = one.states();
    within("the listener", states.wait_for(|state| !matches!(state, CandidateState::Leading(_))))
        .await?
        .expect("alive");
    a.link.heal().await;
    let error = old.commit(Txn::new().put("/data/x", "old")).await.expect_err("it is lost");
    assert!(matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::LockLost), "{error}");
    assert!(two.is_leader() && !one.is_leader());
    Ok(())
}

/// Promise: what a leader does has stopped before another leads, if it can be stopped at all.
///
/// BB-017 (cilium#42920): slow shutdown hooks outlived the lease.
async fn a_body_has_stopped_before_the_next_leads(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (one, two) = (candidate(&a, "one", Duration::from_secs(4))?, candidate(&b, "two", Cx::LONG)?);
    let working = Arc::new(());
    let body = Arc::downgrade(&working);
    let mut working = Some(working);
    let run = tokio::spawn({
        let one = one.clone();
        async move {
            one.run_while_leader(|_| {
                let working = working.take();
                async move {
                    let _working = working;
                    std::future::pending::<ControlFlow<()>>().await
                }
            })
            .await
        }
    });
    eventually("it leads", || async { Ok(one.is_leader()) }).await?;
    let next =
        tokio::spawn(async move { two.leadership().await.map(|next| (next, body.upgrade().is_some())) });
    eventually("the next is in the line", || async { Ok(entries(&b.coord, DIR).await? == 2) }).await?;
    a.link.blackhole().await;
    let (_next, works) = within("the next", next).await?.expect("no panic")?;
    assert!(!works, "the body of the old leader works on");
    run.abort();
    a.link.heal().await;
    Ok(())
}

/// Promise: a leader that was away for long is behind all who led meanwhile, and must lead anew to lead.
///
/// BB-035 (patroni 2023-08-03): a member that had been frozen won although others led meanwhile.
async fn a_leader_of_the_past_comes_back_with_a_larger_epoch(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (one, two) = (candidate(&a, "one", Cx::SHORT)?, candidate(&b, "two", Cx::LONG)?);
    let old = one.leadership().await?;
    a.link.blackhole().await;
    let meanwhile = within("the next", two.leadership()).await??;
    let (first, second) = (old.epoch(), meanwhile.epoch());
    meanwhile.resign().await?;
    a.link.heal().await;
    assert!(!one.is_leader());
    drop(old);
    let again = within("leads again", one.leadership()).await??;
    assert!(first < second && second < again.epoch());
    Ok(())
}

/// Promise: once it is lost a term stays lost, also if the link heals while the leader is stopping.
///
/// BB-053 (postgres-operator#2593): the lock was renewed by a member that was demoting itself.
async fn a_term_that_ended_does_not_come_back_with_the_link(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let one = candidate(&a, "one", Cx::SHORT)?;
    let old = one.leadership().await?;
    a.link.blackhole().await;
    within("lost", old.lost()).await?;
    a.link.heal().await;
    eventually("the handle works", || async { Ok(a.coord.get("/other").await.is_ok()) }).await?;
    for _ in 0..20 {
        assert!(!one.is_leader() && !old.is_valid());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let error = old.commit(Txn::new().put("/data/x", "old")).await.expect_err("it is lost");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    Ok(())
}

/// Promise: an outage shorter than the ttl is no reason to step down, and no reason to elect another.
///
/// BB-121 (docker leadership PR 2): the session was restored, and the cluster had no leader.
async fn a_short_cut_costs_the_leader_nothing(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let one = candidate(&a, "one", Duration::from_secs(12))?;
    let leadership = one.leadership().await?;
    let waiting = stand(&b.coord, &candidate(&b, "two", Cx::LONG)?, 1).await?;
    cut_briefly(&*a.link, leadership.session()).await?;
    assert!(one.is_leader() && !waiting.is_finished());
    eventually("both agree who leads", || async {
        Ok(leadership.check().await.is_ok() && ids(&b.coord).await? == ["one", "two"])
    })
    .await?;
    leadership.resign().await?;
    elected(waiting).await?.resign().await?;
    Ok(())
}

/// Promise: a candidate that lost its session while waiting is back in the line after the heal, once.
async fn a_cut_off_candidate_stands_again_after_the_heal(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let leadership = candidate(&b, "leader", Cx::LONG)?.leadership().await?;
    let waiting = stand(&b.coord, &candidate(&a, "one", Cx::SHORT)?, 1).await?;
    a.link.blackhole().await;
    eventually("its entry is gone", || async { Ok(ids(&b.coord).await? == ["leader"]) }).await?;
    a.link.heal().await;
    eventually("it stands again", || async { Ok(ids(&b.coord).await? == ["leader", "one"]) }).await?;
    assert!(!waiting.is_finished());
    leadership.resign().await?;
    elected(waiting).await?.resign().await?;
    Ok(())
}

/// Promise: a candidate may be started while the store is away.
///
/// BB-190 (CURATOR-110): a latch that was started before the first connection never worked.
async fn a_candidate_that_started_cut_off_leads_after_the_heal(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    a.link.blackhole().await;
    let one = candidate(&a, "one", Cx::LONG)?;
    let standing = tokio::spawn(async move { one.leadership().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!standing.is_finished());
    a.link.heal().await;
    elected(standing).await?.resign().await?;
    Ok(())
}

/// Promise: a run ends when it is dropped, whatever the network does; its claim goes at the ttl at the latest.
///
/// BB-016 (client-go f9eba8e8c): cancelling blocked while a renewal hung.
async fn a_run_can_be_stopped_while_nobody_answers(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (one, two) = (candidate(&a, "one", Cx::SHORT)?, candidate(&b, "two", Cx::LONG)?);
    let run = tokio::spawn({
        let one = one.clone();
        async move { one.run_while_leader(|_| std::future::pending::<ControlFlow<()>>()).await }
    });
    eventually("it leads", || async { Ok(one.is_leader()) }).await?;
    a.link.blackhole().await;
    let began = Instant::now();
    run.abort();
    let _ = within("the run", run).await?;
    assert!(began.elapsed() < Cx::SLACK, "{:?}", began.elapsed());
    assert!(!one.is_leader());
    drop(one);
    within("the next", two.leadership()).await??.resign().await?;
    Ok(())
}

/// Promise: whichever reply is lost, there is one entry for a candidate, and none after it resigned (G4).
async fn any_lost_reply_leaves_one_entry_or_none(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let one = candidate(&a, "one", Cx::LONG)?;
    one.leadership().await?.resign().await?;
    for nth in 1..=5 {
        a.link.lose_reply(nth).await?;
        let leadership = within(&format!("elected with reply {nth} lost"), one.leadership()).await??;
        assert_eq!(entries(&b.coord, DIR).await?, 1, "reply {nth} lost");
        within(&format!("resigned with reply {nth} lost"), leadership.resign()).await??;
        eventually("the line is empty", || async { Ok(entries(&b.coord, DIR).await? == 0) }).await?;
    }
    Ok(())
}

/// Promise: a candidate keeps its place through any number of broken connections.
///
/// BB-097 (CURATOR-504): own entry not found, made anew, again and again. BB-011 (CURATOR-620): a late answer to an
/// earlier reconnect granted leadership on an entry of the past.
async fn broken_connections_cost_no_place(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let leadership = candidate(&b, "leader", Cx::LONG)?.leadership().await?;
    let waiting = stand(&b.coord, &candidate(&a, "one", Cx::LONG)?, 1).await?;
    let latest = b.coord.clone().with_freshness(Freshness::Latest);
    let before = latest.list(DIR).await?.children;
    for _ in 0..10 {
        a.link.reset().await?;
        eventually("the link works", || async { Ok(a.coord.get("/other").await.is_ok()) }).await?;
    }
    assert_eq!(latest.list(DIR).await?.children, before);
    assert!(!waiting.is_finished());
    leadership.resign().await?;
    elected(waiting).await?.resign().await?;
    Ok(())
}

/// Promise: after somebody deleted everything, candidates stand again and one leads.
///
/// BB-098 (CURATOR-724): the election's path vanished during a reconnect, and the latch never recovered.
async fn a_wiped_election_elects_again(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let one = candidate(&a, "one", Cx::LONG)?;
    let old = one.leadership().await?;
    let waiting = stand(&b.coord, &candidate(&a, "two", Cx::LONG)?, 1).await?;
    a.link.reset().await?;
    for child in b.coord.clone().with_freshness(Freshness::Latest).list(DIR).await?.children {
        b.coord.delete(&child.key).await?;
    }
    within("the leader is told", old.lost()).await?;
    let next = elected(waiting).await?;
    assert!(next.epoch() > old.epoch() && !one.is_leader());
    Ok(())
}

/// Promise: an observer that missed leaders is told of the one now, and never of an earlier one after a later.
///
/// BB-106 (etcd#18163).
async fn an_observer_that_was_cut_off_sees_no_step_back(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let mut leaders = Election::new(&a.coord, DIR)?.observe();
    let mut held = candidate(&b, "first", Cx::LONG)?.leadership().await?;
    let mut epochs = Vec::new();
    loop {
        let leader = within("the first", leaders.next()).await?.expect("endless")?;
        if let Some(leader) = leader {
            epochs.push(leader.epoch());
            break;
        }
    }
    a.link.blackhole().await;
    for id in ["second", "third", "last"] {
        let next = candidate(&b, id, Cx::LONG)?;
        let next = stand(&b.coord, &next, 1).await?;
        held.resign().await?;
        held = elected(next).await?;
    }
    a.link.heal().await;
    loop {
        let leader = within("the last", leaders.next()).await?.expect("endless")?;
        let Some(leader) = leader else { continue };
        epochs.push(leader.epoch());
        if leader.id() == "last" {
            break;
        }
    }
    assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
    assert_eq!(epochs.last(), Some(&held.epoch()));
    Ok(())
}
