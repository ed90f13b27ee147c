//! Work queues, while everything works.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use coord_api::{ErrorKind, Session};
use coord_recipes::{Item, Priority, WorkQueue};

use super::lock::entries;
use crate::{CaseResult, Cx, Failure, eventually, sweep::drop_after, within};

cases!("work_queue", needs Store:
    items_come_by_priority_and_then_in_order,
    an_acknowledged_item_is_gone_for_good,
    an_item_that_is_dropped_or_given_back_keeps_its_place,
    an_item_comes_again_when_its_consumer_dies,
    consumers_share_the_items_and_nobody_gets_one_twice,
    a_cancelled_take_loses_nothing,
    an_acknowledgement_that_is_dropped_goes_on,
    an_id_is_in_the_queue_once,
    tries_and_time_outs_leave_nothing_behind,
    an_item_lost_by_hand_is_refused,
    bad_input_is_refused,
    keys_of_others_are_refused_and_untouched,
);

fn queue(session: &Session) -> Result<WorkQueue, Failure> {
    Ok(WorkQueue::new(session, "/queues/x")?)
}

async fn take(queue: &WorkQueue) -> Result<Item, Failure> {
    Ok(within("an item", queue.take()).await??)
}

/// Waits until nothing of the queue is in the store.
async fn empty(session: &Session) -> CaseResult {
    eventually("the queue is empty", || async {
        let mut left = 0;
        for dir in ["/queues/x/items", "/queues/x/claims", "/queues/x.meta/takers"] {
            left += entries(session.coord(), dir).await?;
        }
        Ok(left == 0)
    })
    .await
}

/// Promise: the urgent first; of those alike, first come, first served.
async fn items_come_by_priority_and_then_in_order(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let queue = queue(&session)?;
    for (payload, priority) in [
        ("n1", Priority::NORMAL),
        ("l1", Priority::LOW),
        ("h1", Priority::HIGH),
        ("n2", Priority::NORMAL),
        ("h2", Priority::HIGH),
        ("top", Priority(255)),
        ("n3", Priority::default()),
        ("last", Priority(0)),
    ] {
        queue.put(payload, priority).await?;
    }
    // The first take begins with a snapshot, which has all of them.
    for expected in ["top", "h1", "h2", "n1", "n2", "n3", "l1", "last"] {
        let item = take(&queue).await?;
        assert_eq!(item.payload(), expected);
        item.ack().await?;
    }
    empty(&session).await
}

/// Promise: what is done does not come again, and nothing of it stays in the store.
async fn an_acknowledged_item_is_gone_for_good(cx: Arc<Cx>) -> CaseResult {
    let (producer, consumer) = (cx.session().await?, cx.session().await?);
    let waiting = tokio::spawn({
        let queue = queue(&consumer)?;
        async move { queue.take().await }
    });
    let id = queue(&producer)?.put("work", Priority::NORMAL).await?;
    let item = within("the waiting consumer", waiting).await?.expect("no panic")?;
    assert_eq!((item.id(), &item.payload()[..], item.priority()), (&*id, &b"work"[..], Priority::NORMAL));
    assert!(item.is_valid());
    item.ack().await?;
    assert!(queue(&producer)?.try_take().await?.is_none());
    empty(&producer).await
}

/// Promise: what is not done is delivered again, and before what came after it.
async fn an_item_that_is_dropped_or_given_back_keeps_its_place(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let queue = queue(&session)?;
    for payload in ["1", "2", "3"] {
        queue.put(payload, Priority::NORMAL).await?;
    }
    let first = take(&queue).await?;
    assert_eq!(first.payload(), "1");
    first.give_back().await?;
    eventually("the first comes again", || async { Ok(take(&queue).await?.payload() == "1") }).await?;
    // Dropped in the loop above: it comes again once more, in its place.
    eventually("the first comes again", || async {
        let item = take(&queue).await?;
        let again = item.payload() == "1";
        if again {
            item.ack().await?;
        }
        Ok(again)
    })
    .await?;
    eventually("those behind it are left", || async {
        let two = take(&queue).await?;
        let three = take(&queue).await?;
        let right = two.payload() == "2" && three.payload() == "3";
        if right {
            two.ack().await?;
            three.ack().await?;
        }
        Ok(right)
    })
    .await?;
    empty(&session).await
}

