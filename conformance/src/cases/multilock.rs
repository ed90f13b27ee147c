//! Several locks at once.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, Dir, ErrorKind, Txn};
use coord_recipes::{Lock, MultiLock};

use super::lock::entries;
use crate::{CaseResult, Cx, eventually, within};

cases!("multilock", needs Store:
    all_are_held_or_none,
    a_time_out_gives_back_what_was_acquired,
    any_order_of_the_names_is_one_order,
    two_who_want_the_same_locks_never_block_each_other,
    a_commit_is_guarded_by_each_of_them,
    the_loss_of_one_is_the_loss_of_all,
    each_lock_has_a_token_of_its_own,
);

async fn stand(coord: &Coord, dir: &str, count: usize) -> CaseResult {
    eventually("the entries stand", || async { Ok(entries(coord, dir).await? == count) }).await
}

/// Promise: a try that finds one lock taken leaves the others free.
async fn all_are_held_or_none(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let both = MultiLock::new(&a, ["/m/a", "/m/b"])?;
    for taken in ["/m/a", "/m/b"] {
        let held = Lock::new(&b, taken)?.acquire().await?;
        assert!(both.try_acquire().await?.is_none());
        for dir in ["/m/a", "/m/b"] {
            assert_eq!(entries(b.coord(), dir).await?, usize::from(dir == taken), "{dir}");
        }
        held.release().await?;
    }
    let held = both.try_acquire().await?.expect("free");
    for dir in ["/m/a", "/m/b"] {
        assert!(Lock::new(&b, dir)?.try_acquire().await?.is_none());
    }
    held.release().await?;
    for dir in ["/m/a", "/m/b"] {
        assert_eq!(entries(b.coord(), dir).await?, 0);
    }
    Ok(())
}

/// BB-310 (redisson 1606, 1939). Promise: when the time runs out at one lock, the others are given back.
async fn a_time_out_gives_back_what_was_acquired(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let held = Lock::new(&b, "/m/b")?.acquire().await?;
    let all = MultiLock::new(&a, ["/m/a", "/m/b", "/m/c"])?;
    assert!(all.acquire_timeout(Duration::from_millis(200)).await?.is_none());
    within("the first is free", Lock::new(&b, "/m/a")?.acquire()).await??.release().await?;
    stand(b.coord(), "/m/b", 1).await?;
    assert_eq!(entries(b.coord(), "/m/c").await?, 0, "it was never asked for");
    held.release().await?;
    all.acquire_timeout(Duration::from_secs(20)).await?.expect("free").release().await?;
    Ok(())
}

/// Promise: names in any order and twice are the same locks.
async fn any_order_of_the_names_is_one_order(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let ordered = ["/m/a", "/m/b", "/m/b/c"];
    for names in [vec!["/m/b/c", "/m/a", "/m/b"], vec!["/m/b", "/m/b/c", "/m/b", "/m/a/"]] {
        let lock = MultiLock::new(&session, names)?;
        assert!(lock.names().map(Dir::as_str).eq(ordered), "{lock:?}");
    }
    let twice = MultiLock::new(&session, ["/m/a", "/m/a"])?;
    within("it does not wait for itself", twice.acquire()).await??.release().await?;
    Ok(())
}

/// BB-109 (redisson 4050). Promise: (a, b) and (b, a) go on for ever, whoever comes first.
async fn two_who_want_the_same_locks_never_block_each_other(cx: Arc<Cx>) -> CaseResult {
    let mut workers = Vec::new();
    for names in [["/m/a", "/m/b"], ["/m/b", "/m/a"], ["/m/b", "/m/c"], ["/m/c", "/m/a"]] {
        let lock = MultiLock::new(&cx.session().await?, names)?;
        workers.push(tokio::spawn(async move {
            for _ in 0..10 {
                lock.acquire().await?.release().await?;
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    for worker in workers {
        within("the workers", worker).await?.expect("no panic")?;
    }
    Ok(())
}

/// Promise: when one lock is lost, even unnoticed, a guarded write changes nothing.
async fn a_commit_is_guarded_by_each_of_them(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lock = MultiLock::new(&a, ["/m/a", "/m/b"])?;
    for lost in ["/m/a", "/m/b"] {
        let held = lock.acquire().await?;
        assert!(held.commit(Txn::new().put("/data/x", "held")).await?.is_committed());
        let refused = held.commit(Txn::new().check_absent("/data/x").put("/data/x", "no")).await?;
        assert!(!refused.is_committed() && held.is_valid(), "its own condition refuses it");
        b.coord().delete(held.hold(&Dir::parse(lost)?).expect("one of them").key()).await?;
        let error = held.commit(Txn::new().put("/data/x", "stale")).await.expect_err("one is lost");
        assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
        assert!(error.to_string().contains(lost), "it says which: {error}");
        assert_eq!(b.coord().get("/data/x").await?.expect("written").value, "held");
        assert!(!held.is_valid());
        drop(held);
        stand(b.coord(), "/m/a", 0).await?;
        stand(b.coord(), "/m/b", 0).await?;
    }
    Ok(())
}

/// Promise: `lost` resolves when one of the locks is lost, and `check` says so.
async fn the_loss_of_one_is_the_loss_of_all(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let lock = MultiLock::new(&a, ["/m/a", "/m/b", "/m/c"])?;
    let held = Arc::new(lock.acquire().await?);
    held.check().await?;
    assert!(held.is_valid() && held.valid_until().is_some());
    let told = tokio::spawn({
        let held = Arc::clone(&held);
        async move { held.lost().await }
    });
    b.coord().delete(held.hold(&Dir::parse("/m/b")?).expect("one of them").key()).await?;
    within("it is told", told).await?.expect("no panic");
    assert!(!held.is_valid());
    assert_eq!(held.check().await.expect_err("one is lost").kind(), ErrorKind::LockLost);
    Arc::into_inner(held).expect("ours alone").release().await?;
    lock.try_acquire().await?.expect("all are free").release().await?;
    Ok(())
}

/// Promise: each lock's token grows on its own, also between multi-locks and ordinary ones.
async fn each_lock_has_a_token_of_its_own(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let lock = MultiLock::new(&session, ["/m/a", "/m/b"])?;
    let before = Lock::new(&session, "/m/b")?.acquire().await?;
    let token = before.token();
    before.release().await?;
    let held = lock.acquire().await?;
    let tokens: Vec<_> = held.tokens().map(|(name, token)| (name.as_str().to_owned(), token)).collect();
    assert!(tokens[0].0 == "/m/a" && tokens[1].0 == "/m/b" && tokens[0].1 != tokens[1].1);
    assert!(tokens[1].1 > token);
    assert!(held.hold(&Dir::parse("/m/c")?).is_none());
    held.release().await?;
    Ok(())
}
