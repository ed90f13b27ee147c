//! Work queues while links fail.

use std::{collections::BTreeSet, sync::Arc};

use coord_api::ErrorKind;
use coord_recipes::{Priority, WorkQueue};

use super::lock::entries;
use crate::{CaseResult, Cx, eventually, within};

cases!("work_queue_faults", needs Link:
    an_item_is_put_once_whatever_reply_is_lost,
    an_item_is_taken_and_done_whatever_reply_is_lost,
    an_item_of_a_cut_off_consumer_comes_again,
    consumers_go_on_after_a_long_cut,
);

/// Promise: a put whose reply was lost is in the queue once.
async fn an_item_is_put_once_whatever_reply_is_lost(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let queue = WorkQueue::new(&a.coord.session(Cx::LONG).await?, "/queues/x")?;
    let mut ids = BTreeSet::new();
    for nth in 1..=4 {
        a.link.lose_reply(nth).await?;
        for _ in 0..2 {
            ids.insert(within(&format!("reply {nth} lost"), queue.put("work", Priority::NORMAL)).await??);
        }
    }
    assert_eq!(entries(&b.coord, "/queues/x/items").await?, 8);
    let other = WorkQueue::new(&b.coord.session(Cx::LONG).await?, "/queues/x")?;
    for _ in 0..8 {
        let item = within("an item", other.take()).await??;
        assert!(ids.remove(item.id()), "{} came twice", item.id());
        item.ack().await?;
    }
    assert_eq!(entries(&b.coord, "/queues/x/items").await?, 0);
    Ok(())
}

/// Promise: whichever reply is lost, one consumer gets the item, and nothing of it stays when it is done.
async fn an_item_is_taken_and_done_whatever_reply_is_lost(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let session = a.coord.session(Cx::LONG).await?;
    let queue = WorkQueue::new(&session, "/queues/x")?;
    let producer = WorkQueue::new(&b.coord.session(Cx::LONG).await?, "/queues/x")?;
    for nth in 1..=6 {
        let id = producer.put("work", Priority::NORMAL).await?;
        a.link.lose_reply(nth).await?;
        let item = within(&format!("take with reply {nth} lost"), queue.take()).await??;
        assert_eq!(item.id(), id);
        assert!(producer.try_take().await?.is_none(), "reply {nth} lost, and two have it");
        within(&format!("done with reply {nth} lost"), item.ack()).await??;
        eventually("nothing is left", || async {
            let items = entries(&b.coord, "/queues/x/items").await?;
            Ok(items + entries(&b.coord, "/queues/x/claims").await? == 0)
        })
        .await?;
    }
    assert!(session.is_valid());
    Ok(())
}

/// Promise: the item of a consumer that is cut off for longer than its session goes to another, and the first cannot
/// acknowledge it any more.
async fn an_item_of_a_cut_off_consumer_comes_again(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let cut = WorkQueue::new(&a.coord.session(Cx::SHORT).await?, "/queues/x")?;
    let healthy = WorkQueue::new(&b.coord.session(Cx::LONG).await?, "/queues/x")?;
    healthy.put("work", Priority::NORMAL).await?;
    let first = Arc::new(within("an item", cut.take()).await??);
    a.link.blackhole().await;
    let next = tokio::spawn({
        let first = Arc::clone(&first);
        async move { healthy.take().await.map(|item| (item, first.is_valid())) }
    });
    let (second, believed) = within("it comes again", next).await?.expect("no panic")?;
    assert!(!believed, "delivered again while the first consumer believed");
    assert_eq!(second.id(), first.id());
    within("the first is told", first.lost()).await?;
    a.link.heal().await;
    let first = Arc::into_inner(first).expect("no other");
    let error = first.ack().await.expect_err("another has it");
    assert!(matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::LockLost), "{error}");
    assert_eq!(entries(&b.coord, "/queues/x/items").await?, 1, "the late acknowledgement changed nothing");
    second.ack().await?;
    Ok(())
}

/// BB-167 (CURATOR-623): items put behind a long cut are consumed when the consumer is back.
async fn consumers_go_on_after_a_long_cut(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let session = a.coord.session(Cx::SHORT).await?;
    let queue = WorkQueue::new(&session, "/queues/x")?;
    let producer = WorkQueue::new(&b.coord.session(Cx::LONG).await?, "/queues/x")?;
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    eventually("it waits", || async { Ok(entries(&b.coord, "/queues/x.meta/takers").await? == 1) }).await?;
    a.link.blackhole().await;
    producer.put("work", Priority::NORMAL).await?;
    let error = within("it is told", waiting).await?.expect("no panic").expect_err("its session is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    a.link.heal().await;
    let session = within("a new session", a.coord.session(Cx::LONG)).await??;
    let again = WorkQueue::new(&session, "/queues/x")?;
    within("the item", again.take()).await??.ack().await?;
    Ok(())
}
