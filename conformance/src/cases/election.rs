//! Elections, while everything works.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use coord_api::{Coord, ErrorKind, Freshness, SessionOptions, Txn};
use coord_recipes::{Candidate, CandidateState, Election, Leadership, SessionKeeper};
use futures::StreamExt;
use tokio::task::JoinHandle;

use super::lock::entries;
use crate::{CaseResult, Cx, Failure, eventually, look_counter::LookCounter, within};

cases!("election", needs Store:
    one_leads_at_a_time_and_epochs_grow,
    resigning_lets_the_next_lead_and_leaves_no_entry,
    a_leader_of_the_past_changes_nothing,
    a_leader_whose_entry_was_deleted_is_told_and_stands_again,
    a_candidate_whose_session_ends_stands_again,
    a_leader_whose_session_ends_is_told_and_leads_again_later,
    everybody_can_ask_who_leads_and_who_stands,
    observers_see_the_epochs_in_one_order,
    a_candidate_stands_once,
    listeners_are_told_once_of_each_change,
    a_waiting_candidate_asks_the_store_for_nothing,
    two_candidates_of_one_process_keep_a_stable_leader,
    bad_names_and_ids_are_refused,
    keys_of_others_are_no_leaders,
);

pub(super) const DIR: &str = "/elections/x";

/// A candidate with a keeper of its own.
pub(super) fn candidate(coord: &Coord, id: &str) -> Result<Candidate, Failure> {
    Ok(Candidate::new(&SessionKeeper::new(coord, SessionOptions::new(Cx::LONG)), DIR, id)?)
}

/// Lets a candidate stand, and returns once it is behind `ahead` others.
pub(super) async fn stand(
    coord: &Coord,
    candidate: &Candidate,
    ahead: usize,
) -> Result<JoinHandle<coord_api::Result<Leadership>>, Failure> {
    let standing = tokio::spawn({
        let candidate = candidate.clone();
        async move { candidate.leadership().await }
    });
    eventually("the candidate is in the line", || async { Ok(entries(coord, DIR).await? > ahead) }).await?;
    Ok(standing)
}

/// What a standing candidate becomes.
pub(super) async fn elected(
    standing: JoinHandle<coord_api::Result<Leadership>>,
) -> Result<Leadership, Failure> {
    Ok(within("elected", standing).await?.expect("no panic")?)
}

pub(super) async fn ids(coord: &Coord) -> Result<Vec<String>, Failure> {
    let standing = Election::new(coord, DIR)?.participants().await?;
    Ok(standing.iter().map(|one| one.id().to_owned()).collect())
}

