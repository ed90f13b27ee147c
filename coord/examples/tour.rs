//! A tour: two workers, one lock, one of them frozen.
//!
//! Runs on the memory store, which can be told to freeze a session as a long pause of its process would. Nothing else
//! in it is special to memory: the same calls run on ZooKeeper, etcd and Redis.

#![allow(clippy::print_stdout, reason = "a tour is for reading")]

use std::{error::Error, sync::Arc, time::Duration};

use coord::{
    Coord, Dir, ErrorKind, FencingToken, Key, Lock, LockGuard, Txn,
    api::{CheckedLayer, Layer, kit::Runtime},
    memory::{MemoryBackend, MemoryStore},
};
use tokio::time::{Instant, sleep};

/// Short, so that the tour is.
const TTL: Duration = Duration::from_secs(3);

/// Pauses between the steps, for people.
const PACE: Duration = Duration::from_millis(700);

/// A resource outside the store, such as a disk or another service. It knows one rule: never go back.
#[derive(Default)]
struct Warehouse {
    newest: Option<FencingToken>,
    stock: u32,
}

impl Warehouse {
    fn set_stock(&mut self, stock: u32, token: FencingToken) -> Result<(), String> {
        if self.newest.is_some_and(|newest| token < newest) {
            return Err(format!("token {token} is from the past"));
        }
        self.newest = Some(token);
        self.stock = stock;
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::current()?;
    let store = MemoryStore::new(&runtime);
    // One handle a worker, as two processes would have; alice's can be disturbed.
    let alices = MemoryBackend::new(&store, runtime.clone());
    let faults = alices.faults();
    let alices = Coord::new(CheckedLayer.apply(Arc::new(alices)));
    let bobs = Coord::new(CheckedLayer.apply(Arc::new(MemoryBackend::new(&store, runtime))));
    let orders = Dir::parse("/locks/orders")?;
    let stock = Key::parse("/stock/apples")?;
    let mut warehouse = Warehouse::default();
    let began = Instant::now();

    title("1. Two workers want one lock");
    let alice = alices.session(TTL).await?;
    let bob = bobs.session(TTL).await?;
    let alices_guard = Lock::new(&alice, orders.clone())?.acquire().await?;
    say(began, &format!("alice asks and gets it, with fencing token {}", alices_guard.token()));
    let waiting = tokio::spawn({
        let lock = Lock::new(&bob, orders.clone())?;
        async move { lock.acquire().await }
    });
    line_is(&bobs, &orders, 2).await?;
    say(began, "bob asks and stands in line behind her");
    sleep(PACE).await;

    title("2. Alice works, and every write proves that she holds the lock");
    let written = alices_guard.commit(Txn::new().put(stock.clone(), "10")).await?;
    ensure(written.is_committed(), "alice holds the lock and writes")?;
    say(began, "alice writes 10 into the store, in one transaction with \"I still hold it\"");
    warehouse.set_stock(10, alices_guard.token())?;
    say(began, "alice tells the warehouse 10, and shows her token");
    sleep(PACE).await;

    title("3. Alice freezes: a long pause, a cut cable, a stopped container");
    let frozen = Instant::now();
    faults.freeze(alice.id());
    say(began, &format!("her session is no longer renewed; the store keeps it for {TTL:?}"));
    alices_guard.lost().await;
    let lost = frozen.elapsed();
    say(
        began,
        &format!("after {:.1}s her guard says: lost. By her own clock, asking nobody", lost.as_secs_f32()),
    );

    title("4. Only then does the store let bob in");
    let bobs_guard: LockGuard = waiting.await??;
    let granted = frozen.elapsed();
    say(
        began,
        &format!("after {:.1}s bob gets the lock, with token {}", granted.as_secs_f32(), bobs_guard.token()),
    );
    ensure(lost < granted, "alice knew before bob was let in")?;
    ensure(bobs_guard.token() > alices_guard.token(), "bob's token is larger")?;
    let written = bobs_guard.commit(Txn::new().put(stock.clone(), "25")).await?;
    ensure(written.is_committed(), "bob holds the lock and writes")?;
    warehouse.set_stock(25, bobs_guard.token())?;
    say(began, "bob writes 25 into the store and tells the warehouse");
    sleep(PACE).await;

    title("5. Alice wakes up and goes on as if nothing had happened");
    match alices_guard.commit(Txn::new().put(stock.clone(), "9")).await {
        Err(e) if matches!(e.kind(), ErrorKind::LockLost | ErrorKind::SessionLost) => {
            say(began, &format!("her write to the store is refused: {}", e.message()));
        }
        other => return Err(format!("the stale write was not refused: {other:?}").into()),
    }
    let condition = Txn::new().check(alices_guard.condition()).put(stock.clone(), "9");
    ensure(
        !alices.commit(condition).await?.is_committed(),
        "the store itself refuses, whatever her clock says",
    )?;
    say(began, "sent past her guard, the store refuses it too: her place in the line is gone");
    match warehouse.set_stock(9, alices_guard.token()) {
        Err(why) => say(began, &format!("the warehouse refuses her as well: {why}")),
        Ok(()) => return Err("the warehouse took a token from the past".into()),
    }
    let value = bobs.get(stock).await?.ok_or("the value is gone")?.value;
    ensure(value == "25" && warehouse.stock == 25, "bob's 25 stands")?;
    say(began, "bob's 25 stands in both");
    bobs_guard.release().await?;
    bob.close().await?;

    title("Next: the same on a server of yours");
    println!("  coord::connect(\"zk://127.0.0.1:2181/tour\")     ZooKeeper");
    println!("  coord::connect(\"etcd://127.0.0.1:2379/tour\")   etcd");
    println!("  coord::connect(\"redis://127.0.0.1:6379/tour\")  Redis or Valkey");
    println!("  or from a shell, with no program at all:");
    println!("  cargo run -p coord-cli -- --url redis://127.0.0.1:6379/tour lock /locks/orders -- echo mine");
    Ok(())
}

fn title(text: &str) {
    println!("\n{text}");
}

fn say(began: Instant, text: &str) {
    println!("  {:>5.1}s  {text}", began.elapsed().as_secs_f32());
}

/// The tour shows what is so: it stops where it is not.
fn ensure(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}

/// Waits until `count` stand in the line of a lock.
async fn line_is(store: &Coord, lock: &Dir, count: usize) -> coord::Result<()> {
    loop {
        let line = store.list(lock.clone()).await?;
        if line.children.len() >= count {
            return Ok(());
        }
        store.wait(&coord::Seen::Children(lock.clone(), line.revision)).await?;
    }
}
