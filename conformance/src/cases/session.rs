//! Sessions: who owns, and until when.

use std::{sync::Arc, time::Duration};

use coord_api::{ErrorKind, Freshness, Lifetime, SessionState};
use tokio::time::Instant;

use crate::{CaseResult, Cx, eventually, within};

cases!("session", needs Store:
    the_granted_ttl_is_told_and_the_deadline_lies_within,
    an_ephemeral_key_names_its_owner,
    closing_deletes_the_keys_at_once,
    dropping_deletes_the_keys_in_the_background,
    a_session_outlives_its_ttl_while_it_is_renewed,
    a_blocked_runtime_does_not_lose_the_session,
    a_closed_session_owns_nothing_any_more,
    a_session_that_is_over_still_reads_and_writes_what_is_not_its_own,
    sessions_do_not_touch_each_other,
    a_ttl_outside_the_limits_is_refused,
    ids_are_not_reused,
);

/// Promise: the session tells what was granted, and is valid no longer than that.
async fn the_granted_ttl_is_told_and_the_deadline_lies_within(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let session = coord.session(Duration::from_secs(10)).await?;
    assert!(
        session.ttl() >= Duration::from_secs(1) && session.ttl() <= Duration::from_secs(60),
        "{:?}",
        session.ttl()
    );
    let left = session.valid_until().saturating_duration_since(Instant::now());
    assert!(left > session.ttl() / 2 && left < session.ttl(), "{left:?} of {:?}", session.ttl());
    assert!(session.is_valid());
    assert_eq!(session.state(), SessionState::Live);
    Ok(())
}

/// Promise: an ephemeral key tells whose it is.
async fn an_ephemeral_key_names_its_owner(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    session.coord().create("/eph", "1", Lifetime::Session).await?.expect("new");
    let entry = cx.coord().await?.with_freshness(Freshness::Latest).get("/eph").await?.expect("there");
    assert_eq!(entry.meta.owner.as_ref(), Some(session.id()));
    Ok(())
}

/// Promise: when `close` has returned, the keys are gone.
async fn closing_deletes_the_keys_at_once(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let coord = cx.coord().await?.with_freshness(Freshness::Latest);
    for i in 0..10 {
        session.coord().create(format!("/eph/{i}"), "", Lifetime::Session).await?.expect("new");
    }
    coord.put("/stays/a", "").await?;
    session.close().await?;
    for i in 0..10 {
        assert!(coord.get(format!("/eph/{i}")).await?.is_none(), "{i}");
    }
    assert!(coord.get("/stays/a").await?.is_some());
    assert_eq!(session.state(), SessionState::Lost);
    assert!(!session.is_valid());
    session.close().await?;
    Ok(())
}

/// Promise: the last handle that is dropped ends the session, without waiting for the ttl and without a runtime.
async fn dropping_deletes_the_keys_in_the_background(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let coord = cx.coord().await?.with_freshness(Freshness::Latest);
    session.coord().create("/eph", "", Lifetime::Session).await?.expect("new");
    let clone = session.clone();
    drop(session);
    assert!(clone.is_valid() && coord.get("/eph").await?.is_some(), "a clone still holds it");
    let outside = std::thread::spawn(move || drop(clone));
    outside.join().expect("dropping outside of a runtime does not panic");
    let began = Instant::now();
    eventually("the key is gone", || async { Ok(coord.get("/eph").await?.is_none()) }).await?;
    assert!(began.elapsed() < Cx::LONG / 2, "only the ttl removed it");
    Ok(())
}

/// Promise: while its process is well, a session lives on.
async fn a_session_outlives_its_ttl_while_it_is_renewed(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let session = coord.session(Cx::SHORT).await?;
    session.coord().create("/eph", "", Lifetime::Session).await?.expect("new");
    let until = Instant::now() + session.ttl() * 2;
    while Instant::now() < until {
        assert!(session.is_valid(), "state {:?}", session.state());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(coord.with_freshness(Freshness::Latest).get("/eph").await?.is_some());
    Ok(())
}

/// Promise: user code that blocks its own runtime for twice the ttl does not lose the session (G11).
async fn a_blocked_runtime_does_not_lose_the_session(cx: Arc<Cx>) -> CaseResult {
    let cx = Arc::clone(&cx);
    let blocked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let coord = cx.coord().await?;
            let session = coord.session(Cx::SHORT).await?;
            session.coord().create("/eph", "", Lifetime::Session).await?.expect("new");
            let until = Instant::now() + session.ttl() * 2;
            while Instant::now() < until {
                std::hint::spin_loop(); // blocks the only thread of this runtime
            }
            assert!(session.is_valid(), "state {:?}", session.state());
            assert!(coord.get("/eph").await?.is_some());
            session.close().await?;
            CaseResult::Ok(())
        })
    });
    let joined = tokio::task::spawn_blocking(move || blocked.join()).await.expect("no panic");
    match joined {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Promise: a session that is over is refused, before and after the store was asked.
async fn a_closed_session_owns_nothing_any_more(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    session.close().await?;
    let error = session.coord().create("/eph", "", Lifetime::Session).await.expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    within("lost resolves", session.lost()).await?;
    assert!(session.ensure_valid().is_err());
    assert!(cx.coord().await?.get("/eph").await?.is_none());
    Ok(())
}

/// Promise: the end of a session takes what is its own, and nothing else.
async fn a_session_that_is_over_still_reads_and_writes_what_is_not_its_own(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let handle = session.coord().clone();
    handle.put("/kept", "before").await?;
    session.close().await?;
    assert_eq!(handle.get("/kept").await?.expect("there").value, "before");
    handle.put("/kept", "after").await?;
    let other = cx.coord().await?.with_freshness(Freshness::Latest);
    assert_eq!(other.get("/kept").await?.expect("there").value, "after");
    assert!(handle.delete("/kept").await?);
    assert!(handle.get("/kept").await?.is_none() && other.get("/kept").await?.is_none());
    let error = handle.create("/eph", "", Lifetime::Session).await.expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    Ok(())
}

/// Promise: the end of one session is no business of another, also of the same handle.
async fn sessions_do_not_touch_each_other(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (a, b) = (coord.session(Cx::LONG).await?, coord.session(Cx::LONG).await?);
    assert_ne!(a.id(), b.id());
    a.coord().create("/a", "", Lifetime::Session).await?.expect("new");
    b.coord().create("/b", "", Lifetime::Session).await?.expect("new");
    a.close().await?;
    let coord = coord.with_freshness(Freshness::Latest);
    assert!(coord.get("/a").await?.is_none() && coord.get("/b").await?.is_some());
    assert!(b.is_valid());
    Ok(())
}

/// Promise: too short and too long are typed errors, before anything is sent.
async fn a_ttl_outside_the_limits_is_refused(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    for ttl in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(86_401), Duration::MAX] {
        let error = coord.session(ttl).await.expect_err("outside the limits");
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{ttl:?}: {error}");
    }
    Ok(())
}

/// Promise: every session has an id of its own.
async fn ids_are_not_reused(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..10 {
        let session = coord.session(Cx::LONG).await?;
        assert!(ids.insert(session.id().clone()));
        session.close().await?;
    }
    Ok(())
}