/// Promise: never two leaders, and every epoch is larger than the one before (G1).
///
/// BB-010 (CURATOR-653): both latches start over at once, and each sees itself first.
async fn one_leads_at_a_time_and_epochs_grow(cx: Arc<Cx>) -> CaseResult {
    let (leaders, epochs) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
    let mut workers = Vec::new();
    for i in 0..4 {
        let candidate = candidate(&cx.coord().await?, &format!("c{i}"))?;
        let (leaders, epochs) = (Arc::clone(&leaders), Arc::clone(&epochs));
        workers.push(tokio::spawn(async move {
            for _ in 0..6 {
                let leadership = candidate.leadership().await?;
                assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "two lead");
                assert!(candidate.is_leader() && candidate.epoch() == Some(leadership.epoch()));
                epochs.lock().expect("no panic").push(leadership.epoch());
                tokio::task::yield_now().await;
                leaders.fetch_sub(1, Ordering::SeqCst);
                leadership.resign().await?;
                assert!(!candidate.is_leader());
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    for worker in workers {
        within("the candidates", worker).await?.expect("no panic")?;
    }
    let epochs = epochs.lock().expect("no panic").clone();
    assert_eq!(epochs.len(), 24);
    assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
    Ok(())
}

/// Promise: who resigned stands in nobody's way, and stands again at the end only.
///
/// BB-122 (pingcap/dm#1212): the evicted leader won again with its old key. BB-124 (client-go 1b1630d32): the release
/// was refused, and the others waited for the lease.
async fn resigning_lets_the_next_lead_and_leaves_no_entry(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (a, b) = (candidate(&coord, "a")?, candidate(&coord, "b")?);
    let first = a.leadership().await?;
    let (old_key, old_epoch) = (first.key().clone(), first.epoch());
    let next = stand(&coord, &b, 1).await?;
    first.resign().await?;
    assert!(coord.clone().with_freshness(Freshness::Latest).get(&old_key).await?.is_none());
    let again = stand(&coord, &a, 1).await?;
    let second = elected(next).await?;
    assert!(second.epoch() > old_epoch && !again.is_finished());
    second.resign().await?;
    let third = elected(again).await?;
    assert!(third.key() != &old_key && third.id() == "a");
    drop(third);
    eventually("a dropped leadership resigns", || async { Ok(entries(&coord, DIR).await? == 0) }).await
}

/// Promise: a leader that is no longer one writes nothing, even if it does not know yet.
///
/// BB-047 (KAFKA-6082): a zombie controller kept changing the state of the cluster.
async fn a_leader_of_the_past_changes_nothing(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (a, b) = (candidate(&coord, "a")?, candidate(&coord, "b")?);
    let old = a.leadership().await?;
    coord.delete(old.key()).await?; // by hand; it has not looked since
    let new = within("the next", b.leadership()).await??;
    new.commit(Txn::new().put("/data/x", "new")).await?.committed().expect("it leads");
    let error = old.commit(Txn::new().put("/data/x", "old")).await.expect_err("it is of the past");
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    assert_eq!(coord.get("/data/x").await?.expect("written").value, "new");
    assert!(!a.is_leader() && b.is_leader() && new.epoch() > old.epoch());
    Ok(())
}

/// Promise: whoever deletes the entry of a leader ends the term; the candidate can lead again in a new epoch.
///
/// BB-019 (spring-integration#9398): the old one led on beside the next. BB-050 (spqr#1377): it never stood again.
async fn a_leader_whose_entry_was_deleted_is_told_and_stands_again(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let a = candidate(&coord, "a")?;
    let mut states = a.states();
    let leadership = a.leadership().await?;
    coord.delete(leadership.key()).await?;
    within("lost", leadership.lost()).await?;
    // Nobody needs to look at the leadership for the candidate to know.
    within("the listener", states.wait_for(|state| *state == CandidateState::Out)).await?.expect("alive");
    assert!(!a.is_leader());
    let old = leadership.epoch();
    drop(leadership);
    let again = within("leads again", a.leadership()).await??;
    assert!(again.epoch() > old);
    // The same for one who waits.
    let b = candidate(&coord, "b")?;
    let waiting = stand(&coord, &b, 1).await?;
    let line = coord.clone().with_freshness(Freshness::Latest).list(DIR).await?.children;
    coord.delete(&line[1].key).await?;
    eventually("it is in the line again", || async {
        let now = coord.clone().with_freshness(Freshness::Latest).list(DIR).await?.children;
        Ok(now.len() == 2 && now[1].key != line[1].key)
    })
    .await?;
    again.resign().await?;
    elected(waiting).await?.resign().await?;
    Ok(())
}

/// Promise: a candidate waits for its turn across sessions.
///
/// BB-103 (etcd#19597) and BB-104 (cagriekin/charts#326): a candidate without lease or key was blocked for ever.
async fn a_candidate_whose_session_ends_stands_again(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let a = candidate(&coord, "a")?;
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(Cx::LONG));
    let b = Candidate::new(&keeper, DIR, "b")?;
    let leadership = a.leadership().await?;
    let waiting = stand(&coord, &b, 1).await?;
    let session = keeper.session().await?;
    session.close().await?;
    let next = within("another session", keeper.session()).await??;
    assert!(next.id() != session.id());
    eventually("it is in the line again", || async { Ok(ids(&coord).await? == ["a", "b"]) }).await?;
    assert!(!waiting.is_finished());
    leadership.resign().await?;
    let leadership = elected(waiting).await?;
    assert_eq!(leadership.session().id(), next.id());
    Ok(())
}

/// Promise: a leader whose session ends no longer leads, at once; its next term has a larger epoch.
async fn a_leader_whose_session_ends_is_told_and_leads_again_later(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(Cx::LONG));
    let a = Candidate::new(&keeper, DIR, "a")?;
    let first = a.leadership().await?;
    keeper.session().await?.close().await?;
    assert!(!a.is_leader() && !first.is_valid());
    within("lost", first.lost()).await?;
    let old = first.epoch();
    // It may report that there is nothing to resign from; it may not hang (BB-113, KAFKA-4360).
    let _ = within("resigning after the loss", first.resign()).await?;
    let second = within("leads again", a.leadership()).await??;
    assert!(second.epoch() > old && a.is_leader());
    Ok(())
}

/// Promise: from anywhere one can ask who leads, with which epoch, and who comes next.
///
/// BB-125 (spring-integration#4008): a follower could not ask.
async fn everybody_can_ask_who_leads_and_who_stands(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let election = Election::new(&other, DIR)?;
    assert_eq!((election.current_leader().await?, election.participants().await?), (None, Vec::new()));
    let (a, b) = (candidate(&coord, "a")?, candidate(&coord, "b \u{e9}")?);
    let leadership = a.leadership().await?;
    let waiting = stand(&coord, &b, 1).await?;
    let leader = election.current_leader().await?.expect("elected");
    assert_eq!((leader.id(), leader.epoch()), ("a", leadership.epoch()));
    let standing = election.participants().await?;
    assert_eq!(standing.iter().map(coord_recipes::Participant::id).collect::<Vec<_>>(), ["a", "b \u{e9}"]);
    leadership.resign().await?;
    let next = elected(waiting).await?;
    let leader = election.current_leader().await?.expect("elected");
    assert_eq!((leader.id(), leader.epoch()), ("b \u{e9}", next.epoch()));
    assert_eq!(standing[1].epoch(), next.epoch(), "the epoch is known while waiting");
    Ok(())
}

/// Promise: every observer sees a part of the same sequence of epochs, ending with the leader now.
///
/// BB-106 (etcd#18163): an observer could be told of a candidate that was not the leader.
async fn observers_see_the_epochs_in_one_order(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let mut observers = Vec::new();
    for _ in 0..3 {
        let mut leaders = Election::new(&cx.coord().await?, DIR)?.observe();
        assert_eq!(within("the state now", leaders.next()).await?.expect("endless")?, None);
        observers.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(leader) = leaders.next().await {
                let Some(leader) = leader? else { continue };
                seen.push(leader.epoch());
                if leader.id() == "last" {
                    break;
                }
            }
            Ok::<_, coord_api::Error>(seen)
        }));
    }
    let (a, b) = (candidate(&coord, "a")?, candidate(&coord, "b")?);
    let mut epochs = Vec::new();
    let mut held = a.leadership().await?;
    for i in 0..6 {
        epochs.push(held.epoch());
        let next = stand(&coord, if i % 2 == 0 { &b } else { &a }, 1).await?;
        held.resign().await?;
        held = elected(next).await?;
    }
    epochs.push(held.epoch());
    drop(held);
    let last = within("the last", candidate(&coord, "last")?.leadership()).await??;
    epochs.push(last.epoch());
    for observer in observers {
        let seen = within("the observer", observer).await?.expect("no panic")?;
        let mut rest = epochs.iter();
        assert!(seen.iter().all(|epoch| rest.any(|e| e == epoch)), "{seen:?} is no part of {epochs:?}");
        assert_eq!(seen.last(), epochs.last());
    }
    Ok(())
}

