//! Counters, while everything works.

use std::{collections::BTreeSet, sync::Arc};

use coord_api::ErrorKind;
use coord_recipes::Counter;

use super::lock::entries;
use crate::{CaseResult, Cx, Failure, eventually, sweep::drop_after, within};

cases!("counter", needs Store:
    sums_are_exact_with_many_writers,
    the_first_increments_of_a_crowd_all_count,
    compare_and_set_changes_only_what_was_expected,
    large_numbers_and_negative_deltas_are_exact,
    overflow_is_refused_and_changes_nothing,
    a_key_of_others_is_refused_and_untouched,
    a_deleted_counter_begins_anew,
    a_dropped_change_counts_once_or_not_at_all,
    a_crowd_in_line_leaves_nothing_behind,
);

/// A counter at `/counters/x` with a handle and a session of its own.
async fn counter(cx: &Cx) -> Result<Counter, Failure> {
    Ok(Counter::new(&cx.session().await?, "/counters/x")?)
}

/// Promise: whatever the contention, the number is the sum of all changes.
async fn sums_are_exact_with_many_writers(cx: Arc<Cx>) -> CaseResult {
    let total = counter(&cx).await?;
    let mut writers = Vec::new();
    for i in 0..8_i64 {
        let counter = counter(&cx).await?;
        writers.push(tokio::spawn(async move {
            for _ in 0..10 {
                counter.add(i - 3).await?;
            }
            Ok::<_, coord_api::Error>(())
        }));
    }
    for writer in writers {
        within("the writers", writer).await?.expect("no panic")?;
    }
    assert_eq!(total.get().await?, (0..8).map(|i| (i - 3) * 10).sum::<i64>());
    Ok(())
}

/// BB-299 (pulsar#16454), BB-298 (Netflix/curator#256): 50 begin at once on nothing; each gets another number, none an
/// error.
async fn the_first_increments_of_a_crowd_all_count(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let counter = Counter::new(&session, "/counters/x")?;
    assert_eq!(counter.get().await?, 0);
    let crowd: Vec<_> = (0..50)
        .map(|_| {
            let counter = counter.clone();
            tokio::spawn(async move { counter.add(1).await })
        })
        .collect();
    let mut numbers = BTreeSet::new();
    for one in crowd {
        numbers.insert(within("the crowd", one).await?.expect("no panic")?);
    }
    assert_eq!(numbers.into_iter().collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
    Ok(())
}

/// Promise: a value that is not the expected one stays.
async fn compare_and_set_changes_only_what_was_expected(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (counter(&cx).await?, counter(&cx).await?);
    assert!(a.compare_and_set(0, 5).await?, "absent is 0");
    assert!(!b.compare_and_set(0, 6).await?);
    assert_eq!(b.get().await?, 5);
    assert!(b.compare_and_set(5, 5).await?, "also to the same");
    b.set(-7).await?;
    assert_eq!(a.get().await?, -7);
    Ok(())
}

/// Promise: exact beyond 2^31, 2^32 and 2^53, in both directions.
async fn large_numbers_and_negative_deltas_are_exact(cx: Arc<Cx>) -> CaseResult {
    let counter = counter(&cx).await?;
    for edge in [1_i64 << 31, 1 << 32, 1 << 53, i64::MAX - 1] {
        for edge in [edge, -edge] {
            counter.set(edge - 1).await?;
            assert_eq!(counter.add(2).await?, edge + 1);
            assert_eq!(counter.add(-1).await?, edge);
            assert_eq!(counter.get().await?, edge);
        }
    }
    counter.set(i64::MIN).await?;
    assert_eq!(counter.add(i64::MAX).await?, -1);
    Ok(())
}

/// Promise: a number that does not fit is a typed error, and the counter goes on as it was.
async fn overflow_is_refused_and_changes_nothing(cx: Arc<Cx>) -> CaseResult {
    let counter = counter(&cx).await?;
    for (at, delta) in [(i64::MAX, 1), (i64::MAX - 5, i64::MAX), (i64::MIN, -1), (-1, i64::MIN)] {
        counter.set(at).await?;
        let error = counter.add(delta).await.expect_err("it does not fit");
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert_eq!(counter.get().await?, at);
        assert_eq!(counter.add(0).await?, at);
    }
    Ok(())
}

/// Promise: what is no number is an error, and is left as it is; a plain number is one.
async fn a_key_of_others_is_refused_and_untouched(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let counter = counter(&cx).await?;
    for foreign in [&b"not a number"[..], b"", b"99999999999999999999", b"\xff\xfe", b"1 2"] {
        coord.put("/counters/x", foreign.to_vec()).await?;
        for error in [
            counter.get().await.expect_err("foreign"),
            counter.add(1).await.expect_err("foreign"),
            counter.set(1).await.expect_err("foreign"),
            counter.compare_and_set(0, 1).await.expect_err("foreign"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        }
        assert_eq!(coord.get("/counters/x").await?.expect("there").value, foreign);
    }
    coord.put("/counters/x", "41").await?;
    assert_eq!(counter.add(1).await?, 42);
    assert!(Counter::new(&cx.session().await?, "/").is_err());
    Ok(())
}

/// BB-116 (Netflix/curator#187): a counter whose key was deleted by hand begins at 0, and nobody hangs.
async fn a_deleted_counter_begins_anew(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let counter = counter(&cx).await?;
    assert_eq!(counter.add(9).await?, 9);
    coord.delete("/counters/x").await?;
    assert_eq!(within("the change", counter.add(2)).await??, 2);
    Ok(())
}

/// Promise: a change that is dropped at any await point is made once or not at all (G9).
async fn a_dropped_change_counts_once_or_not_at_all(cx: Arc<Cx>) -> CaseResult {
    let watcher = counter(&cx).await?;
    let counter = counter(&cx).await?;
    let mut before = 0;
    for polls in 1.. {
        let ended = within("the change", drop_after(counter.add(1), polls)).await?;
        let done = ended.is_some();
        if let Some(sum) = ended {
            assert_eq!(sum?, before + 1);
        }
        // A write that was sent may be applied until another of the same handle is answered.
        counter.add(1000).await?;
        let now = watcher.get().await? - 1000;
        assert!(now == before || now == before + 1, "{before} became {now}");
        counter.set(now).await?;
        before = now;
        if done {
            break;
        }
    }
    Ok(())
}

/// Promise: the line of those who lost the race is empty when all have had their turn (G14).
async fn a_crowd_in_line_leaves_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let mut crowd = Vec::new();
    for _ in 0..16 {
        let counter = counter(&cx).await?;
        crowd.push(tokio::spawn(async move { counter.add(1).await }));
    }
    for one in crowd {
        within("the crowd", one).await?.expect("no panic")?;
    }
    eventually("the line is empty", || async { Ok(entries(&coord, "/counters/x.meta/turns").await? == 0) })
        .await?;
    assert_eq!(counter(&cx).await?.get().await?, 16);
    Ok(())
}
