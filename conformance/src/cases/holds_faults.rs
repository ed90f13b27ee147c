//! What is promised of every way to hold something, while links fail.

use std::{sync::Arc, time::Duration};

use coord_api::{ErrorKind, Key, Txn};
use coord_recipes::{Lock, RwLock, Semaphore};
use tokio::time::Instant;

use super::family::Kind;
use crate::{CaseResult, Cx, eventually, within};

cases!("holds_faults", needs Link:
    a_cut_off_holder_knows_before_the_next_is_granted,
    a_cut_off_waiter_loses_its_place_and_is_told,
    any_lost_reply_of_an_acquire_leaves_one_entry,
    any_lost_reply_of_a_release_leaves_none,
    any_lost_reply_of_a_change_is_made_up_for,
    a_broken_connection_loses_neither_place_nor_hold,
    a_time_out_is_kept_also_when_nobody_answers,
);

/// Promise: the old holder says lost before the next is granted, its token is smaller, its writes are refused (G1, G2).
/// BB-001, BB-002, BB-004, BB-013.
async fn a_cut_off_holder_knows_before_the_next_is_granted(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) = (a.coord.session(Cx::SHORT).await?, b.coord.session(Cx::LONG).await?);
    let mut pairs = Vec::new();
    for kind in Kind::ALL {
        if matches!(kind, Kind::Read | Kind::Write) {
            continue; // they have a line of their own, below
        }
        pairs.push((
            kind,
            Arc::new(kind.door(&session_a).await?.acquire().await?),
            kind.door(&session_b).await?,
        ));
    }
    let writing = Arc::new(Kind::Write.door(&session_a).await?.acquire().await?);
    pairs.push((Kind::Read, writing, Kind::Read.door(&session_b).await?));
    let mut waiters = Vec::new();
    for (kind, old, door) in pairs {
        let believer = Arc::clone(&old);
        // The clock decides and not the signal, which a loaded machine may deliver late.
        let next =
            tokio::spawn(async move { door.acquire().await.map(|next| (next, believer.hold().is_valid())) });
        kind.stand(&b.coord, kind.width() + 1).await?;
        waiters.push((kind, old, next));
    }
    a.link.blackhole().await;

    let mut granted = Vec::new();
    for (kind, old, next) in waiters {
        within(&format!("{kind:?}: the holder is told"), old.hold().lost()).await?;
        let (next, believed) = within(&format!("{kind:?}: the next"), next).await?.expect("no panic")?;
        assert!(!believed, "{kind:?}: granted while the old holder believed");
        assert!(next.hold().token() > old.hold().token(), "{kind:?}");
        granted.push((kind, old, next));
    }
    a.link.heal().await;
    for (kind, old, next) in granted {
        let key = Key::parse(&format!("/data/{kind:?}"))?;
        next.hold().commit(Txn::new().put(key.clone(), "next")).await?.committed().expect("it holds");
        let error = old.hold().commit(Txn::new().put(key.clone(), "old")).await.expect_err("it is lost");
        assert!(matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::LockLost), "{kind:?}: {error}");
        assert_eq!(b.coord.get(&key).await?.expect("written").value, "next", "{kind:?}");
        next.release().await?;
    }
    Ok(())
}

/// Promise: a waiter that is cut off for too long is told, and stands in nobody's way after. BB-284.
async fn a_cut_off_waiter_loses_its_place_and_is_told(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (waiting, holding) = (a.coord.session(Cx::SHORT).await?, b.coord.session(Cx::LONG).await?);
    let mut waiters = Vec::new();
    for kind in Kind::ALL {
        if kind == Kind::Write {
            continue; // its line is the reader's
        }
        let (held, waiter) = kind.contend(&holding, &waiting).await?;
        waiters.push((kind, held, waiter));
    }
    a.link.blackhole().await;
    for (kind, held, waiter) in waiters {
        let told = within(&format!("{kind:?}: the waiter is told"), waiter).await?.expect("no panic");
        let error = told.expect_err("its session is lost");
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{kind:?}: {error}");
        kind.stand(&b.coord, kind.width()).await?;
        held.release().await?;
    }
    a.link.heal().await;
    Ok(())
}

/// Promise: whichever reply is lost, the acquire succeeds, with one entry (G4). BB-056, BB-061, BB-320.
async fn any_lost_reply_of_an_acquire_leaves_one_entry(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let session = a.coord.session(Cx::LONG).await?;
    for kind in Kind::ALL {
        let door = kind.door(&session).await?;
        for nth in 1..=4 {
            a.link.lose_reply(nth).await?;
            let held = within(&format!("{kind:?}: acquire, reply {nth} lost"), door.acquire()).await??;
            // An entry that a late request makes is gone soon.
            kind.stand(&b.coord, kind.width()).await?;
            assert!(held.hold().is_valid(), "{kind:?}");
            within(&format!("{kind:?}: release, reply {nth} lost"), held.release()).await??;
            kind.stand(&b.coord, 0).await?;
        }
    }
    assert!(session.is_valid());
    Ok(())
}

