//! The read/write lock.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, ErrorKind, Result, Session, Txn};
use coord_recipes::{ReadGuard, RwLock, WriteGuard};
use tokio::task::JoinHandle;

use super::lock::entries;
use crate::{CaseResult, Cx, Failure, eventually, look_counter::LookCounter, within};

cases!("rwlock", needs Store:
    readers_share_and_writers_do_not,
    nobody_overtakes_a_waiting_writer,
    all_orders_of_readers_and_writers_end,
    many_readers_and_writers_exclude_each_other,
    a_downgrade_lets_readers_in_and_no_writer,
    a_downgraded_writer_still_holds,
    a_downgrade_of_a_lost_lock_is_an_error,
    a_dropped_downgrade_gives_up_the_lock,
    a_gone_writer_wakes_the_readers_behind_it,
    foreign_entries_in_the_line_are_respected,
    a_release_wakes_no_more_than_those_who_wait_for_it,
);

const DIR: &str = "/rw/x";

fn lock(session: &Session) -> Result<RwLock> {
    RwLock::new(session, DIR)
}

/// Waits until so many entries stand in the line.
async fn stand(coord: &Coord, count: usize) -> CaseResult {
    eventually("the entries stand", || async { Ok(entries(coord, DIR).await? == count) }).await
}

/// Starts to read in a task, and returns once the entry stands behind `ahead` others.
async fn reader(
    session: &Session,
    ahead: usize,
) -> std::result::Result<JoinHandle<Result<ReadGuard>>, Failure> {
    let lock = lock(session)?;
    let task = tokio::spawn(async move { lock.read().await });
    stand(session.coord(), ahead + 1).await?;
    Ok(task)
}

/// The same to write.
async fn writer(
    session: &Session,
    ahead: usize,
) -> std::result::Result<JoinHandle<Result<WriteGuard>>, Failure> {
    let lock = lock(session)?;
    let task = tokio::spawn(async move { lock.write().await });
    stand(session.coord(), ahead + 1).await?;
    Ok(task)
}

async fn granted<G>(what: &str, task: JoinHandle<Result<G>>) -> std::result::Result<G, Failure> {
    Ok(within(what, task).await?.expect("no panic")?)
}

/// Promise: many read at once; a writer is alone.
async fn readers_share_and_writers_do_not(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (lock(&cx.session().await?)?, lock(&cx.session().await?)?);
    let readers = [a.read().await?, a.read().await?, b.read().await?];
    assert!(b.try_write().await?.is_none());
    for reader in readers {
        assert!(b.try_write().await?.is_none());
        reader.release().await?;
    }
    let writing = b.try_write().await?.expect("free");
    assert!(a.try_read().await?.is_none() && a.try_write().await?.is_none());
    assert!(b.try_read().await?.is_none(), "it is not re-entrant");
    writing.release().await?;
    a.try_read().await?.expect("free").release().await?;
    Ok(())
}

/// Promise: a reader that comes after a writer waits for it, so writers do not starve.
async fn nobody_overtakes_a_waiting_writer(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let first = lock(&a)?.read().await?;
    let second = writer(&b, 1).await?;
    let third = reader(&a, 2).await?;
    let fourth = reader(&b, 3).await?;
    assert!(lock(&a)?.try_read().await?.is_none());
    assert!(!second.is_finished() && !third.is_finished() && !fourth.is_finished());
    first.release().await?;
    let writing = granted("the writer", second).await?;
    assert!(!third.is_finished() && !fourth.is_finished());
    writing.release().await?;
    let (third, fourth) = (granted("one reader", third).await?, granted("the other", fourth).await?);
    assert!(third.is_valid() && fourth.is_valid(), "they share");
    third.release().await?;
    fourth.release().await?;
    Ok(())
}

/// Promise: whatever the order of readers and writers, all get their turn, in that order. BB-094.
async fn all_orders_of_readers_and_writers_end(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    for order in 0..8_u32 {
        let first = lock(&session)?.write().await?;
        let mut tasks = Vec::new();
        for place in 0..3 {
            let lock = lock(&session)?;
            let writes = order & (1 << place) != 0;
            tasks.push(tokio::spawn(async move {
                if writes {
                    let guard = lock.write().await?;
                    let token = guard.token();
                    guard.release().await.map(|()| token)
                } else {
                    let guard = lock.read().await?;
                    let token = guard.token();
                    guard.release().await.map(|()| token)
                }
            }));
            stand(session.coord(), place + 2).await?;
        }
        let mut last = first.token();
        first.release().await?;
        for task in tasks {
            let token = within(&format!("order {order:03b}"), task).await?.expect("no panic")?;
            assert!(token > last, "order {order:03b}");
            last = token;
        }
    }
    Ok(())
}