/// Promise: an item whose consumer's session ends is delivered to another, and the dead cannot acknowledge it.
async fn an_item_comes_again_when_its_consumer_dies(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    queue(&a)?.put("work", Priority::NORMAL).await?;
    let first = take(&queue(&a)?).await?;
    let waiting = tokio::spawn({
        let queue = queue(&b)?;
        async move { queue.take().await }
    });
    eventually("the other waits", || async { Ok(entries(b.coord(), "/queues/x.meta/takers").await? == 1) })
        .await?;
    assert!(!waiting.is_finished(), "it is taken");
    a.close().await?;
    within("the first is told", first.lost()).await?;
    let again = within("the other", waiting).await?.expect("no panic")?;
    assert_eq!((again.id(), again.payload()), (first.id(), first.payload()));
    assert_eq!(first.ack().await.expect_err("its session is over").kind(), ErrorKind::SessionLost);
    again.ack().await?;
    empty(&b).await
}

/// Promise: many consumers work at once, each item is with one of them at a time, and each is done.
async fn consumers_share_the_items_and_nobody_gets_one_twice(cx: Arc<Cx>) -> CaseResult {
    const ITEMS: usize = 24;
    let producer = cx.session().await?;
    let done = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let mut consumers = Vec::new();
    for _ in 0..4 {
        let (queue, done) = (queue(&cx.session().await?)?, Arc::clone(&done));
        consumers.push(tokio::spawn(async move {
            loop {
                let item = queue.take().await?;
                if item.payload() == "stop" {
                    return item.ack().await;
                }
                *done.lock().expect("no panic").entry(item.id().to_owned()).or_default() += 1;
                item.ack().await?;
            }
        }));
    }
    let queue = queue(&producer)?;
    for i in 0..ITEMS {
        queue.put(i.to_string(), Priority::NORMAL).await?;
    }
    for _ in &consumers {
        queue.put("stop", Priority::LOW).await?;
    }
    for consumer in consumers {
        within("the consumers", consumer).await?.expect("no panic")?;
    }
    let done = done.lock().expect("no panic").clone();
    assert_eq!(done.len(), ITEMS);
    assert!(done.values().all(|times| *times == 1), "nobody died, so nothing was done twice: {done:?}");
    empty(&producer).await
}

/// BB-304 (redisson#3776): a take that is dropped at any await point loses no item (G9).
async fn a_cancelled_take_loses_nothing(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let queue = queue(&session)?;
    let mut put = 0;
    for polls in 1.. {
        queue.put(put.to_string(), Priority::NORMAL).await?;
        put += 1;
        match tokio::time::timeout(Duration::from_secs(2), drop_after(queue.take(), polls)).await {
            Ok(None) => {}
            // Given back by dropping it.
            Ok(Some(item)) => drop(item?),
            Err(_) => return Err(Failure("a take waits although there are items".to_owned())),
        }
        if polls > 12 {
            break;
        }
    }
    let mut done = Vec::new();
    while done.len() < put {
        let item = take(&queue).await?;
        done.push(item.payload().clone());
        item.ack().await?;
    }
    done.sort_unstable();
    done.dedup();
    assert_eq!(done.len(), put, "sum in is sum out");
    assert!(queue.try_take().await?.is_none());
    empty(&session).await
}

/// Promise: an acknowledgement is not taken back by dropping it (G9).
async fn an_acknowledgement_that_is_dropped_goes_on(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let queue = queue(&session)?;
    for polls in 1.. {
        queue.put("work", Priority::NORMAL).await?;
        let item = take(&queue).await?;
        let ended = within("the acknowledgement", drop_after(item.ack(), polls)).await?.is_some();
        empty(&session).await?;
        if ended {
            break;
        }
    }
    Ok(())
}

