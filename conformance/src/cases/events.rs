//! Events: what an application hears of its connection, its sessions and what it holds.

use std::sync::Arc;

use coord_api::{
    Coord, SessionOptions, Txn,
    events::{EVENTS_KEPT, Event, Events, Recipe, Turn},
};
use coord_recipes::{Candidate, Lock, RwLock, Semaphore, SessionKeeper};

use crate::{CaseResult, Cx, Failure, within};

cases!("events", needs Store:
    a_session_is_told_from_its_opening_to_its_closing,
    a_lock_is_told_as_waited_for_acquired_and_released,
    who_gives_up_is_told_and_who_only_tries_is_not,
    each_recipe_is_told_by_its_name,
    a_leadership_is_told_as_gained_and_resigned,
    a_session_that_ends_takes_what_was_held_with_it,
    an_entry_deleted_by_hand_is_told_once_somebody_looks,
    who_listens_late_hears_of_what_was_there_before,
    who_falls_behind_is_told_how_much_was_missed,
    the_handles_end_is_told_and_ends_the_events,
);

const LOCK: &str = "/locks/told";

pub(super) async fn next(events: &mut Events) -> Result<Event, Failure> {
    within("the next event", events.next()).await?.ok_or_else(|| Failure("the events ended".to_owned()))
}

/// The names of the next `count` events.
async fn names(events: &mut Events, count: usize) -> Result<Vec<&'static str>, Failure> {
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(next(events).await?.name());
    }
    Ok(names)
}

/// A handle, what it tells, and nothing of what opening it told.
pub(super) async fn listened(cx: &Cx) -> Result<(Coord, Events), Failure> {
    let coord = cx.coord().await?;
    let events = coord.events();
    Ok((coord, events))
}

/// Promise: opened, then closed by us, whether by a call or by dropping the last handle.
async fn a_session_is_told_from_its_opening_to_its_closing(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut events) = listened(&cx).await?;
    let session = coord.session(Cx::LONG).await?;
    let (id, ttl) = (session.id().clone(), session.ttl());
    assert_eq!(next(&mut events).await?, Event::SessionOpened { session: id.clone(), ttl });
    session.close().await?;
    assert_eq!(next(&mut events).await?, Event::SessionClosed { session: id });

    let dropped = coord.session(Cx::LONG).await?;
    let id = dropped.id().clone();
    assert_eq!(next(&mut events).await?.name(), "session.opened");
    drop(dropped);
    assert_eq!(next(&mut events).await?, Event::SessionClosed { session: id });
    Ok(())
}

/// Promise: who need not wait is told as acquired alone; who waits is told so first. Tokens are those of the guards.
async fn a_lock_is_told_as_waited_for_acquired_and_released(cx: Arc<Cx>) -> CaseResult {
    let holder = cx.session().await?;
    let (coord, mut events) = listened(&cx).await?;
    let session = coord.session(Cx::LONG).await?;
    next(&mut events).await?;
    let lock = Lock::new(&session, LOCK)?;

    let guard = lock.acquire().await?;
    let Event::Acquired { turn, token, .. } = next(&mut events).await? else { panic!("acquired first") };
    assert_eq!((turn.recipe, turn.name.as_str(), &turn.session), (Recipe::Lock, LOCK, session.id()));
    assert_eq!(token, guard.token());
    drop(guard);
    let Event::Released { turn: released, token: of, .. } = next(&mut events).await? else {
        panic!("then released")
    };
    assert_eq!((&released, of), (&turn, token));

    let theirs = within("theirs", Lock::new(&holder, LOCK)?.acquire()).await??;
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    assert_eq!(next(&mut events).await?, Event::Waiting(turn.clone()));
    theirs.release().await?;
    let guard = within("ours", waiting).await?.expect("no panic")?;
    assert!(matches!(next(&mut events).await?, Event::Acquired { token, .. } if token == guard.token()));
    guard.release().await?;
    assert!(matches!(next(&mut events).await?, Event::Released { turn: of, .. } if of == turn));
    Ok(())
}

/// Promise: a waiter that goes away is told; a try that finds the lock taken is no news.
async fn who_gives_up_is_told_and_who_only_tries_is_not(cx: Arc<Cx>) -> CaseResult {
    let holder = cx.session().await?;
    let _theirs = Lock::new(&holder, LOCK)?.acquire().await?;
    let (coord, mut events) = listened(&cx).await?;
    let session = coord.session(Cx::LONG).await?;
    next(&mut events).await?;
    let lock = Lock::new(&session, LOCK)?;
    assert!(lock.try_acquire().await?.is_none());
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    assert_eq!(next(&mut events).await?.name(), "turn.waiting");
    waiting.abort();
    assert!(matches!(next(&mut events).await?, Event::GaveUp { turn, .. } if turn.name.as_str() == LOCK));
    Ok(())
}

/// Promise: locks, permits and elections bear different names.
async fn each_recipe_is_told_by_its_name(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut events) = listened(&cx).await?;
    let session = coord.session(Cx::LONG).await?;
    next(&mut events).await?;
    let rw = RwLock::new(&session, "/rw")?;
    rw.read().await?.release().await?;
    rw.write().await?.release().await?;
    Semaphore::open(&session, "/permits", 2).await?.acquire().await?.release().await?;
    for recipe in [Recipe::ReadLock, Recipe::WriteLock, Recipe::Permit] {
        for name in ["turn.acquired", "turn.released"] {
            let event = next(&mut events).await?;
            assert_eq!((event.name(), turn(&event).map(|turn| turn.recipe)), (name, Some(recipe)));
        }
    }
    Ok(())
}

