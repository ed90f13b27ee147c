//! Calls of the recipes without guards.

use std::time::Duration;

use coord_recipes::{
    Barrier, Cache, CountDownLatch, Counter, DoubleBarrier, Entered, IdGenerator, Item, Priority,
    SharedValue, WorkQueue,
};

use super::{MOMENT, calls, cut, cut_within, give_back, name_of};

const NUMBER: &str = "/kept/number";
const VALUE: &str = "/kept/value";
const LATCH: &str = "/kept/latch";
const GATE: &str = "/kept/gate";
/// With the number of the round beside it.
const BOTH: &str = "/kept/both";
const IDS: &str = "/kept/ids";
const TREE: &str = "/kept/tree";
const ITEMS: &str = "/kept/items";
/// More than anybody counts down in a run.
const MANY: u32 = 1000;

calls! {
    "counter.rs::get" => (me, on) { cut(&me, Counter::new(&on, NUMBER)?.get()).await.map(drop) }
    "counter.rs::add" => (me, on) {
        let number = Counter::new(&on, NUMBER)?;
        cut(&me, number.add(1)).await?;
        number.add(1).await.map(drop)
    }
    "counter.rs::set" => (me, on) {
        let number = Counter::new(&on, NUMBER)?;
        cut(&me, number.set(1)).await?;
        number.add(1).await.map(drop)
    }
    "counter.rs::compare_and_set" => (me, on) {
        let number = Counter::new(&on, NUMBER)?;
        let now = number.get().await?;
        cut(&me, number.compare_and_set(now, now + 1)).await?;
        number.add(1).await.map(drop)
    }
    "shared_value.rs::get" => (me, _on) { cut(&me, SharedValue::new(me.coord(), VALUE)?.get()).await.map(drop) }
    "shared_value.rs::set" => (me, _on) {
        let value = SharedValue::new(me.coord(), VALUE)?;
        cut(&me, value.set("1")).await?;
        value.set("2").await
    }
    "shared_value.rs::set_if" => (me, _on) {
        let value = SharedValue::new(me.coord(), VALUE)?;
        let version = value.get().await?.map(|now| now.version);
        cut(&me, value.set_if(version, "1")).await?;
        value.set("2").await
    }
    "ids.rs::next" => (me, _on) {
        let ids = IdGenerator::new(me.coord(), IDS)?.with_block(1)?;
        cut(&me, ids.next()).await?;
        ids.next().await.map(drop)
    }
    "barrier.rs::set" => (me, _on) {
        let gate = Barrier::new(me.coord(), GATE)?;
        cut(&me, gate.set()).await?;
        gate.remove().await.map(drop)
    }
    "barrier.rs::remove" => (me, _on) {
        let gate = Barrier::new(me.coord(), GATE)?;
        gate.set().await?;
        cut(&me, gate.remove()).await?;
        gate.remove().await.map(drop)
    }
    "barrier.rs::is_set" => (me, _on) { cut(&me, Barrier::new(me.coord(), GATE)?.is_set()).await.map(drop) }
    "barrier.rs::wait" => (me, _on) {
        let gate = Barrier::new(me.coord(), GATE)?;
        if me.id() > 1 {
            gate.set().await?;
            me.idle(30, 60).await;
            return gate.remove().await.map(drop);
        }
        cut(&me, gate.wait()).await?;
        gate.wait().await
    }
    "barrier.rs::wait_timeout" => (me, _on) {
        let gate = Barrier::new(me.coord(), GATE)?;
        if me.id() > 1 {
            gate.set().await?;
            me.idle(30, 60).await;
            return gate.remove().await.map(drop);
        }
        cut(&me, gate.wait_timeout(MOMENT)).await?;
        gate.wait().await
    }
    "latch.rs::count_down" => (me, on) {
        let latch = CountDownLatch::new(&on, LATCH, MANY)?;
        cut(&me, latch.count_down()).await?;
        latch.count_down().await.map(drop)
    }
    "latch.rs::count" => (me, on) { cut(&me, CountDownLatch::new(&on, LATCH, MANY)?.count()).await.map(drop) }
    "latch.rs::wait" => (me, on) {
        let latch = CountDownLatch::new(&on, LATCH, 2)?;
        if me.id() > 1 {
            me.idle(30, 60).await;
            return latch.count_down().await.map(drop);
        }
        cut(&me, latch.wait()).await?;
        latch.wait().await
    }
    "latch.rs::wait_timeout" => (me, on) {
        let latch = CountDownLatch::new(&on, LATCH, 2)?;
        if me.id() > 1 {
            me.idle(30, 60).await;
            return latch.count_down().await.map(drop);
        }
        cut(&me, latch.wait_timeout(MOMENT)).await?;
        latch.wait().await
    }
    "double_barrier.rs::enter" => (me, on) {
        // Three pair up as they come: one of them may be alone.
        let both = DoubleBarrier::new(&on, BOTH, 2)?;
        let inside = cut_within(&me, both.enter()).await.transpose()?;
        give_back(&me, inside, Entered::leave).await
    }
    "double_barrier.rs::enter_timeout" => (me, on) {
        let inside = cut(&me, DoubleBarrier::new(&on, BOTH, 2)?.enter_timeout(MOMENT)).await?;
        give_back(&me, inside.flatten(), Entered::leave).await
    }
    "double_barrier.rs::leave" => (me, on) {
        match DoubleBarrier::new(&on, BOTH, 2)?.enter_timeout(MOMENT).await? {
            Some(inside) => cut(&me, inside.leave()).await.map(drop),
            None => Ok(()),
        }
    }
    "double_barrier.rs::leave_timeout" => (me, on) {
        match DoubleBarrier::new(&on, BOTH, 2)?.enter_timeout(MOMENT).await? {
            Some(inside) => cut(&me, inside.leave_timeout(MOMENT)).await.map(drop),
            None => Ok(()),
        }
    }
    "work_queue/mod.rs::put" => (me, on) {
        let work = WorkQueue::new(&on, ITEMS)?;
        cut(&me, work.put(name_of(&me), Priority::NORMAL)).await?;
        work.put("last", Priority::NORMAL).await?;
        work.take().await?.ack().await
    }
    "work_queue/mod.rs::put_once" => (me, on) {
        let work = WorkQueue::new(&on, ITEMS)?;
        cut(&me, work.put_once(&name_of(&me), "", Priority::NORMAL)).await?;
        work.put("last", Priority::NORMAL).await?;
        work.take().await?.ack().await
    }
    "work_queue/mod.rs::take" => (me, on) {
        let work = WorkQueue::new(&on, ITEMS)?;
        work.put(name_of(&me), Priority::NORMAL).await?;
        give_back(&me, cut(&me, work.take()).await?, Item::ack).await
    }
    "work_queue/mod.rs::try_take" => (me, on) {
        let work = WorkQueue::new(&on, ITEMS)?;
        work.put(name_of(&me), Priority::NORMAL).await?;
        give_back(&me, cut(&me, work.try_take()).await?.flatten(), Item::ack).await
    }
    "work_queue/mod.rs::take_timeout" => (me, on) {
        let work = WorkQueue::new(&on, ITEMS)?;
        work.put(name_of(&me), Priority::NORMAL).await?;
        let got = cut(&me, Box::pin(work.take_timeout(Duration::from_secs(20)))).await?;
        give_back(&me, got.flatten(), Item::ack).await
    }
    "work_queue/item.rs::lost" => (me, on) {
        let work = WorkQueue::new(&on, ITEMS)?;
        work.put(name_of(&me), Priority::NORMAL).await?;
        let item = work.take().await?;
        cut_within(&me, item.lost()).await;
        item.ack().await
    }
    "work_queue/item.rs::ack" => (me, on) {
        let work = WorkQueue::new(&on, ITEMS)?;
        work.put(name_of(&me), Priority::NORMAL).await?;
        cut(&me, work.take().await?.ack()).await.map(drop)
    }
    "work_queue/item.rs::give_back" => (me, on) {
        let work = WorkQueue::new(&on, ITEMS)?;
        work.put(name_of(&me), Priority::NORMAL).await?;
        cut(&me, work.take().await?.give_back()).await?;
        work.take().await?.ack().await
    }
    "cache/mod.rs::ready" => (me, _on) {
        let tree = Cache::tree(me.coord(), TREE)?;
        cut(&me, tree.ready()).await?;
        tree.ready().await
    }
    "cache/mod.rs::at_least" => (me, _on) {
        let tree = Cache::tree(me.coord(), TREE)?;
        let at = me.coord().put(format!("{TREE}/{}", me.id()), "1").await?.revision;
        cut(&me, tree.at_least(at)).await?;
        tree.at_least(at).await
    }
    "cache/mod.rs::wait_until" => (me, _on) {
        let tree = Cache::tree(me.coord(), TREE)?;
        me.coord().put(format!("{TREE}/{}", me.id()), "1").await?;
        let there = |seen: &coord_recipes::Snapshot| seen.iter().next().is_some();
        cut(&me, tree.wait_until(there)).await?;
        tree.wait_until(there).await.map(drop)
    }
    "cache/listener.rs::next" => (me, _on) {
        let tree = Cache::tree(me.coord(), TREE)?;
        let mut told = tree.listen();
        cut_within(&me, told.next()).await;
        tree.ready().await
    }
}