/// Promise: one candidate stands once; the second call is an error and harms neither.
async fn a_candidate_stands_once(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let a = candidate(&coord, "a")?;
    let leadership = a.leadership().await?;
    let error = a.leadership().await.expect_err("it leads");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(a.is_leader());
    leadership.resign().await?;
    a.leadership().await?.resign().await?;
    Ok(())
}

/// Promise: a listener is told that the term is over, once.
///
/// BB-014 (kubernetes#23731): the callback for the loss never came.
async fn listeners_are_told_once_of_each_change(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(Cx::LONG));
    let a = Candidate::new(&keeper, DIR, "a")?;
    let mut states = a.states();
    let leadership = a.leadership().await?;
    assert_eq!(*states.borrow_and_update(), CandidateState::Leading(leadership.epoch()));
    keeper.session().await?.close().await?;
    within("told", states.changed()).await?.expect("alive");
    assert_eq!(*states.borrow_and_update(), CandidateState::Out);
    drop(leadership);
    assert!(!states.has_changed().expect("alive"), "told twice");
    Ok(())
}

/// Promise: waiting costs the store nothing (G5).
///
/// BB-127 (go-zookeeper PR 145): a waiter asked in a loop.
async fn a_waiting_candidate_asks_the_store_for_nothing(cx: Arc<Cx>) -> CaseResult {
    let looks = LookCounter::default();
    let coord = cx.coord().await?;
    let leader = candidate(&coord, "leader")?.leadership().await?;
    let counted = cx.coord().await?.layer(&looks);
    let waiting = stand(&coord, &candidate(&counted, "a")?, 1).await?;
    let mut last = usize::MAX;
    eventually("it has settled", async || {
        let now = looks.count();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let settled = now == last;
        last = now;
        Ok(settled)
    })
    .await?;
    assert!(last <= 8, "{last} looks to begin with");
    // Others may come and go behind it.
    for i in 0..5 {
        let other = stand(&coord, &candidate(&coord, &format!("o{i}"))?, 2).await?;
        other.abort();
        eventually("it has left", || async { Ok(entries(&coord, DIR).await? == 2) }).await?;
    }
    assert_eq!(looks.count(), last, "it looked for no reason");
    leader.resign().await?;
    elected(waiting).await?.resign().await?;
    Ok(())
}