/// Promise: a term begins and ends by name, with its epoch.
async fn a_leadership_is_told_as_gained_and_resigned(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut events) = listened(&cx).await?;
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(Cx::LONG));
    let candidate = Candidate::new(&keeper, "/elections/told", "a")?;
    let leadership = candidate.leadership().await?;
    assert_eq!(next(&mut events).await?.name(), "session.opened");
    let Event::Acquired { turn, token, .. } = next(&mut events).await? else { panic!("gained") };
    assert_eq!((turn.recipe, token), (Recipe::Leadership, leadership.epoch()));
    leadership.resign().await?;
    assert!(matches!(next(&mut events).await?, Event::Released { turn: of, .. } if of == turn));
    keeper.close().await?;
    Ok(())
}

/// Promise: the end of the session comes first, then each thing that was held with it, once.
async fn a_session_that_ends_takes_what_was_held_with_it(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut events) = listened(&cx).await?;
    let session = coord.session(Cx::LONG).await?;
    let guards = [Lock::new(&session, "/a")?.acquire().await?, Lock::new(&session, "/b")?.acquire().await?];
    assert_eq!(names(&mut events, 3).await?, ["session.opened", "turn.acquired", "turn.acquired"]);
    session.close().await?;
    assert_eq!(next(&mut events).await?.name(), "session.closed");
    for name in ["/a", "/b"] {
        assert!(matches!(next(&mut events).await?, Event::Lost { turn, .. } if turn.name.as_str() == name));
    }
    for guard in guards {
        // It is lost already: that it is given back is no news.
        let _ = guard.release().await;
    }
    let next_session = coord.session(Cx::LONG).await?;
    assert!(
        matches!(next(&mut events).await?, Event::SessionOpened { session, .. } if session == *next_session.id())
    );
    Ok(())
}

/// Promise: whoever asks the guard learns of the loss, and so do those who listen.
async fn an_entry_deleted_by_hand_is_told_once_somebody_looks(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut events) = listened(&cx).await?;
    let session = coord.session(Cx::LONG).await?;
    let guard = Lock::new(&session, LOCK)?.acquire().await?;
    assert_eq!(names(&mut events, 2).await?, ["session.opened", "turn.acquired"]);
    cx.coord().await?.delete(guard.key().clone()).await?;
    guard.commit(Txn::new().put("/x", "")).await.expect_err("its entry is gone");
    assert!(matches!(next(&mut events).await?, Event::Lost { token, .. } if token == guard.token()));
    drop(guard);
    session.close().await?;
    assert_eq!(next(&mut events).await?.name(), "session.closed");
    Ok(())
}

/// Promise: sessions and locks from before are followed as those from after.
async fn who_listens_late_hears_of_what_was_there_before(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let session = coord.session(Cx::LONG).await?;
    let guard = Lock::new(&session, LOCK)?.acquire().await?;
    let (mut one, mut other) = (coord.events(), coord.clone().events());
    session.close().await?;
    for events in [&mut one, &mut other] {
        assert_eq!(names(events, 2).await?, ["session.closed", "turn.lost"]);
    }
    drop(guard);
    Ok(())
}

/// Promise: nothing is dropped in silence, and what is kept is the latest.
async fn who_falls_behind_is_told_how_much_was_missed(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut slow) = listened(&cx).await?;
    let session = coord.session(Cx::LONG).await?;
    let lock = Lock::new(&session, LOCK)?;
    let rounds = EVENTS_KEPT / 2 + 1;
    for _ in 0..rounds {
        lock.acquire().await?.release().await?;
    }
    let told = 1 + 2 * rounds as u64;
    assert_eq!(next(&mut slow).await?, Event::Missed(told - EVENTS_KEPT as u64));
    let kept = names(&mut slow, EVENTS_KEPT).await?;
    assert_eq!(kept.last(), Some(&"turn.released"));
    session.close().await?;
    assert_eq!(next(&mut slow).await?.name(), "session.closed");
    Ok(())
}

/// Promise: closing ends the sessions as ours and is told; the events end with the last of the handle.
async fn the_handles_end_is_told_and_ends_the_events(cx: Arc<Cx>) -> CaseResult {
    let (coord, mut events) = listened(&cx).await?;
    let session = coord.session(Cx::LONG).await?;
    assert_eq!(next(&mut events).await?.name(), "session.opened");
    coord.close().await?;
    let mut ends = names(&mut events, 2).await?;
    ends.sort_unstable();
    assert_eq!(ends, ["connection.closed", "session.closed"]);
    drop((coord, session));
    assert_eq!(within("the end", events.next()).await?, None);
    Ok(())
}

fn turn(event: &Event) -> Option<&Turn> {
    match event {
        Event::Waiting(turn)
        | Event::Acquired { turn, .. }
        | Event::GaveUp { turn, .. }
        | Event::Released { turn, .. }
        | Event::Lost { turn, .. } => Some(turn),
        _ => None,
    }
}