/// Promise: at no time does a writer hold beside anybody.
async fn many_readers_and_writers_exclude_each_other(cx: Arc<Cx>) -> CaseResult {
    use std::sync::atomic::{AtomicIsize, Ordering};
    // Readers count up, a writer counts a thousand down.
    let inside = Arc::new(AtomicIsize::new(0));
    let mut workers = Vec::new();
    for worker in 0..6 {
        let lock = lock(&cx.session().await?)?;
        let inside = Arc::clone(&inside);
        workers.push(tokio::spawn(async move {
            for round in 0..6 {
                if (worker + round) % 3 == 0 {
                    let guard = lock.write().await?;
                    assert_eq!(inside.fetch_sub(1000, Ordering::SeqCst), 0, "a writer is not alone");
                    tokio::task::yield_now().await;
                    inside.fetch_add(1000, Ordering::SeqCst);
                    if round % 2 == 0 {
                        let guard = guard.downgrade().await?;
                        assert!(inside.fetch_add(1, Ordering::SeqCst) >= 0, "a writer came in between");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        guard.release().await?;
                    } else {
                        guard.release().await?;
                    }
                } else {
                    let guard = lock.read().await?;
                    assert!(inside.fetch_add(1, Ordering::SeqCst) >= 0, "a reader beside a writer");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await?;
                }
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    for worker in workers {
        within("the workers", worker).await?.expect("no panic")?;
    }
    Ok(())
}

/// BB-046 (CURATOR-621). Promise: from writing to reading, no writer gets in between; readers that are next do.
async fn a_downgrade_lets_readers_in_and_no_writer(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let writing = lock(&a)?.write().await?;
    let next = reader(&b, 1).await?;
    let waiting = writer(&b, 2).await?;
    let behind = reader(&a, 3).await?;
    let reading = writing.downgrade().await?;
    let next = granted("the next reader", next).await?;
    assert!(!waiting.is_finished() && !behind.is_finished());
    assert!(lock(&b)?.try_write().await?.is_none());
    next.release().await?;
    assert!(!waiting.is_finished(), "the downgraded one still reads");
    reading.release().await?;
    granted("the writer", waiting).await?.release().await?;
    granted("the reader behind it", behind).await?.release().await?;
    Ok(())
}

/// BB-026 (redisson 4217). Promise: a downgraded writer holds as long as its session, also for several ttls.
async fn a_downgraded_writer_still_holds(cx: Arc<Cx>) -> CaseResult {
    let short = cx.coord().await?.session(Cx::SHORT).await?;
    let other = cx.session().await?;
    let writing = lock(&short)?.write().await?;
    let token = writing.token();
    let reading = writing.downgrade().await?;
    assert_eq!(reading.token(), token, "the same place in the line");
    assert!(lock(&other)?.write_timeout(short.ttl() * 2).await?.is_none());
    assert!(reading.is_valid());
    reading.check().await?;
    assert!(reading.commit(Txn::new().put("/data/x", "1")).await?.is_committed());
    lock(&other)?.try_read().await?.expect("readers share").release().await?;
    reading.release().await?;
    lock(&other)?.try_write().await?.expect("free").release().await?;
    Ok(())
}

/// Promise: what was lost cannot be downgraded.
async fn a_downgrade_of_a_lost_lock_is_an_error(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let writing = lock(&a)?.write().await?;
    b.coord().delete(writing.key()).await?;
    let next = lock(&b)?.write().await?;
    let error = writing.downgrade().await.expect_err("its entry is gone");
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    next.check().await?;
    next.release().await?;
    let writing = lock(&a)?.write().await?;
    a.close().await?;
    let error = writing.downgrade().await.expect_err("its session is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    Ok(())
}

/// Promise: a downgrade that is dropped at any await point gives up the lock (G9).
async fn a_dropped_downgrade_gives_up_the_lock(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    for polls in 1.. {
        let writing = lock(&session)?.write().await?;
        let ended = crate::sweep::drop_after(writing.downgrade(), polls).await;
        let Some(reading) = ended else {
            stand(session.coord(), 0).await?;
            continue;
        };
        reading?.release().await?;
        break;
    }
    stand(session.coord(), 0).await
}

/// Promise: readers behind a writer that gives up, or whose session ends, go on.
async fn a_gone_writer_wakes_the_readers_behind_it(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let reading = lock(&a)?.read().await?;
    let gives_up = writer(&b, 1).await?;
    let dies = writer(&b, 2).await?;
    let behind = reader(&a, 3).await?;
    gives_up.abort();
    stand(a.coord(), 3).await?;
    assert!(!behind.is_finished());
    b.close().await?;
    assert!(within("it is told", dies).await?.expect("no panic").is_err());
    granted("the reader behind", behind).await?.release().await?;
    reading.release().await?;
    Ok(())
}

/// Promise: what other programs put into the line counts: readers and writers wait for it.
async fn foreign_entries_in_the_line_are_respected(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    let foreign = coord_recipes::Lock::new(&a, DIR)?.acquire().await?;
    assert!(lock(&b)?.try_read().await?.is_none() && lock(&b)?.try_write().await?.is_none());
    let waiting = reader(&b, 1).await?;
    foreign.release().await?;
    granted("the reader", waiting).await?.release().await?;
    Ok(())
}

/// Promise: the release of one of many readers wakes none of the readers that wait, and a writer's turn wakes one.
async fn a_release_wakes_no_more_than_those_who_wait_for_it(cx: Arc<Cx>) -> CaseResult {
    const WRITERS: usize = 12;
    let looks = LookCounter::default();
    let coord = cx.coord().await?.layer(&looks);
    let session = coord.session(Cx::LONG).await?;
    let reading = lock(&session)?.read().await?;
    let mut writers = Vec::new();
    for ahead in 0..WRITERS {
        writers.push(writer(&session, ahead + 1).await?);
    }
    // Lets watches that are starting wake their waiters first.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = looks.count();
    reading.release().await?;
    for task in writers {
        granted("the next writer", task).await?.release().await?;
    }
    let each = looks.count() - before;
    assert!(each <= WRITERS + WRITERS / 2, "{each} looks at the line for {WRITERS} grants");
    Ok(())
}