/// Promise: a leader stays until it goes, also if its process stands twice.
///
/// BB-101 (pulsar#10522): leadership was taken and given up in a tight loop.
async fn two_candidates_of_one_process_keep_a_stable_leader(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(Cx::LONG));
    let (a, b) = (Candidate::new(&keeper, DIR, "a")?, Candidate::new(&keeper, DIR, "b")?);
    let leadership = a.leadership().await?;
    let waiting = stand(&coord, &b, 1).await?;
    let before = coord.clone().with_freshness(Freshness::Latest).list(DIR).await?.children;
    assert!(tokio::time::timeout(Duration::from_secs(2), leadership.lost()).await.is_err());
    assert_eq!(coord.clone().with_freshness(Freshness::Latest).list(DIR).await?.children, before);
    leadership.resign().await?;
    elected(waiting).await?.resign().await?;
    Ok(())
}

/// Promise: bad input is refused before anything is sent.
async fn bad_names_and_ids_are_refused(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(Cx::LONG));
    for (name, id) in [("/", "a"), ("/a//b", "a"), ("/a/../b", "a"), ("/a", "")] {
        let error = Candidate::new(&keeper, name, id).expect_err("bad");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name:?} {id:?}: {error}");
    }
    assert_eq!(Election::new(&coord, "/").expect_err("bad").kind(), ErrorKind::InvalidArgument);
    let huge = Candidate::new(&keeper, DIR, "x".repeat(2_000_000))?;
    let error = within("refused", huge.leadership()).await?.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert_eq!(entries(&coord, DIR).await?, 0);
    Ok(())
}

/// Promise: keys that no candidate made do not break the election, and are not shown as leaders.
async fn keys_of_others_are_no_leaders(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let a = candidate(&coord, "a")?;
    let leadership = a.leadership().await?;
    for name in ["readme", "latch-", "_c_", "%"] {
        coord.put(format!("{DIR}/{name}"), "not me").await?;
    }
    assert_eq!(ids(&coord).await?, ["a"]);
    assert_eq!(Election::new(&coord, DIR)?.current_leader().await?.expect("a leads").id(), "a");
    leadership.resign().await?;
    assert_eq!(Election::new(&coord, DIR)?.current_leader().await?, None);
    for name in ["readme", "latch-", "_c_", "%"] {
        coord.delete(format!("{DIR}/{name}")).await?;
    }
    within("free", a.leadership()).await??.resign().await?;
    Ok(())
}