/// Promise: an item put again under its id is there once; after it was done it may be put again.
async fn an_id_is_in_the_queue_once(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let queue = queue(&session)?;
    let id = "order/7 100%";
    for _ in 0..3 {
        queue.put_once(id, "first", Priority::NORMAL).await?;
    }
    let item = take(&queue).await?;
    queue.put_once(id, "while it is worked on", Priority::NORMAL).await?;
    assert!(queue.try_take().await?.is_none());
    assert_eq!(item.payload(), "first");
    item.ack().await?;
    queue.put_once(id, "second", Priority::NORMAL).await?;
    let item = take(&queue).await?;
    assert_eq!(item.payload(), "second");
    item.ack().await?;
    empty(&session).await
}

/// BB-274, BB-275: zero is one try, short is short, and who gives up is gone.
async fn tries_and_time_outs_leave_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let queue = queue(&session)?;
    for timeout in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(200)] {
        assert!(within("the try", queue.take_timeout(timeout)).await??.is_none());
    }
    empty(&session).await?;
    queue.put("work", Priority::NORMAL).await?;
    within("for ever", queue.take_timeout(Duration::MAX)).await??.expect("there is one").ack().await?;
    empty(&session).await
}

/// Promise: whoever takes an item from its consumer by hand makes the acknowledgement fail, and another gets it.
async fn an_item_lost_by_hand_is_refused(cx: Arc<Cx>) -> CaseResult {
    let (a, b) = (cx.session().await?, cx.session().await?);
    queue(&a)?.put_once("it", "work", Priority::NORMAL).await?;
    let first = take(&queue(&a)?).await?;
    assert!(b.coord().delete("/queues/x/claims/it").await?);
    within("the consumer is told", first.lost()).await?;
    let second = take(&queue(&b)?).await?;
    assert_eq!(first.ack().await.expect_err("another has it").kind(), ErrorKind::LockLost);
    assert!(b.coord().get("/queues/x/items/it").await?.is_some() && second.is_valid());
    second.ack().await?;
    empty(&b).await
}

/// Promise: what no store takes is a typed error, and the queue is as it was.
async fn bad_input_is_refused(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let queue = queue(&session)?;
    let error = queue.put(vec![0; 64 << 20], Priority::NORMAL).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let error = queue.put_once(&"x".repeat(300), "", Priority::NORMAL).await.expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(WorkQueue::new(&session, "/").expect_err("the root").kind(), ErrorKind::InvalidArgument);
    assert!(queue.try_take().await?.is_none());
    queue.put_once("", "", Priority::NORMAL).await?;
    let item = take(&queue).await?;
    assert!(item.payload().is_empty(), "nothing is a payload, and an id");
    item.ack().await?;
    empty(&session).await
}

/// Promise: what is no item is an error for those who take, and is left as it is.
async fn keys_of_others_are_refused_and_untouched(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let queue = queue(&session)?;
    for foreign in ["", "item", "item x\nwork", "item 256\nwork", "item 1"] {
        session.coord().put("/queues/x/items/foreign", foreign).await?;
        let error = within("the take", queue.take()).await?.expect_err("foreign");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert_eq!(session.coord().get("/queues/x/items/foreign").await?.expect("there").value, foreign);
    }
    session.coord().delete("/queues/x/items/foreign").await?;
    queue.put("work", Priority::NORMAL).await?;
    eventually("it works again", || async {
        match queue.take_timeout(Duration::from_secs(5)).await {
            Ok(Some(item)) => Ok(item.ack().await.is_ok()),
            // The local copy may show the foreign key a little longer.
            Err(error) if error.kind() == ErrorKind::Malformed => Ok(false),
            other => Err(Failure(format!("{other:?}"))),
        }
    })
    .await?;
    empty(&session).await
}
