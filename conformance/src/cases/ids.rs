//! Ids, while everything works.

use std::{collections::BTreeSet, sync::Arc};

use coord_api::ErrorKind;
use coord_recipes::IdGenerator;

use crate::{CaseResult, Cx, sweep::drop_after, within};

cases!("ids", needs Store:
    nobody_gets_an_id_twice,
    ids_grow_within_a_generator,
    a_block_costs_one_reservation,
    a_dropped_call_gives_no_id_twice,
    bad_input_is_refused,
    ids_end_at_the_last_block,
    a_key_of_others_or_set_back_is_refused,
);

/// Promise: generators of several processes, and of one after a restart, never give the same id.
async fn nobody_gets_an_id_twice(cx: Arc<Cx>) -> CaseResult {
    // Keeps a store alive that is gone with its last handle.
    let _kept = cx.coord().await?;
    let mut workers = Vec::new();
    for block in [1, 3, 10, 100] {
        let coord = cx.coord().await?;
        workers.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            // Each life of the process reserves anew.
            for _ in 0..3 {
                let generator = IdGenerator::new(&coord, "/ids/x")?.with_block(block)?;
                for _ in 0..10 {
                    ids.push(generator.next().await?);
                }
            }
            Ok::<_, coord_api::Error>(ids)
        }));
    }
    let mut all = BTreeSet::new();
    for worker in workers {
        for id in within("the workers", worker).await?.expect("no panic")? {
            assert!(id > 0 && all.insert(id), "{id} was given twice");
        }
    }
    assert_eq!(all.len(), 120);
    Ok(())
}

/// Promise: who asks later gets the larger id, also among clones in many tasks.
async fn ids_grow_within_a_generator(cx: Arc<Cx>) -> CaseResult {
    let generator = IdGenerator::new(&cx.coord().await?, "/ids/x")?.with_block(4)?;
    let other = IdGenerator::new(&cx.coord().await?, "/ids/x")?.with_block(4)?;
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let generator = generator.clone();
        tasks.push(tokio::spawn(async move {
            let mut last = 0;
            for _ in 0..10 {
                let id = generator.next().await?;
                assert!(id > last, "{id} after {last}");
                last = id;
            }
            Ok::<_, coord_api::Error>(())
        }));
        other.next().await?;
    }
    for task in tasks {
        within("the tasks", task).await?.expect("no panic")?;
    }
    Ok(())
}

/// Promise: the ids of a block come from memory.
async fn a_block_costs_one_reservation(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let generator = IdGenerator::new(&coord, "/ids/x")?.with_block(10)?;
    let first = generator.next().await?;
    let reserved = coord.get("/ids/x").await?.expect("reserved").value;
    for i in 1..10 {
        assert_eq!(generator.next().await?, first + i);
    }
    assert_eq!(coord.get("/ids/x").await?.expect("reserved").value, reserved);
    generator.next().await?;
    assert_ne!(coord.get("/ids/x").await?.expect("reserved").value, reserved);
    Ok(())
}

/// Promise: a call that is dropped at any await point wastes a block at most (G9).
async fn a_dropped_call_gives_no_id_twice(cx: Arc<Cx>) -> CaseResult {
    let generator = IdGenerator::new(&cx.coord().await?, "/ids/x")?.with_block(1)?;
    let mut last = 0;
    for polls in 1.. {
        let ended = within("the call", drop_after(generator.next(), polls)).await?;
        let done = ended.is_some();
        for id in [ended.transpose()?, Some(generator.next().await?)].into_iter().flatten() {
            assert!(id > last, "{id} after {last}");
            last = id;
        }
        if done {
            break;
        }
    }
    Ok(())
}

/// Promise: a block of nothing and a name that is none are refused before anything is sent.
async fn bad_input_is_refused(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let error = IdGenerator::new(&coord, "/ids/x")?.with_block(0).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(IdGenerator::new(&coord, "/").expect_err("no key").kind(), ErrorKind::InvalidArgument);
    Ok(())
}

/// Promise: ids do not wrap; when they are used up, that is an error and changes nothing.
async fn ids_end_at_the_last_block(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/ids/x", (u64::MAX - 5).to_string()).await?;
    let error = IdGenerator::new(&coord, "/ids/x")?.next().await.expect_err("100 do not fit");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let small = IdGenerator::new(&coord, "/ids/x")?.with_block(5)?;
    for i in 0..5 {
        assert_eq!(small.next().await?, u64::MAX - 5 + i);
    }
    assert_eq!(small.next().await.expect_err("used up").kind(), ErrorKind::LimitExceeded);
    assert_eq!(coord.get("/ids/x").await?.expect("there").value, u64::MAX.to_string());
    for edge in [1_u64 << 31, 1 << 32, 1 << 53] {
        coord.put("/ids/y", edge.to_string()).await?;
        assert_eq!(IdGenerator::new(&coord, "/ids/y")?.next().await?, edge);
    }
    Ok(())
}

/// Promise: what is no number, or would give ids again, is an error and is left as it is.
async fn a_key_of_others_or_set_back_is_refused(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    for foreign in ["", "x", "-1", "0", "1.5", "18446744073709551616"] {
        coord.put("/ids/x", foreign).await?;
        let error = IdGenerator::new(&coord, "/ids/x")?.next().await.expect_err("foreign");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert_eq!(coord.get("/ids/x").await?.expect("there").value, foreign);
    }
    let generator = IdGenerator::new(&coord, "/ids/y")?.with_block(1)?;
    generator.next().await?;
    generator.next().await?;
    coord.put("/ids/y", "1").await?;
    assert_eq!(generator.next().await.expect_err("set back").kind(), ErrorKind::Malformed);
    Ok(())
}