/// Promise: a release whose reply is lost has released, and says so. BB-062, BB-091.
async fn any_lost_reply_of_a_release_leaves_none(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let session = a.coord.session(Cx::LONG).await?;
    let other = b.coord.session(Cx::LONG).await?;
    for kind in Kind::ALL {
        let door = kind.door(&session).await?;
        for nth in 1..=2 {
            let held = door.acquire().await?;
            a.link.lose_reply(nth).await?;
            within(&format!("{kind:?}: release, reply {nth} lost"), held.release()).await??;
            kind.rival()
                .door(&other)
                .await?
                .try_acquire()
                .await?
                .expect("it said released")
                .release()
                .await?;
        }
    }
    Ok(())
}

/// Promise: opening and resizing a semaphore, downgrading, and asking the holder do what they say, once, whichever reply
/// is lost.
async fn any_lost_reply_of_a_change_is_made_up_for(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (mine, theirs) = (a.coord.session(Cx::LONG).await?, b.coord.session(Cx::LONG).await?);
    for nth in 1..=5 {
        let name = format!("/sem/{nth}");
        a.link.lose_reply(nth).await?;
        let semaphore = within("it opens", Semaphore::open(&mine, &name, 1)).await??;
        let other = Semaphore::open(&theirs, &name, 1).await?;
        a.link.lose_reply(nth).await?;
        within("it is resized", semaphore.resize(2)).await??;
        assert_eq!(other.permits().await?, 2, "reply {nth} lost");
        let both = within("two permits", other.acquire_many(2)).await??;
        assert!(other.try_acquire().await?.is_none(), "reply {nth} lost");
        both.release().await?;

        let writing = RwLock::new(&mine, "/rw/x")?.write().await?;
        a.link.lose_reply(nth).await?;
        let reading = within("it is downgraded", writing.downgrade()).await??;
        let rival = RwLock::new(&theirs, "/rw/x")?;
        assert!(rival.try_write().await?.is_none(), "reply {nth} lost");
        within("readers share", rival.read()).await??.release().await?;
        within("the release", reading.release()).await??;

        let lock = Lock::new(&theirs, "/locks/x")?;
        let held = lock.acquire().await?;
        a.link.lose_reply(nth).await?;
        assert!(within("the holder is asked", Lock::new(&mine, "/locks/x")?.request_release()).await??);
        within("the holder hears of it", held.revocation_requested()).await??;
        held.release().await?;
    }
    Ok(())
}

/// Promise: connections may break at any time; the line stays as it is. BB-040, BB-185.
async fn a_broken_connection_loses_neither_place_nor_hold(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let (session_a, session_b) = (a.coord.session(Cx::LONG).await?, b.coord.session(Cx::LONG).await?);
    let mut pairs = Vec::new();
    for kind in Kind::ALL {
        if kind == Kind::Write {
            continue; // its line is the reader's
        }
        let (held, waiter) = kind.contend(&session_a, &session_b).await?;
        pairs.push((kind, held, waiter));
    }
    for _ in 0..2 {
        a.link.reset().await?;
        b.link.reset().await?;
        eventually("both links work", || async {
            Ok(a.coord.get("/other").await.is_ok() && b.coord.get("/other").await.is_ok())
        })
        .await?;
    }
    for (kind, held, waiter) in pairs {
        assert!(held.hold().is_valid() && !waiter.is_finished(), "{kind:?}");
        within(&format!("{kind:?}: the release"), held.release()).await??;
        within(&format!("{kind:?}: the waiter"), waiter).await?.expect("no panic")?.release().await?;
    }
    Ok(())
}

/// Promise: a time-out is kept, whatever the network does (G10). BB-110, BB-128.
async fn a_time_out_is_kept_also_when_nobody_answers(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let a = cx.client(&rig).await?;
    let session = a.coord.session(Cx::LONG).await?;
    let mut doors = Vec::new();
    for kind in Kind::ALL {
        doors.push((kind, kind.door(&session).await?));
    }
    a.link.blackhole().await;
    for (kind, door) in &doors {
        let (timeout, began) = (Duration::from_millis(300), Instant::now());
        // Not acquired in time, or a typed error, as on a store that tells at once that it cannot be reached.
        let acquired = door.acquire_timeout(timeout).await;
        assert!(!matches!(acquired, Ok(Some(_))), "{kind:?}: nobody answered");
        let took = began.elapsed();
        assert!(took < timeout + Cx::SLACK, "{kind:?}: {took:?}");
    }
    a.link.heal().await;
    for (kind, door) in &doors {
        within(&format!("{kind:?}: it is free"), door.acquire()).await??.release().await?;
        kind.stand(&a.coord, 0).await?;
    }
    Ok(())
}
